//! Egress: which addresses a request may choose.

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::scalar::{OneOrMany, PortMatch, Prefixes, one_or_many};

/// Rules for addresses chosen by a request, checked on the address dialled.
///
/// Loopback, link-local, private, shared, documentation, multicast and unspecified addresses, and the
/// machine's own addresses, public ones too, are denied unless `allow` names them; those that Hermes listens on always are. Endpoints that the operator
/// wrote are not subject to these rules.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Egress {
    /// Prefixes that are allowed although the default denies them.
    #[serde(default, deserialize_with = "one_or_many")]
    #[schemars(with = "Prefixes")]
    pub allow: Vec<IpNet>,
    /// Prefixes that are denied although the default allows them; stronger than `allow`.
    #[serde(default, deserialize_with = "one_or_many")]
    #[schemars(with = "Prefixes")]
    pub deny: Vec<IpNet>,
    /// Ports that are denied. Default: 25.
    #[serde(default)]
    pub deny_ports: Option<Vec<PortMatch>>,
    /// Addresses of this machine, one of a family, from which connections and datagrams leave.
    /// Default: by the routes of the machine.
    #[serde(default)]
    pub local_address: OneOrMany<String>,
    /// Whether they leave with the address and port of the client, as `capture` knows it: servers see the client, and answer it, so that their
    /// way to it must lead through this machine. It takes `CAP_NET_ADMIN`. Default: false.
    #[serde(default)]
    pub keep_source: bool,
    /// Connections to targets may be of Multipath TCP (RFC 8684) where requests ask for it (`Hermes-Multipath`, clients of SOCKS6). A target
    /// may then name further addresses, which the kernel tries without asking these rules if `ip mptcp limits` has it accept any; by default it
    /// accepts none. Default: false.
    #[serde(default)]
    pub multipath: bool,
    /// Interface of this machine by which they leave. Default: by the routes of the machine.
    #[serde(default)]
    pub interface: Option<String>,
}
