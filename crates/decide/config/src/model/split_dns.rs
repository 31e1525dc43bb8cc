//! Names of the overlay for programs that know addresses only.

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::scalar::{HostMatch, NameServerAddress, OneOrMany, Prefix};

/// Answers of a `tun` listener to DNS questions of this machine. A name of the overlay gets an
/// address of its own; traffic to it takes the routes of the name.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SplitDns {
    /// Prefixes, one of each family at most, of which each name gets an address. The second address of each is that of the name server.
    #[schemars(with = "OneOrMany<Prefix>")]
    pub pool: OneOrMany<IpNet>,
    /// The names of the overlay. Default: those that routes of this listener name in `target`, expressions and `*` apart.
    #[serde(default)]
    pub names: OneOrMany<HostMatch>,
    /// Questions about other names. Default: forward.
    #[serde(default)]
    pub others: Option<OtherNames>,
    /// The name servers that are asked about other names, one after the other. Default: those of `/etc/resolv.conf`, but for this one.
    #[serde(default)]
    pub resolvers: OneOrMany<NameServerAddress>,
    /// Pings of names. Default: answer.
    #[serde(default)]
    pub echo: Option<NamedEcho>,
}

/// The handling of questions about names outside the overlay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OtherNames {
    /// A resolver is asked, and its answer goes back, both unchanged.
    Forward,
    /// They are refused, so that programs ask the next name server.
    Refuse,
}

/// The handling of echo requests for the address of a name. An exchange does not carry them, so
/// they cannot be passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NamedEcho {
    /// They are answered here: they say that the name is one of the overlay, and nothing of its host.
    Answer,
    /// Their sender is told that they are prohibited.
    Refuse,
}
