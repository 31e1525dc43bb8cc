//! Sockets that wait for peers: of CONNECT-UDP Bind, and for the connection that a BIND of SOCKS expects.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::scalar::{Duration, OneOrMany, PortMatch};

/// Where sockets that wait for peers stand.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bind {
    /// Addresses of this machine on which each request gets a port of its own: one of IPv4, one of IPv6, or both.
    pub listen: OneOrMany<String>,
    /// The addresses that clients are told instead, in the same order, if a NAT that keeps ports
    /// stands before them. Default: `listen`.
    #[serde(default)]
    pub public: Option<OneOrMany<String>>,
    /// Wait for a connection of the target, where a CONNECT says `Hermes-Listen: ?1` as the BIND of SOCKS does. Default: it is refused.
    #[serde(default)]
    pub tcp: Option<BindTcp>,
}

/// How connections of targets are waited for.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BindTcp {
    /// The ports that are opened for it, at most 1024, such as `40000-40099`.
    pub ports: PortMatch,
    /// How long a port waits for its connection, at most `10m`. Default: `2m`.
    #[serde(default)]
    pub wait: Option<Duration>,
    /// Ports that wait at once for one user, or for one source without a user. Default: 4.
    #[serde(default)]
    pub per_user: Option<u16>,
    /// Let clients wait for anyone whom `egress` allows, by the target `0.0.0.0` or `::`. Default: false.
    #[serde(default)]
    pub anyone: bool,
}
