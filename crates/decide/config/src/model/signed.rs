//! Signed URLs: requests of a route need one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::DataSource;
use super::scalar::OneOrMany;

/// The signature that URLs of a route need.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SignedUrls {
    /// Files of keys of at least 32 characters, one to four: a signature by any of them counts.
    pub key_file: OneOrMany<DataSource>,
    /// The parameter of the query that holds the signature. Default: `signature`.
    #[serde(default)]
    pub parameter: Option<String>,
    /// Whether the next hop gets the parameter, too; two signatures of one URL share no stored response then. Default: false.
    #[serde(default)]
    pub keep: bool,
}

impl SignedUrls {
    /// The parameter, where none is written.
    pub const PARAMETER: &str = "signature";

    /// The parameter of the query that holds the signature.
    pub fn parameter(&self) -> &str {
        self.parameter.as_deref().unwrap_or(Self::PARAMETER)
    }
}
