//! Parts of the program that a document names, and their settings.

use std::borrow::Cow;

use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value as Json};

/// Settings of a part of the program; only that part knows their form.
pub type PlugSettings = Map<String, Json>;

/// A part of the program, as a key names it: `NAME`, or `{ NAME: {..} }` with settings for this place alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlugUse {
    /// Its name.
    pub name: String,
    /// Its settings here; `None`: it is named alone.
    pub settings: Option<PlugSettings>,
}

impl<'de> Deserialize<'de> for PlugUse {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Name(String),
            WithSettings(IndexMap<String, PlugSettings>),
        }

        let named = match Written::deserialize(deserializer)? {
            Written::Name(name) => {
                return Ok(Self {
                    name,
                    settings: None,
                });
            }
            Written::WithSettings(named) => named,
        };
        let mut named = named.into_iter();
        match (named.next(), named.next()) {
            (Some((name, settings)), None) => Ok(Self {
                name,
                settings: Some(settings),
            }),
            _ => Err(D::Error::custom("a map names one part of the program")),
        }
    }
}

impl Serialize for PlugUse {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.settings {
            Some(settings) => IndexMap::from([(&self.name, settings)]).serialize(serializer),
            None => self.name.serialize(serializer),
        }
    }
}

impl JsonSchema for PlugUse {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "PlugUse".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let settings = json_schema!({ "type": "object", "additionalProperties": true });
        json_schema!({ "anyOf": [
            { "type": "string" },
            { "type": "object", "additionalProperties": settings, "minProperties": 1, "maxProperties": 1 },
        ] })
    }
}
