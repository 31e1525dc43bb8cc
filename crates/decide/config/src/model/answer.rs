//! Changes to the fields of answers.

use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::scalar::{FieldPattern, Template};

/// Changes to the final response of an exchange: first `remove`, then `set`, then `append`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerChanges {
    /// Fields set (existing values are replaced).
    #[serde(default)]
    pub set: IndexMap<String, Template>,
    /// Fields appended.
    #[serde(default)]
    pub append: IndexMap<String, Template>,
    /// Fields removed.
    #[serde(default)]
    pub remove: Vec<FieldPattern>,
}

/// A gateway's announcement of its HTTP/3 in `Alt-Svc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum AltSvc {
    /// Nothing, or that it is at the port of the listener.
    Switch(bool),
    /// HTTP/3 is announced at this port, at which clients outside reach it.
    Port(u16),
}

impl JsonSchema for AltSvc {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "AltSvc".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            { "type": "boolean", "description": "false: nothing is said." },
            { "type": "integer", "minimum": 1, "maximum": 65535, "description": "The port at which clients outside reach it." },
        ] })
    }
}
