//! The goals of Hermes, and the verdict on each.

use std::fmt;

use super::figures::CaseResults;
use crate::experiment::{Case, Experiment};
use crate::peers::Name;
use crate::report::Figure;
use crate::traffic::{Kind, Link};

/// Ratios that lie closer to their bound than this share say nothing: the next run may be on the other side.
const NOISE: f64 = 0.2;

/// A bound on a figure of Hermes.
#[derive(Clone, Copy)]
enum Bound {
    /// At most this many times that of another system.
    Most(Name, f64),
    /// At least this many times that of another system.
    Least(Name, f64),
    /// Below a number.
    Below(f64),
    /// At least a number.
    Above(f64),
}

/// Which figures a bound is for.
struct FigureTarget {
    experiment: Experiment,
    kinds: &'static [Kind],
    links: &'static [Link],
    figure: &'static str,
    bound: Bound,
}

const NOT_HTTP: &[Kind] = &[Kind::Connect, Kind::Tcp, Kind::Udp];
const HTTP: &[Kind] = &[Kind::Http];
const TCP: &[Kind] = &[Kind::Tcp];
const UDP: &[Kind] = &[Kind::Udp];

const fn target(
    experiment: Experiment,
    kinds: &'static [Kind],
    links: &'static [Link],
    figure: &'static str,
    bound: Bound,
) -> FigureTarget {
    FigureTarget {
        experiment,
        kinds,
        links,
        figure,
        bound,
    }
}

const TARGETS: [FigureTarget; 40] = [
    target(
        Experiment::Latency,
        HTTP,
        &Link::ALL,
        "new",
        Bound::Most(Name::Haproxy, 1.0),
    ),
    target(
        Experiment::Latency,
        HTTP,
        &Link::ALL,
        "kept",
        Bound::Most(Name::Nginx, 1.0),
    ),
    target(
        Experiment::Latency,
        HTTP,
        &Link::ALL,
        "kept",
        Bound::Most(Name::Haproxy, 1.0),
    ),
    target(
        Experiment::Latency,
        HTTP,
        &Link::ALL,
        "kept: proxies' time",
        Bound::Most(Name::Nginx, 1.0),
    ),
    target(
        Experiment::Latency,
        HTTP,
        &Link::ALL,
        "new: proxies' time",
        Bound::Most(Name::Haproxy, 1.0),
    ),
    target(
        Experiment::Latency,
        NOT_HTTP,
        &Link::ALL,
        "kept",
        Bound::Most(Name::Envoy, 1.0),
    ),
    target(
        Experiment::Latency,
        TCP,
        &Link::ALL,
        "new",
        Bound::Below(300.0),
    ),
    target(
        Experiment::Latency,
        UDP,
        &Link::ALL,
        "new",
        Bound::Below(300.0),
    ),
    target(
        Experiment::Latency,
        UDP,
        &Link::ALL,
        "kept",
        Bound::Below(85.0),
    ),
    target(
        Experiment::Burst,
        HTTP,
        &Link::ALL,
        "1000 clients",
        Bound::Below(75.0),
    ),
    target(
        Experiment::Burst,
        &Kind::ALL,
        &Link::ALL,
        "failures",
        Bound::Below(1.0),
    ),
    target(
        Experiment::Saturation,
        HTTP,
        &Link::ALL,
        "rate",
        Bound::Above(35_000.0),
    ),
    target(
        Experiment::Saturation,
        HTTP,
        &Link::ALL,
        "proxies' time",
        Bound::Below(36.0),
    ),
    target(
        Experiment::Saturation,
        HTTP,
        &Link::ALL,
        "rate",
        Bound::Least(Name::Nginx, 1.0),
    ),
    target(
        Experiment::Saturation,
        HTTP,
        &Link::ALL,
        "rate",
        Bound::Least(Name::Haproxy, 1.0),
    ),
    target(
        Experiment::Saturation,
        TCP,
        &Link::ALL,
        "rate",
        Bound::Above(9_000.0),
    ),
    target(
        Experiment::Bulk,
        TCP,
        &[Link::H1],
        "rate",
        Bound::Least(Name::Envoy, 1.2),
    ),
    target(
        Experiment::Bulk,
        TCP,
        &[Link::H1],
        "proxies' time",
        Bound::Most(Name::Envoy, 0.7),
    ),
    target(
        Experiment::Bulk,
        TCP,
        &[Link::H2],
        "rate",
        Bound::Above(12.0),
    ),
    target(
        Experiment::Bulk,
        TCP,
        &[Link::H2],
        "8 flows: rate",
        Bound::Above(12.0),
    ),
    target(
        Experiment::Bulk,
        TCP,
        &[Link::H2],
        "proxies' time",
        Bound::Below(0.7),
    ),
    target(
        Experiment::Bulk,
        TCP,
        &[Link::Tls],
        "rate",
        Bound::Above(8.0),
    ),
    target(
        Experiment::Bulk,
        TCP,
        &[Link::Tls],
        "8 flows: rate",
        Bound::Above(8.0),
    ),
    target(
        Experiment::Bulk,
        TCP,
        &[Link::H3],
        "rate",
        Bound::Above(5.0),
    ),
    target(
        Experiment::Bulk,
        TCP,
        &[Link::H3],
        "8 flows: rate",
        Bound::Above(5.0),
    ),
    target(
        Experiment::Bulk,
        HTTP,
        &[Link::H1],
        "rate",
        Bound::Least(Name::Envoy, 1.0),
    ),
    target(
        Experiment::Datagrams,
        UDP,
        &[Link::H2],
        "rate",
        Bound::Above(200.0),
    ),
    target(
        Experiment::Datagrams,
        UDP,
        &[Link::H2],
        "8 flows: rate",
        Bound::Above(150.0),
    ),
    target(
        Experiment::Datagrams,
        UDP,
        &[Link::H3],
        "rate",
        Bound::Above(150.0),
    ),
    target(
        Experiment::Datagrams,
        UDP,
        &[Link::H3],
        "8 flows: rate",
        Bound::Above(150.0),
    ),
    target(
        Experiment::Datagrams,
        UDP,
        &Link::ALL,
        "proxies' time",
        Bound::Most(Name::Envoy, 0.7),
    ),
    target(
        Experiment::Tunnels,
        HTTP,
        &Link::ALL,
        "memory",
        Bound::Below(1.2),
    ),
    target(
        Experiment::Tunnels,
        TCP,
        &Link::ALL,
        "memory",
        Bound::Below(8.0),
    ),
    target(
        Experiment::Tunnels,
        UDP,
        &Link::ALL,
        "memory",
        Bound::Below(12.0),
    ),
    target(
        Experiment::Start,
        HTTP,
        &Link::ALL,
        "memory",
        Bound::Below(15.0),
    ),
    target(
        Experiment::Start,
        HTTP,
        &Link::ALL,
        "start",
        Bound::Below(40.0),
    ),
    target(
        Experiment::Instructions,
        HTTP,
        &[Link::H1],
        "kept: dependent",
        Bound::Below(22_000.0),
    ),
    target(
        Experiment::Instructions,
        HTTP,
        &[Link::H1],
        "kept: standalone",
        Bound::Below(22_000.0),
    ),
    target(
        Experiment::Instructions,
        &[Kind::Connect],
        &[Link::H2],
        "new: dependent",
        Bound::Below(63_000.0),
    ),
    target(
        Experiment::Instructions,
        &[Kind::Connect],
        &[Link::H2],
        "new: standalone",
        Bound::Below(63_000.0),
    ),
];

/// How a figure stands to its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Reached,
    Missed,
    /// Within the noise of its bound.
    Close,
}

/// A target that was measured.
struct Checked {
    case: Case,
    figure: Figure,
    bound: Bound,
    /// Against another system: ours by theirs. Else the figure.
    found: f64,
    outcome: Outcome,
}

/// A line for each target with figures, and the number of reached ones.
pub fn lines(results: &CaseResults) -> Vec<String> {
    let checked = check(results);
    if checked.is_empty() {
        return Vec::new();
    }

    let count = |outcome| checked.iter().filter(|one| one.outcome == outcome).count();
    let sum = format!(
        "targets: {} reached, {} missed, {} too close to say",
        count(Outcome::Reached),
        count(Outcome::Missed),
        count(Outcome::Close)
    );

    checked
        .iter()
        .map(ToString::to_string)
        .chain([sum])
        .collect()
}

fn check(results: &CaseResults) -> Vec<Checked> {
    let mut checked = Vec::new();
    for target in &TARGETS {
        for (case, figure) in results.rows() {
            let fits = case.experiment == target.experiment
                && target.kinds.contains(&case.kind)
                && target.links.contains(&case.link)
                && figure.name == target.figure;
            if let Some(found) = fits
                .then(|| found(results, case, &figure, target.bound))
                .flatten()
            {
                let outcome = judge(found, target.bound);
                checked.push(Checked {
                    case,
                    figure,
                    bound: target.bound,
                    found,
                    outcome,
                });
            }
        }
    }

    checked
}

/// The figure to compare with the bound. Against another system, a latency is the addition to the direct way.
fn found(results: &CaseResults, case: Case, figure: &Figure, bound: Bound) -> Option<f64> {
    let value = |system| {
        results
            .of(case, figure, system)
            .map(|summary| summary.median)
    };

    let ours = value(Name::Hermes)?;
    let (Bound::Most(other, _) | Bound::Least(other, _)) = bound else {
        return Some(ours);
    };

    // Without a proxy there is no time of proxies.
    let base = match case.experiment {
        Experiment::Latency if !figure.name.ends_with("proxies' time") => value(Name::Direct)?,
        _ => 0.0,
    };
    let theirs = value(other)? - base;
    (theirs > 0.0).then(|| (ours - base) / theirs)
}

fn judge(found: f64, bound: Bound) -> Outcome {
    // How many times better than the bound it is.
    let (margin, noise) = match bound {
        Bound::Most(_, most) => (most / found, NOISE),
        Bound::Least(_, least) => (found / least, NOISE),
        Bound::Below(most) => (certainly(found < most), 0.0),
        Bound::Above(least) => (certainly(found >= least), 0.0),
    };
    match margin {
        margin if margin >= 1.0 + noise => Outcome::Reached,
        margin if margin < 1.0 / (1.0 + noise) => Outcome::Missed,
        _ => Outcome::Close,
    }
}

/// The margin of a number that reaches its bound, or does not.
fn certainly(reached: bool) -> f64 {
    if reached { f64::INFINITY } else { 0.0 }
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            case,
            figure,
            bound,
            found,
            outcome,
        } = self;

        let word = match outcome {
            Outcome::Reached => "reached",
            Outcome::Missed => "missed",
            Outcome::Close => "too close to say",
        };

        let experiment = case.experiment.name();
        let kind = case.kind.name();
        let link = case.link.name();
        write!(
            f,
            "{word}: {experiment} of {kind} over {link}, {}: ",
            figure.name
        )?;

        match bound {
            Bound::Most(other, most) => write!(
                f,
                "{found:.2} of {}'s, wanted at most {most:.2}",
                other.text()
            ),
            Bound::Least(other, least) => write!(
                f,
                "{found:.2} of {}'s, wanted at least {least:.2}",
                other.text()
            ),
            Bound::Below(most) => write!(f, "{found:.1} {}, wanted below {most:.1}", figure.unit),
            Bound::Above(least) => {
                write!(f, "{found:.1} {}, wanted at least {least:.1}", figure.unit)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_near_its_bound_is_no_verdict_and_a_number_is_one() {
        let most = Bound::Most(Name::Envoy, 0.5);
        assert_eq!(
            [0.3, 0.5, 0.55, 0.7].map(|found| judge(found, most)),
            [
                Outcome::Reached,
                Outcome::Close,
                Outcome::Close,
                Outcome::Missed
            ]
        );
        let least = Bound::Least(Name::Envoy, 2.0);
        assert_eq!(
            [3.0, 2.0, 1.5].map(|found| judge(found, least)),
            [Outcome::Reached, Outcome::Close, Outcome::Missed]
        );
        assert_eq!(
            [14.9, 15.1].map(|found| judge(found, Bound::Below(15.0))),
            [Outcome::Reached, Outcome::Missed]
        );
        assert_eq!(
            [14.9, 15.1].map(|found| judge(found, Bound::Above(15.0))),
            [Outcome::Missed, Outcome::Reached]
        );
    }

    #[test]
    fn latencies_are_compared_by_what_they_add() {
        let (case, figure) = (
            Case {
                experiment: Experiment::Latency,
                kind: Kind::Http,
                link: Link::H1,
            },
            Figure::less("new", "us"),
        );
        let mut results = CaseResults::default();
        for (system, value) in [
            (Name::Direct, 100.0),
            (Name::Hermes, 120.0),
            (Name::Haproxy, 200.0),
        ] {
            results.add(case, system, figure.clone(), value);
        }
        let lines = lines(&results);
        assert_eq!(
            lines[0],
            "reached: latency of http over h1, new: 0.20 of haproxy's, wanted at most 1.00"
        );
        assert_eq!(lines[1], "targets: 1 reached, 0 missed, 0 too close to say");
    }
}
