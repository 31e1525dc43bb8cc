//! Assigning exchanges to endpoints consistently.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The key of `balance: ring_hash`: exactly one of these.
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
    /// The user of the exchange.
    #[serde(default)]
    pub user: bool,
}
