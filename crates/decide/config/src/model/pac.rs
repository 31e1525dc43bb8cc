//! Proxy auto-configuration: a file that tells browsers which names go through the proxy.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether and with what content `/proxy.pac` is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Pac {
    /// `true`: names that the routes know go through this proxy, all others directly; `false`: there is no such file.
    Switch(bool),
    /// `all`: everything goes through this proxy.
    Word(PacWord),
}

/// A choice in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PacWord {
    /// Everything goes through this proxy.
    All,
}

impl Pac {
    /// Whether the file is served.
    pub fn is_served(self) -> bool {
        self != Self::Switch(false)
    }
}
