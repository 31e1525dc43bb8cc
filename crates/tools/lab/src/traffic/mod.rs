//! The load: kinds of exchanges, and the sessions that carry them.

pub mod bulk;
pub mod datagrams;
pub mod http;
pub mod search;
pub mod session;

pub use session::{Client, Session};

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// A kind of exchange.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A request with a small response.
    Http,
    /// A tunnel that the client asks for, and TLS with the origin in it.
    Connect,
    /// A TCP connection of a client that knows no proxy.
    Tcp,
    /// Datagrams of a client that knows no proxy.
    Udp,
}

/// The protocol between the two proxies of a pair.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Link {
    /// HTTP/1.1, clear.
    H1,
    /// HTTP/2, clear.
    H2,
    /// HTTP/2 under TLS with certificates on both sides.
    Tls,
    /// HTTP/2, clear, and HTTP/1.1 for tunnels that are likely to be bulk; only Hermes picks.
    Picked,
    /// HTTP/3 with certificates on both sides; only Hermes is measured over it here, others in `hops`.
    H3,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Http, Self::Connect, Self::Tcp, Self::Udp];

    /// As tables and options say it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Connect => "connect",
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

impl Link {
    /// The links that peers have as well.
    pub const COMMON: [Self; 3] = [Self::H1, Self::H2, Self::Tls];

    /// All links.
    pub const ALL: [Self; 5] = [Self::H1, Self::H2, Self::Tls, Self::Picked, Self::H3];

    /// As tables and options say it.
    pub fn name(self) -> &'static str {
        match self {
            Self::H1 => "h1",
            Self::H2 => "h2",
            Self::Tls => "tls",
            Self::Picked => "picked",
            Self::H3 => "h3",
        }
    }
}

/// Where a client of one kind enters a system.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The kind of its exchanges.
    pub kind: Kind,
    /// Where clients connect.
    pub address: SocketAddr,
    /// For [`Kind::Connect`]: ask this place for a tunnel first.
    pub asks: bool,
}
