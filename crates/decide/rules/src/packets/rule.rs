//! One rule on packets.

use std::net::IpAddr;
use std::sync::Arc;

use hermes_config::element;
use hermes_config::model::{self, FlowOpener, OneOrMany, UserMatch};
use hermes_proto::host::embedded;
use hermes_proto::ip::{IpPrefix, TCP, UDP};
use ipnet::IpNet;

/// Protocols of which a rule can name ports: TCP, UDP, DCCP, SCTP and UDP-Lite.
const WITH_PORTS: [u8; 5] = [TCP, UDP, 33, 132, 136];

/// A side of a tunnel, and who opens a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OpenedBy {
    /// The client of the tunnel.
    Client,
    /// The other end.
    Target,
}

impl OpenedBy {
    /// It, in a word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Target => "target",
        }
    }

    /// The side opposite.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Client => Self::Target,
            Self::Target => Self::Client,
        }
    }
}

/// Ports from one to another, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PortRange {
    /// The first.
    pub first: u16,
    /// The last.
    pub last: u16,
}

/// A rule: an empty part matches anything.
#[derive(Debug, Clone)]
pub struct PacketRule {
    /// Its place in the document.
    pub place: usize,
    /// Its name in reasons and counters.
    pub name: Arc<str>,
    /// Whether matching packets may pass.
    pub allow: bool,
    /// The users of the tunnels.
    pub users: Vec<UserMatch>,
    /// The side that opens the flow.
    pub opened_by: OpenedBy,
    /// Where it is opened from.
    pub from: Vec<IpPrefix>,
    /// Where it is opened to.
    pub to: Vec<IpPrefix>,
    /// IP protocol numbers.
    pub protocols: Vec<u8>,
    /// Ports that it is opened to, of protocols that have some.
    pub ports: Vec<PortRange>,
}

/// A flow that someone opened.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) opened_by: OpenedBy,
    pub(super) opener: IpAddr,
    pub(super) target: IpAddr,
    pub(super) protocol: u8,
    /// `None` for a later fragment, which has no ports.
    pub(super) port: Option<u16>,
}

/// The reason for a packet that the default denies.
pub const NONE_ALLOWS: &str = "no rule on packets allows it";

impl PacketRule {
    /// The reason for a packet that this rule decides about, in words.
    #[must_use]
    pub fn says(&self) -> String {
        match self.allow {
            true => format!("rule {} on packets allows it", self.name),
            false => format!("rule {} on packets denies it", self.name),
        }
    }

    /// A rule of a document, which stands at this place.
    pub(super) fn of(place: usize, rule: &model::PacketRule) -> Self {
        let name = match &rule.name {
            Some(name) => name.as_str().into(),
            None => element("policy.packets.rules", place).into(),
        };
        let port = |range: &model::PortMatch| PortRange {
            first: range.low,
            last: range.high,
        };

        Self {
            place,
            name,
            allow: rule.allow == Some(true),
            users: all(rule.user.as_ref()).cloned().collect(),
            opened_by: rule.opened_by.into(),
            from: all(rule.from.as_ref()).filter_map(prefix_of).collect(),
            to: all(rule.to.as_ref()).filter_map(prefix_of).collect(),
            protocols: all(rule.protocol.as_ref())
                .map(|protocol| protocol.0)
                .collect(),
            ports: all(rule.port.as_ref()).map(port).collect(),
        }
    }

    /// Allows all flows that the client opens; to be narrowed.
    pub fn allow(name: &str) -> Self {
        Self {
            place: 0,
            name: name.into(),
            allow: true,
            users: Vec::new(),
            opened_by: OpenedBy::Client,
            from: Vec::new(),
            to: Vec::new(),
            protocols: Vec::new(),
            ports: Vec::new(),
        }
    }

    /// Denies all flows that the client opens; to be narrowed.
    pub fn deny(name: &str) -> Self {
        Self {
            allow: false,
            ..Self::allow(name)
        }
    }

    /// Whether it matches a flow.
    pub(super) fn matches(&self, asked: &Asked) -> bool {
        self.opened_by == asked.opened_by
            && self.takes_protocol(asked.protocol)
            && self.takes_opener(asked.opener)
            && self.takes_target(asked.target)
            && self.takes_port(asked)
    }

    pub(super) fn takes_protocol(&self, protocol: u8) -> bool {
        self.protocols.is_empty() || self.protocols.contains(&protocol)
    }

    pub(super) fn takes_opener(&self, address: IpAddr) -> bool {
        self.takes(&self.from, address)
    }

    pub(super) fn takes_target(&self, address: IpAddr) -> bool {
        self.takes(&self.to, address)
    }

    /// A translator on the way sends packets for an IPv6 address of NAT64 or 6to4 to the IPv4 address in it: a rule that denies the latter
    /// denies both, and one that allows the latter does not speak of the former.
    fn takes(&self, prefixes: &[IpPrefix], address: IpAddr) -> bool {
        holds(prefixes, address)
            || (!self.allow && address.is_ipv6() && holds_embedded(prefixes, address))
    }

    pub(super) fn takes_port(&self, asked: &Asked) -> bool {
        if self.ports.is_empty() {
            return true;
        }
        if !has_ports(asked.protocol) {
            return false;
        }
        match asked.port {
            Some(port) => self
                .ports
                .iter()
                .any(|range| (range.first..=range.last).contains(&port)),
            // The fragment might be of a denied port, and might not be of an allowed one.
            None => !self.allow,
        }
    }
}

impl From<FlowOpener> for OpenedBy {
    fn from(opener: FlowOpener) -> Self {
        match opener {
            FlowOpener::Client => Self::Client,
            FlowOpener::Target => Self::Target,
        }
    }
}

/// Whether rules can name ports of this protocol.
pub fn has_ports(protocol: u8) -> bool {
    WITH_PORTS.contains(&protocol)
}

fn all<T>(listed: Option<&OneOrMany<T>>) -> impl Iterator<Item = &T> {
    listed.into_iter().flat_map(|listed| listed.iter())
}

/// A prefix as the document has it, without the bits beyond its length; `None` if it is not valid.
pub fn prefix_of(net: &IpNet) -> Option<IpPrefix> {
    IpPrefix::around(net.addr(), net.prefix_len()).ok()
}

/// Whether one of the prefixes holds an IPv4 address that lies in this one.
#[cold]
fn holds_embedded(prefixes: &[IpPrefix], address: IpAddr) -> bool {
    let mut held = embedded(address).into_iter().flatten();
    held.any(|held| holds(prefixes, held.into()))
}

fn holds(prefixes: &[IpPrefix], address: IpAddr) -> bool {
    prefixes.is_empty() || prefixes.iter().any(|prefix| prefix.contains(address))
}
