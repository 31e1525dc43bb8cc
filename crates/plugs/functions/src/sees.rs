//! The messages that a function outside sees.

use schemars::JsonSchema;
use serde::Deserialize;

/// Which messages a function outside sees.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Sees {
    /// Requests.
    Requests,
    /// Answers.
    Answers,
    /// Both.
    #[default]
    Both,
}
