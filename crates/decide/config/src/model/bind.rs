//! CONNECT-UDP Bind: sockets that are not for one target only.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::scalar::OneOrMany;

/// Where the sockets of CONNECT-UDP Bind stand.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bind {
    /// Addresses of this machine on which each request gets a port of its own: one of IPv4, one of IPv6, or both.
    pub listen: OneOrMany<String>,
    /// The addresses that clients are told instead, in the same order, if a NAT that keeps ports
    /// stands before them. Default: `listen`.
    #[serde(default)]
    pub public: Option<OneOrMany<String>>,
}
