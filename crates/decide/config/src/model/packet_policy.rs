//! Policy on IP packets: which flows may pass the tunnels that end at a device.

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PolicyDefault;
use super::data_source::DataSource;
use super::scalar::{IpProtocol, OneOrMany, PortMatch, Prefix, UserMatch};

/// Rules that the packets of CONNECT-IP tunnels meet where the tunnel ends at a device, once for each flow.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PacketPolicy {
    /// Packets that no rule matches. Default: they are dropped, and their senders told.
    #[serde(default)]
    pub default: PolicyDefault,
    /// The first rule that matches decides.
    #[serde(default)]
    pub rules: Vec<PacketRule>,
    /// A policy in Rego that decides about each flow that the rules allow. Default: none.
    #[serde(default)]
    pub rego: Option<PacketRego>,
}

/// A policy in Rego about flows, evaluated where their packets are, so that only one may be asked that cannot take long.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PacketRego {
    /// Files of rules, and of data where the name ends in `.json`; an inline text is data if it starts with `{`.
    pub files: OneOrMany<DataSource>,
    /// The rule that decides: `data.overlay.allow`.
    pub query: String,
}

/// One rule, about flows that one side opens; the answers to allowed flows pass as well.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PacketRule {
    /// Name in metrics. Default: its position, as `policy.packets.rules[3]`.
    #[serde(default)]
    pub name: Option<String>,
    /// Users of the tunnels: a name, `*@example.com`, `group:admins` or `~regex`. Default:
    /// everyone.
    #[serde(default)]
    pub user: Option<OneOrMany<UserMatch>>,
    /// Which side opens the flow. Default: the client.
    #[serde(default)]
    pub opened_by: FlowOpener,
    /// Prefixes that it is opened from. Default: any.
    #[serde(default)]
    #[schemars(with = "Option<OneOrMany<Prefix>>")]
    pub from: Option<OneOrMany<IpNet>>,
    /// Prefixes that it is opened to. Default: any.
    #[serde(default)]
    #[schemars(with = "Option<OneOrMany<Prefix>>")]
    pub to: Option<OneOrMany<IpNet>>,
    /// Protocols above IP. Default: any.
    #[serde(default)]
    pub protocol: Option<OneOrMany<IpProtocol>>,
    /// Ports that it is opened to, of protocols that have some. Default: any.
    #[serde(default)]
    pub port: Option<OneOrMany<PortMatch>>,
    /// `true`: it may pass.
    #[serde(default)]
    pub allow: Option<bool>,
    /// `true`: it is dropped, and its sender told.
    #[serde(default)]
    pub deny: Option<bool>,
}

/// Which side of a tunnel opens a flow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FlowOpener {
    /// The client of the tunnel.
    #[default]
    Client,
    /// Hosts behind the device where it ends.
    Target,
}
