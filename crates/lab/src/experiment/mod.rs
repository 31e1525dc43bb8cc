//! What is measured. Each experiment runs one case on one system and gives figures; rounds and order are the caller's.

mod latency;

use serde::{Deserialize, Serialize};

use anyhow::Result;

use crate::origin::Addresses;
use crate::peers::{Name, System};
use crate::traffic::{Client, Entry, Kind, Link};

/// Which experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Experiment {
    /// Time of exchanges that follow each other: each by a new client, or all by one.
    Latency,
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
        Self { name: name.into(), unit: unit.to_owned(), better: Better::Less }
    }

    /// One of which more is better.
    pub fn more(name: impl Into<String>, unit: &str) -> Self {
        Self { name: name.into(), unit: unit.to_owned(), better: Better::More }
    }
}

/// What one run of a case gave.
pub type Measured = Vec<(Figure, f64)>;

/// Where a case runs.
pub struct Bench<'a> {
    /// The load.
    pub client: &'a Client,
    /// The system.
    pub system: &'a System,
    /// Where the load enters.
    pub entry: &'a Entry,
    /// The far end.
    pub origin: &'a Addresses,
    /// A few seconds less for figures that scatter more.
    pub short: bool,
}

impl Experiment {
    /// All experiments, in the order of the report.
    pub const ALL: [Self; 1] = [Self::Latency];

    /// As tables and options say it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
        }
    }

    /// The kinds that it is about.
    pub fn kinds(self) -> &'static [Kind] {
        match self {
            Self::Latency => &Kind::ALL,
        }
    }

    /// The links that a kind goes over, unless others are asked for.
    pub fn links(self, kind: Kind) -> &'static [Link] {
        match (self, kind) {
            (Self::Latency, Kind::Http) => &[Link::H1, Link::H2],
            (Self::Latency, _) => &[Link::H2],
        }
    }

    /// Whether it makes sense for a system.
    pub fn suits(self, _system: Name) -> bool {
        true
    }

    /// Runs it.
    ///
    /// # Errors
    /// When exchanges fail whose failure is no figure of the experiment.
    pub async fn run(self, bench: &Bench<'_>) -> Result<Measured> {
        match self {
            Self::Latency => latency::run(bench).await,
        }
    }
}
