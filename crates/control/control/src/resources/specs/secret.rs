//! `Secret`: a text that its nodes alone can read.

use std::collections::BTreeMap;
use std::fmt;

use hermes_api::Name;
use schemars::JsonSchema;
use serde::Deserialize;

/// A text, such as a key or a password, that some nodes have as a file. Other resources name the file as `${secret:NAME}`.
#[derive(Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretSpec {
    /// The nodes that have it.
    #[serde(rename = "for")]
    #[schemars(with = "Vec<String>")]
    pub nodes: Vec<Name>,
    /// The text. It is sealed to the keys of the nodes when the resource is applied, and kept nowhere.
    #[serde(default)]
    pub value: Option<String>,
    /// In place of `value`, a file with the text, from the folder of the resource's own file. `hermes apply` reads it where it runs.
    #[serde(default)]
    pub file: Option<String>,
    /// The text as each node can open it; the controller writes it.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, String>")]
    pub sealed: BTreeMap<Name, String>,
}

impl fmt::Debug for SecretSpec {
    /// Without the text.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("SecretSpec")
            .field("nodes", &self.nodes)
            .finish_non_exhaustive()
    }
}
