//! What stays with one endpoint.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What `balance: ring_hash` goes by: exactly one of these.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hash {
    /// The value of this request field.
    #[serde(default)]
    pub field: Option<String>,
    /// The value of this cookie.
    #[serde(default)]
    pub cookie: Option<String>,
    /// The client's IP address.
    #[serde(default)]
    pub source: bool,
    /// The user whose exchange it is.
    #[serde(default)]
    pub user: bool,
}
