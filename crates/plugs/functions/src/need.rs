//! Whether a function is needed.

use schemars::JsonSchema;
use serde::Deserialize;

/// Whether a function outside is needed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Need {
    /// Nothing passes without it.
    #[default]
    All,
    /// What it cannot take passes without it.
    Best,
}
