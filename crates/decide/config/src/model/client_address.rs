//! Clients behind other proxies: which field tells of their addresses, and who is believed.

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::scalar::{Prefixes, one_or_many};

/// Where the address of a client stands that comes through other proxies.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClientAddress {
    /// The field: `forwarded` (RFC 7239), or one with a list of addresses such as `x-forwarded-for`.
    pub field: String,
    /// Prefixes of the proxies that write it. From anyone else it is not read, and removed.
    #[serde(default, deserialize_with = "one_or_many")]
    #[schemars(with = "Prefixes")]
    pub from: Vec<IpNet>,
}
