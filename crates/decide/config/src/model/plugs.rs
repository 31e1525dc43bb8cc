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
            AtNode {
                at: String,
                #[serde(rename = "do")]
                functions: Json,
            },
            WithSettings(IndexMap<String, PlugSettings>),
        }

        let named = match Written::deserialize(deserializer)? {
            Written::Name(name) => {
                return Ok(Self {
                    name,
                    settings: None,
                });
            }
            // The short form of `{ at: { node: .., do: .. } }`, which the schema knows in `through` alone.
            Written::AtNode { at, functions } => {
                let settings = [("node", Json::String(at)), ("do", functions)];
                let settings = settings.map(|(key, value)| (key.to_owned(), value));
                return Ok(Self {
                    name: "at".to_owned(),
                    settings: Some(settings.into_iter().collect()),
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

/// A function in `through` of a route: beside the forms of every part of the program one for functions of another node.
pub(crate) fn function_schema(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = PlugUse::json_schema(generator);
    let at_node = serde_json::json!({
        "type": "object",
        "properties": {
            "at": { "type": "string", "description": "The node." },
            "do": { "type": "array", "items": { "type": "string" }, "description": "Names in its `functions`, in their order." },
        },
        "required": ["at", "do"],
        "additionalProperties": false,
    });
    let forms = schema.get_mut("anyOf").and_then(Json::as_array_mut);
    forms
        .into_iter()
        .for_each(|forms| forms.push(at_node.clone()));
    json_schema!({ "type": "array", "items": schema })
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
