//! One rule on packets.

use std::net::IpAddr;
use std::sync::Arc;

use hermes_proto::ip::{IpPrefix, TCP, UDP};

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

/// A rule: what is empty means any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacketRule {
    /// Its name in reasons and counters.
    pub name: Arc<str>,
    /// Whether what matches may pass.
    pub allow: bool,
    /// Whose tunnels it is about.
    pub users: Vec<String>,
    /// Who opens the flow.
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
    /// None: a later fragment does not say.
    pub(super) port: Option<u16>,
}

impl PacketRule {
    /// Allows whatever the client opens; to be narrowed.
    pub fn allow(name: &str) -> Self {
        Self {
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

    /// Denies whatever the client opens; to be narrowed.
    pub fn deny(name: &str) -> Self {
        Self {
            allow: false,
            ..Self::allow(name)
        }
    }

    pub(super) fn is_about(&self, user: Option<&str>) -> bool {
        self.users.is_empty() || user.is_some_and(|user| self.users.iter().any(|one| one == user))
    }

    /// Whether it matches a flow.
    pub(super) fn matches(&self, asked: &Asked) -> bool {
        self.opened_by == asked.opened_by
            && (self.protocols.is_empty() || self.protocols.contains(&asked.protocol))
            && holds(&self.from, asked.opener)
            && holds(&self.to, asked.target)
            && self.takes_port(asked)
    }

    fn takes_port(&self, asked: &Asked) -> bool {
        if self.ports.is_empty() {
            return true;
        }
        if !WITH_PORTS.contains(&asked.protocol) {
            return false;
        }
        match asked.port {
            Some(port) => self
                .ports
                .iter()
                .any(|range| (range.first..=range.last).contains(&port)),
            // It might be of a port that is denied, and might not be of one that is allowed.
            None => !self.allow,
        }
    }
}

fn holds(prefixes: &[IpPrefix], address: IpAddr) -> bool {
    prefixes.is_empty() || prefixes.iter().any(|prefix| prefix.contains(address))
}
