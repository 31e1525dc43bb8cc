//! The experiments, and the cases of each.

use serde::{Deserialize, Serialize};

use crate::peers::Name;
use crate::traffic::{Kind, Link};

/// An experiment.
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
pub enum Experiment {
    /// Time of exchanges that follow each other: each by a new client, or all by one.
    Latency,
    /// Time until many clients that come at once have their answers.
    Burst,
    /// Exchanges a second.
    Saturation,
    /// Rate of a download, and processor time for it.
    Bulk,
    /// Rate of datagrams of which few are lost.
    Datagrams,
    /// Memory of idle tunnels, and of idle connections.
    Tunnels,
    /// Time, memory and size of a proxy that has done nothing yet.
    Start,
    /// Instructions of each proxy for an exchange, counted by valgrind.
    Instructions,
}

/// One experiment on one kind of exchange over one kind of link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Case {
    /// The experiment.
    pub experiment: Experiment,
    /// The kind of exchange.
    pub kind: Kind,
    /// The protocol between the two proxies.
    pub link: Link,
}

impl Experiment {
    /// All experiments, in the order of the report.
    pub const ALL: [Self; 8] = [
        Self::Latency,
        Self::Burst,
        Self::Saturation,
        Self::Bulk,
        Self::Datagrams,
        Self::Tunnels,
        Self::Start,
        Self::Instructions,
    ];

    /// Its name in tables and options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Burst => "burst",
            Self::Saturation => "saturation",
            Self::Bulk => "bulk",
            Self::Datagrams => "datagrams",
            Self::Tunnels => "tunnels",
            Self::Start => "start",
            Self::Instructions => "instructions",
        }
    }

    /// The kinds of exchange that it measures.
    pub fn kinds(self) -> &'static [Kind] {
        match self {
            Self::Latency | Self::Burst => &Kind::ALL,
            Self::Saturation | Self::Instructions => &[Kind::Http, Kind::Connect, Kind::Tcp],
            Self::Bulk => &[Kind::Http, Kind::Tcp],
            Self::Datagrams => &[Kind::Udp],
            Self::Tunnels => &[Kind::Http, Kind::Tcp, Kind::Udp],
            Self::Start => &[Kind::Http],
        }
    }

    /// The links that a kind goes over, unless others are asked for.
    pub fn links(self, kind: Kind) -> &'static [Link] {
        match (self, kind) {
            (Self::Start, _) | (Self::Bulk | Self::Tunnels, Kind::Http) => &[Link::H1],
            (Self::Bulk, _) => &Link::ALL,
            (Self::Datagrams, _) => &[Link::H2, Link::H3],
            (_, Kind::Http) => &[Link::H1, Link::H2],
            _ => &[Link::H2],
        }
    }

    /// Whether its figures mean something for a system.
    pub fn suits(self, system: Name) -> bool {
        match self {
            Self::Tunnels => !matches!(system, Name::Direct | Name::Null),
            Self::Start => system != Name::Direct,
            // valgrind is not made for programs in Go, and hears no end of h2o.
            Self::Instructions => {
                !matches!(system, Name::Direct | Name::Null | Name::H2o | Name::Caddy)
            }
            _ => true,
        }
    }
}
