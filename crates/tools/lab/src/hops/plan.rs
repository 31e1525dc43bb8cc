//! Which points are measured.

use std::str::FromStr;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::network::{HOPS, Links};
use crate::report::Results;

/// The figures of all points.
pub type HopResults = Results<Point, HopSystem>;

/// A measurement.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum HopExperiment {
    /// The highest rate of datagrams with little loss, and their processor time in each process.
    Datagrams,
    /// Round trips of single datagrams, on flows that exist and on new ones.
    Latency,
    /// A thousand new flows at once.
    Flows,
    /// A download in several parts.
    Download,
    /// The qlog of the QUIC connection that reaches furthest from the client's proxy.
    Quic,
}

/// How a chain is made.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// No proxy.
    Direct,
    /// Each proxy speaks to the next.
    Forwarded,
    /// The client speaks to each proxy through those before it.
    Nested,
}

/// A system: the maker of the proxies, or none.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum HopSystem {
    /// None.
    Direct,
    /// Hermes.
    Hermes,
    /// Envoy.
    Envoy,
    /// masque-go.
    MasqueGo,
}

/// A measurement of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Point {
    /// The experiment.
    pub experiment: HopExperiment,
    /// Over which links.
    pub links: Links,
    /// How the chain is made.
    pub way: Way,
    /// Proxies beyond the one beside the client.
    pub hops: u8,
    /// Flows or parts of a download at once.
    pub transactions: u32,
}

/// A word of `--only`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// An experiment.
    Experiment(HopExperiment),
    /// A kind of links.
    Links(Links),
    /// A way to make a chain.
    Way(Way),
    /// A number of hops.
    Hops(u8),
    /// A number of transactions at once.
    Transactions(u32),
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let experiment = || HopExperiment::from_str(text, false).map(Self::Experiment);
        let links = || Links::from_str(text, false).map(Self::Links);
        let way = || Way::from_str(text, false).map(Self::Way);

        let hops = || {
            text.parse()
                .ok()
                .filter(|hops| *hops <= HOPS)
                .map(Self::Hops)
        };

        let transactions = || text.strip_prefix('x')?.parse().ok().map(Self::Transactions);
        let word = experiment().or_else(|_| links()).or_else(|_| way()).ok();
        word.or_else(hops).or_else(transactions).ok_or_else(|| {
            "expected some of datagrams, latency, flows, download, quic; fast, gigabit; direct, forwarded, nested; 0 to 4 hops; x1 to x1000 transactions"
                .to_owned()
        })
    }
}

impl HopExperiment {
    /// The figure that a page shows of it; all are in the JSON.
    pub fn headline(self) -> &'static str {
        match self {
            Self::Datagrams => "rate",
            Self::Latency => "kept flow",
            Self::Flows => "last answer",
            Self::Download => "throughput",
            Self::Quic => "QUIC round trip",
        }
    }

    /// All experiments, in the order of the report.
    pub const ALL: [Self; 5] = [
        Self::Datagrams,
        Self::Latency,
        Self::Flows,
        Self::Download,
        Self::Quic,
    ];

    /// As tables and options say it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Datagrams => "datagrams",
            Self::Latency => "latency",
            Self::Flows => "flows",
            Self::Download => "download",
            Self::Quic => "quic",
        }
    }

    /// Transactions at once: on every chain, and on those of no and of one hop.
    fn transactions(self) -> (&'static [u32], &'static [u32]) {
        match self {
            Self::Datagrams => (&[1], &[16, 256]),
            Self::Latency | Self::Quic => (&[1], &[]),
            Self::Flows => (&[1000], &[]),
            Self::Download => (&[1, 16], &[2, 4, 8, 32, 64, 128, 256]),
        }
    }
}

impl Way {
    /// As tables and options say it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Forwarded => "forwarded",
            Self::Nested => "nested",
        }
    }

    /// Chains of how many hops are made in this way.
    pub fn hops(self) -> std::ops::RangeInclusive<u8> {
        match self {
            Self::Direct => 0..=0,
            Self::Forwarded => 1..=HOPS,
            Self::Nested => 2..=HOPS,
        }
    }
}

impl HopSystem {
    /// All systems, in the order of the tables.
    pub const ALL: [Self; 4] = [Self::Direct, Self::Hermes, Self::Envoy, Self::MasqueGo];

    /// As tables and options say it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Hermes => "hermes",
            Self::Envoy => "envoy",
            Self::MasqueGo => "masque-go",
        }
    }

    /// Whether a point says something about it. Of the others, one hop of datagrams is compared.
    pub fn has(self, point: Point) -> bool {
        match self {
            Self::Direct => point.way == Way::Direct && point.experiment != HopExperiment::Quic,
            Self::Hermes => point.way != Way::Direct,
            Self::Envoy | Self::MasqueGo => {
                let own = matches!(
                    point.experiment,
                    HopExperiment::Download | HopExperiment::Quic
                );
                point.way != Way::Direct && point.hops == 1 && !own
            }
        }
    }
}

impl std::fmt::Display for HopSystem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::fmt::Display for Point {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            experiment,
            links,
            way,
            hops,
            transactions,
        } = self;
        write!(
            f,
            "{} x {transactions}, {} {hops} hops, {} links",
            experiment.name(),
            way.name(),
            links.name()
        )
    }
}

/// The points that `only` selects; it selects all of a sort of which it names none.
pub fn points(only: &[Part]) -> Vec<Point> {
    let mut points = Vec::new();
    for links in Links::ALL {
        for experiment in HopExperiment::ALL {
            for way in [Way::Direct, Way::Forwarded, Way::Nested] {
                for hops in way.hops() {
                    let (always, few) = experiment.transactions();
                    let few = if hops <= 1 { few } else { &[] };
                    let mut transactions: Vec<u32> = always.iter().chain(few).copied().collect();
                    transactions.sort_unstable();

                    let point = |transactions| Point {
                        experiment,
                        links,
                        way,
                        hops,
                        transactions,
                    };

                    points.extend(transactions.into_iter().map(point));
                }
            }
        }
    }

    points.retain(|point| wanted(only, *point));
    points
}

/// Whether a point has one of the words of each sort that there are words of.
fn wanted(only: &[Part], point: Point) -> bool {
    let own = [
        Part::Experiment(point.experiment),
        Part::Links(point.links),
        Part::Way(point.way),
        Part::Hops(point.hops),
        Part::Transactions(point.transactions),
    ];
    own.iter().all(|own| {
        let mut same = only
            .iter()
            .filter(|part| std::mem::discriminant(*part) == std::mem::discriminant(own))
            .peekable();
        same.peek().is_none() || same.any(|part| part == own)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_different_sorts_narrow_and_of_the_same_sort_widen() {
        let only: Vec<Part> = ["download", "gigabit", "0", "1"]
            .map(|word| word.parse().unwrap())
            .to_vec();
        let found = points(&only);
        assert!(found.iter().all(|p| p.experiment == HopExperiment::Download
            && p.links == Links::Gigabit
            && p.hops <= 1));
        let transactions: Vec<_> = found
            .iter()
            .filter(|p| p.hops == 1)
            .map(|p| p.transactions)
            .collect();
        assert_eq!(transactions, [1, 2, 4, 8, 16, 32, 64, 128, 256]);
        assert_eq!(
            points(&["nested".parse().unwrap(), "4".parse().unwrap()]).len(),
            2 * 6
        );
        assert_eq!(
            points(&["x256".parse().unwrap(), "nested".parse().unwrap()]),
            []
        );
        assert!("5".parse::<Part>().unwrap_err().contains("hops"));
    }
}
