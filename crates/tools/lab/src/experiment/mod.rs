//! What is measured. Each experiment runs one case on one system and gives figures; rounds and order are the caller's.

mod bulk;
mod burst;
mod datagrams;
mod instructions;
mod latency;
mod saturation;
mod start;
mod tunnels;

use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::origin::Addresses;
use crate::peers::{Name, Surroundings, System};
use crate::traffic::{Client, Entry, Kind, Link};

/// Which experiment.
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
    /// Which experiment.
    pub experiment: Experiment,
    /// What is carried.
    pub kind: Kind,
    /// What the proxies speak to each other.
    pub link: Link,
}

/// Whether more or less of a figure is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Times, sizes, failures.
    Less,
    /// Rates.
    More,
}

/// What a number is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figure {
    /// Its name within the case.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// Which direction is better.
    pub better: Better,
}

impl Figure {
    /// One of which less is better.
    pub fn less(name: impl Into<String>, unit: &str) -> Self {
        Self {
            name: name.into(),
            unit: unit.to_owned(),
            better: Better::Less,
        }
    }

    /// One of which more is better.
    pub fn more(name: impl Into<String>, unit: &str) -> Self {
        Self {
            name: name.into(),
            unit: unit.to_owned(),
            better: Better::More,
        }
    }
}

/// What one run of a case gave.
pub type Measured = Vec<(Figure, f64)>;

/// Where a case runs.
pub struct Bench<'a> {
    /// Which case.
    pub case: Case,
    /// The load.
    pub client: &'a Client,
    /// The system.
    pub system: &'a System,
    /// Where the load enters.
    pub entry: &'a Entry,
    /// The far end.
    pub origin: &'a Addresses,
    /// For experiments that start a system of their own.
    pub around: &'a Surroundings,
    /// Less time, for figures that scatter more.
    pub short: bool,
}

impl Bench<'_> {
    /// What each of so many exchanges cost the proxies since they had used `before`, in microseconds; none without proxies.
    fn cost(&self, name: &str, before: Duration, exchanges: u64) -> Option<(Figure, f64)> {
        let used = self.system.processor_time().saturating_sub(before);
        let each = used.as_secs_f64() * 1e6 / exchanges.max(1) as f64;
        (!self.system.processes.is_empty()).then(|| (Figure::less(name, "CPU us each"), each))
    }
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

    /// As tables and options say it.
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

    /// The kinds that it is about.
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

    /// Whether it says something about a system.
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

    /// Runs it.
    ///
    /// # Errors
    /// When exchanges fail whose failure is no figure of the experiment.
    pub async fn run(self, bench: &Bench<'_>) -> Result<Measured> {
        match self {
            Self::Latency => latency::run(bench).await,
            Self::Burst => burst::run(bench).await,
            Self::Saturation => saturation::run(bench).await,
            Self::Bulk => bulk::run(bench).await,
            Self::Datagrams => datagrams::run(bench).await,
            Self::Tunnels => tunnels::run(bench).await,
            Self::Start => start::run(bench).await,
            Self::Instructions => instructions::run(bench).await,
        }
    }
}
