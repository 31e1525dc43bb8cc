//! The cost of IP tunnels: figures of all rounds, and the goals.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::measure::IpFigures;
use super::system::IpSystem;
use crate::options::Published;
use crate::report::{Run, Summary, SystemRounds, number, page_table, plain_table};

/// One figure of a round; `None` when it could not be measured.
type IpFigure = fn(&IpFigures) -> Option<f64>;

/// The figures, with their names and units.
const FIGURES: [(&str, IpFigure); 11] = [
    ("TCP up, Gbit/s", |round| Some(round.up)),
    ("8 flows", |round| Some(round.up_crowd)),
    ("TCP down", |round| Some(round.down)),
    ("8 flows", |round| Some(round.down_crowd)),
    ("UDP 64, 1000/s", |round| round.udp_small),
    ("UDP 1200", |round| round.udp_large),
    ("ping, us", |round| Some(round.ping)),
    ("UDP trip", |round| Some(round.udp_trip)),
    ("request", |round| Some(round.request)),
    ("CPU s/GB of TCP", |round| Some(round.processor_tcp)),
    ("of UDP", |round| round.processor_udp),
];

/// Everything that was measured.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct IpResults {
    /// How.
    pub run: Option<Run>,
    /// The rounds of each system.
    pub systems: SystemRounds<IpSystem, IpFigures>,
    /// Measurements that failed, and why.
    pub failures: Vec<String>,
}

impl IpResults {
    /// A figure of a system, of all rounds that have it.
    fn of(&self, system: IpSystem, figure: IpFigure) -> Option<Summary> {
        self.systems.summary(system, figure)
    }

    fn row(&self, system: IpSystem) -> Vec<String> {
        let cell = |(_, figure): &(&str, IpFigure)| {
            self.of(system, *figure)
                .map(|summary| number(summary.median))
                .unwrap_or_default()
        };
        std::iter::once(system.name().to_owned())
            .chain(FIGURES.iter().map(cell))
            .collect()
    }

    /// The least of the four ratios of TCP between two systems, each the median over the rounds that have both.
    fn bulk(&self, system: IpSystem, to: IpSystem) -> Option<f64> {
        let ratios = FIGURES[..4].iter().map(|(_, figure)| {
            Some(self.of(system, *figure)?.median / self.of(to, *figure)?.median)
        });
        ratios
            .collect::<Option<Vec<f64>>>()?
            .into_iter()
            .reduce(f64::min)
    }

    /// How systems compare, where both were measured.
    fn ratios(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for system in self.systems.systems() {
            for to in [IpSystem::Copier, IpSystem::WireguardGo] {
                if let Some(ratio) = self.bulk(system, to).filter(|_| system != to) {
                    lines.push(format!(
                        "{system}: TCP at least {ratio:.2} of {to}'s, in both directions, one flow and eight"
                    ));
                }
            }
        }
        lines
    }

    /// One figure of one system in relation to that of another: medians.
    fn ratio(&self, system: IpSystem, to: IpSystem, figure: IpFigure) -> Option<f64> {
        Some(self.of(system, figure)?.median / self.of(to, figure)?.median)
    }

    /// The goals of Hermes, and the verdict on each.
    fn goals(&self) -> Vec<String> {
        use IpSystem::{
            Boringtun, Copier, HermesH2, HermesH2Four, HermesH2Two, HermesH3, HermesH3Four,
            HermesH3Two, HermesSuper, HermesSuperClear, HermesSuperFour, HermesSuperTwo,
            WireguardGo,
        };
        let mut goals = Vec::new();
        for (system, bound) in [(HermesSuper, 0.5), (HermesSuperClear, 0.8)] {
            goals.push(Goal::least(
                "TCP, of the copier's",
                system,
                self.bulk(system, Copier),
                bound,
            ));
        }
        for (system, two, four, bulk, hop) in [
            (HermesH2, HermesH2Two, HermesH2Four, 1.5, 1.2),
            (HermesH3, HermesH3Two, HermesH3Four, 1.5, 1.2),
            (HermesSuper, HermesSuperTwo, HermesSuperFour, 2.0, 0.8),
        ] {
            goals.push(Goal::least(
                "TCP, of wireguard-go's",
                system,
                self.bulk(system, WireguardGo),
                bulk,
            ));
            let large: IpFigure = |round| round.udp_large;
            goals.push(Goal::least(
                "UDP 1200, of boringtun's",
                system,
                self.ratio(system, Boringtun, large),
                1.0,
            ));
            goals.push(Goal::least(
                "UDP 1200, of wireguard-go's",
                system,
                self.ratio(system, WireguardGo, large),
                3.0,
            ));
            let trip: IpFigure = |round| Some(round.udp_trip);
            goals.push(Goal::most(
                "UDP trip, of the copier's",
                system,
                self.ratio(system, Copier, trip),
                1.2,
            ));
            let request: IpFigure = |round| Some(round.request);
            goals.push(Goal::most(
                "request, of boringtun's",
                system,
                self.ratio(system, Boringtun, request),
                1.0,
            ));
            goals.push(Goal::most(
                "processor time of TCP that a further node adds, of what the first adds",
                system,
                self.further(system, two, four),
                hop,
            ));
        }
        goals.iter().filter_map(Goal::line).collect()
    }

    /// The processor time that each node after the second adds to TCP, as a multiple of the second's addition.
    fn further(&self, one: IpSystem, two: IpSystem, four: IpSystem) -> Option<f64> {
        let time = |system| {
            let summary = self.of(system, |round| Some(round.processor_tcp));
            summary.map(|summary| summary.median)
        };
        let first = time(two)? - time(one)?;
        let further = (time(four)? - time(two)?) / 2.0;
        (first > 0.0).then_some(further / first)
    }
}

impl Published for IpResults {
    fn print(&self) -> String {
        let rows = self.systems.systems().map(|system| self.row(system));
        let table = plain_table(header(), rows, 1);

        let mut text = format!("Medians of all rounds\n\n{table}\n");
        for line in self
            .ratios()
            .iter()
            .chain(&self.goals())
            .chain(&self.failures)
        {
            // Writing to a string cannot fail.
            let _ = write!(text, "\n{line}");
        }
        text
    }

    fn page(&self) -> String {
        let mut page = format!("{INTRODUCTION}\n");
        let rows = self.systems.systems().map(|system| self.row(system));
        page += &page_table(&header(), rows, 1);

        page += "\n";
        for line in self.ratios().into_iter().chain(self.goals()) {
            page += &format!("- {line}\n");
        }
        if !self.failures.is_empty() {
            page += "\nWhat failed:\n\n";
            for line in &self.failures {
                page += &format!("- {line}\n");
            }
        }
        if let Some(run) = &self.run {
            page += &format!("\n{run}\n");
        }
        page
    }
}

/// A goal of a system.
struct Goal {
    what: &'static str,
    system: IpSystem,
    value: Option<f64>,
    bound: f64,
    at_least: bool,
}

impl Goal {
    fn least(what: &'static str, system: IpSystem, value: Option<f64>, bound: f64) -> Self {
        Self {
            what,
            system,
            value,
            bound,
            at_least: true,
        }
    }

    fn most(what: &'static str, system: IpSystem, value: Option<f64>, bound: f64) -> Self {
        Self {
            at_least: false,
            ..Self::least(what, system, value, bound)
        }
    }

    /// A line about the goal; `None` without figures for it.
    fn line(&self) -> Option<String> {
        let value = self.value?;
        let reached = match self.at_least {
            true => value >= self.bound,
            false => value <= self.bound,
        };
        let side = if self.at_least { "least" } else { "most" };
        let word = if reached { "reached" } else { "missed" };
        Some(format!(
            "{}: {}: {value:.2}, wanted at {side} {}: {word}",
            self.system, self.what, self.bound
        ))
    }
}

fn header() -> Vec<String> {
    let names = FIGURES.iter().map(|(name, _)| (*name).to_owned());
    std::iter::once("system".to_owned()).chain(names).collect()
}

/// The head of the page.
const INTRODUCTION: &str = "# What IP tunnels cost

A client and a server in a network namespace each, with a cable between them, on one machine: everything shares its processors, so only figures of the
same run are compared. `veth` is the cable itself. `copier` copies packets between two TUN devices as the kernel gives them, uncut and without encryption:
what any tunnel in user space can at best do. `hermes-h2` and `hermes-h3` are two nodes under TLS, `hermes-h2-clear` is without it, and a number counts the nodes behind the first. They carry each packet by
itself, and `hermes-super` super-packets. `hermes-wireguard` is wireguard-go at the client and a node at the server, which ends both WireGuard and its own tunnel. With `--rate` each cable is shaped to so many Mbit/s. The others are installed by `./test install`, as they come.

TCP is the content that arrives. UDP is the highest rate of which at most 1 % is lost, by payload; an empty cell means that even the lowest rate lost more.
`ping`, `UDP trip` and `request` (a connection, a request and its answer) are medians. Processor time is that of the tunnel's programs, of TCP in both directions
and of datagrams of 1200 bytes; what the kernel does for devices is not in it.
";

#[cfg(test)]
mod tests {
    use super::*;

    fn round(speed: f64) -> IpFigures {
        IpFigures {
            up: speed,
            up_crowd: speed,
            down: 2.0 * speed,
            down_crowd: speed,
            udp_small: None,
            udp_large: Some(speed),
            ping: 100.0 / speed,
            udp_trip: 100.0,
            request: 300.0,
            processor_tcp: 1.0,
            processor_udp: Some(2.0),
        }
    }

    #[test]
    fn systems_are_compared_by_what_all_their_flows_reach() {
        let mut results = IpResults::default();
        results.systems.add(IpSystem::WireguardGo, round(2.0));
        for speed in [7.0, 8.0, 9.0] {
            results.systems.add(IpSystem::Copier, round(speed));
        }
        results.systems.add(IpSystem::HermesH2, round(3.5));
        results.failures.push("round 1: boringtun: gone".to_owned());

        let text = results.print();
        assert!(
            text.contains("wireguard-go: TCP at least 0.25 of copier's"),
            "{text}"
        );
        assert!(
            text.contains("copier: TCP at least 4.00 of wireguard-go's"),
            "{text}"
        );
        assert!(text.contains("boringtun: gone"), "{text}");
        assert!(
            text.contains("hermes-h2: TCP, of wireguard-go's: 1.75, wanted at least 1.5: reached"),
            "{text}"
        );
        assert!(
            text.contains(
                "hermes-h2: UDP 1200, of wireguard-go's: 1.75, wanted at least 3: missed"
            ),
            "{text}"
        );
        assert!(
            results.page().contains("| copier | 8"),
            "{}",
            results.page()
        );
    }
}
