//! The facts of an exchange when its route is chosen.

use std::fmt;
use std::net::IpAddr;

use hermes_config::model::ExchangeKind;
use hermes_proto::fields::Fields;
use http::Method;
use ipnet::IpNet;
use serde_json::Value;

use super::host::Host;

/// Groups that are read from one token; further ones are ignored.
#[doc(alias = "bound")]
const CLAIMED_GROUPS: usize = 256;

/// The target of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target<'a> {
    /// A host and a port.
    Host {
        /// Host name or address; an IPv6 address with or without brackets, a name with or without its last dot.
        name: &'a str,
        /// Port.
        port: u16,
    },
    /// UDP with any peers that the client names later.
    Any,
    /// IP packets.
    Ip {
        /// Where they go.
        scope: Scope<'a>,
        /// Their IP protocol number; `None` for any.
        protocol: Option<u8>,
    },
}

/// Where IP packets go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope<'a> {
    /// Anywhere.
    Any,
    /// To a host by its name.
    Name(&'a str),
    /// To these addresses.
    Net(IpNet),
}

impl Scope<'_> {
    /// The addresses that begin like `address` for `length` bits, at most all it has.
    pub fn of_prefix(address: IpAddr, length: u8) -> Self {
        let whole = IpNet::from(address);
        Self::Net(IpNet::new(address, length).unwrap_or(whole))
    }
}

impl<'a> Target<'a> {
    /// The port, where it has one.
    pub fn port(&self) -> Option<u16> {
        match self {
            Self::Host { port, .. } => Some(*port),
            Self::Any | Self::Ip { .. } => None,
        }
    }

    /// The host, as conditions see it: `*` stands for any.
    pub(super) fn host(&self) -> Host<'a> {
        match self {
            Self::Host { name, .. } => Host::new(name),
            Self::Ip {
                scope: Scope::Name(name),
                ..
            } => Host::new(name),
            Self::Ip {
                scope: Scope::Net(net),
                ..
            } => Host::of_net(*net),
            Self::Any
            | Self::Ip {
                scope: Scope::Any, ..
            } => Host::new("*"),
        }
    }
}

impl fmt::Display for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host { name, port } => write!(f, "{name}:{port}"),
            Self::Any => f.write_str("*"),
            Self::Ip { scope, protocol } => {
                match scope {
                    Scope::Any => f.write_str("*")?,
                    Scope::Name(name) => f.write_str(name)?,
                    Scope::Net(net) => net.fmt(f)?,
                }
                protocol.map_or(Ok(()), |protocol| write!(f, " protocol {protocol}"))
            }
        }
    }
}

/// The facts of one exchange that routes can match.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The kind of exchange.
    pub kind: ExchangeKind,
    /// The target.
    pub target: Target<'a>,
    /// The authority that names this proxy itself, with its port if it was given.
    pub authority: Option<(&'a str, Option<u16>)>,
    /// Path without the query, as `hermes_proto::path` made it; empty for CONNECT.
    pub path: &'a str,
    /// Method.
    pub method: &'a Method,
    /// `:protocol` of an extended CONNECT, or the `Upgrade` token.
    pub protocol: Option<&'a str>,
    /// Fields, as they are after identification.
    pub fields: &'a Fields,
    /// The user.
    pub user: Option<&'a str>,
    /// The groups that this user's token claims.
    pub claimed: ClaimedGroups<'a>,
    /// Address that the connection came from; `None` for a Unix socket.
    pub source: Option<IpAddr>,
    /// Name of the listener.
    pub listener: &'a str,
}

/// A token's claim about the groups of its user: a list of texts, or one text. Any other value
/// claims nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClaimedGroups<'a>(pub Option<&'a Value>);

impl<'a> ClaimedGroups<'a> {
    /// The groups.
    pub fn iter(self) -> impl Iterator<Item = &'a str> {
        let list = match self.0 {
            Some(Value::Array(several)) => several.as_slice(),
            Some(one) => std::slice::from_ref(one),
            None => &[],
        };
        list.iter().take(CLAIMED_GROUPS).filter_map(Value::as_str)
    }

    /// Whether this one is among them.
    pub fn contains(self, name: &str) -> bool {
        self.iter().any(|group| group == name)
    }
}

/// Facts with everything prepared that several routes ask for; borrows, and allocates only for names of the document.
pub(crate) struct View<'a> {
    pub(super) facts: &'a Facts<'a>,
    pub(super) target: Host<'a>,
    pub(super) authority: Option<(Host<'a>, Option<u16>)>,
    pub(super) source: Option<IpAddr>,
    /// The groups and services that it belongs to; most exchanges have none.
    pub(super) named: Option<Box<Named<'a>>>,
}

/// The names of the document that mean an exchange.
#[derive(Default)]
pub(super) struct Named<'a> {
    /// The groups that the user is in.
    pub(super) groups: Vec<&'a str>,
    /// The services that the target belongs to.
    pub(super) services: Vec<&'a str>,
}

impl<'a> View<'a> {
    /// Without names of the document.
    pub(super) fn new(facts: &'a Facts<'a>) -> Self {
        Self {
            facts,
            target: facts.target.host(),
            authority: facts.authority.map(|(host, port)| (Host::new(host), port)),
            source: facts.source.map(|address| address.to_canonical()),
            named: None,
        }
    }
}
