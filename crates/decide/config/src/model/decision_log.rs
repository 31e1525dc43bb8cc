//! The log of decisions: its content, and its receiver.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ClientTls;
use super::scalar::{DecisionPointer, FilePath, HttpUrl, Percent};

/// Where decisions of the policy and of filters are logged, as Open Policy Agent logs its own.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DecisionLog {
    /// File that decisions are added to, one JSON object a line; begun anew when it was moved. This or `url` is required.
    #[serde(default)]
    pub file: Option<FilePath>,
    /// HTTP service that gets decisions by POST, as gzip'd lists of JSON: `http://127.0.0.1:8080/logs`.
    #[serde(default)]
    pub url: Option<HttpUrl>,
    /// TLS to an `https` url: trusted authorities and own certificate. Default: the system's
    /// authorities.
    #[serde(default)]
    pub tls: Option<ClientTls>,
    /// Share of the decisions to allow that are logged; those to deny all are. Default: 100%.
    #[serde(default)]
    pub sample: Option<Percent>,
    /// Parts of decisions that are left out. Credentials are in any case. Default: /input/query, /input/claims.
    #[serde(default = "default_mask")]
    pub mask: Vec<DecisionPointer>,
}

/// The values that are left out by default: both often hold secrets, or reveal identities.
fn default_mask() -> Vec<DecisionPointer> {
    ["/input/query", "/input/claims"]
        .into_iter()
        .filter_map(|part| part.parse().ok())
        .collect()
}
