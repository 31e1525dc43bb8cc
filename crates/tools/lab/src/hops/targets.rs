//! The goals of Hermes, and the verdict on each.

use super::network::{HOPS, Links};
use super::plan::{HopExperiment, HopResults, HopSystem, Point, Way};

/// Within this share of the goal there is no verdict.
const NOISE: f64 = 0.2;
/// The processor time of a further hop, as a share of the first proxy's.
const FURTHER_TIME: f64 = 0.6;
/// Goal: the largest share of the throughput on links of 1 Gbit/s that a further hop costs.
const FURTHER_COST: f64 = 0.1;
/// The least of the peak, over all numbers of transactions.
const OF_PEAK: f64 = 0.75;

/// One goal, and its figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// In words, with its goal.
    pub words: String,
    /// Measured.
    pub value: f64,
    /// The goal.
    pub goal: f64,
    /// Whether more is better.
    pub more: bool,
}

impl Target {
    /// The verdict in words; within the noise there is none.
    pub fn verdict(&self) -> &'static str {
        let gain = if self.more {
            self.value / self.goal
        } else {
            self.goal / self.value
        };
        match gain {
            gain if gain.is_nan() => "not measured",
            gain if gain > 1.0 + NOISE => "reached",
            gain if gain < 1.0 / (1.0 + NOISE) => "missed",
            _ => "too close to say",
        }
    }
}

/// The goals for which there are figures.
pub fn targets(results: &HopResults) -> Vec<Target> {
    let mut found = Vec::new();
    for links in Links::ALL {
        found.extend(compared(results, links));
        found.extend(further(results, links));
        found.extend(steady(results, links));
    }
    found
}

fn point(experiment: HopExperiment, links: Links, hops: u8) -> Point {
    let way = if hops == 0 {
        Way::Direct
    } else {
        Way::Forwarded
    };

    let transactions = if experiment == HopExperiment::Flows {
        1000
    } else {
        1
    };

    Point {
        experiment,
        links,
        way,
        hops,
        transactions,
    }
}

/// One hop, beside the others.
fn compared(results: &HopResults, links: Links) -> Vec<Target> {
    let mut found = Vec::new();
    let value = |experiment, system, figure: &str| {
        results
            .named(point(experiment, links, 1), system, figure)
            .map(|summary| summary.median)
    };

    let name = links.name();
    for other in [HopSystem::Envoy, HopSystem::MasqueGo] {
        let rates = [HopSystem::Hermes, other]
            .map(|system| value(HopExperiment::Datagrams, system, "rate"));
        if let [Some(own), Some(theirs)] = rates {
            let words = format!("{name}: rate of datagrams to {other}'s, at least 2.5");
            found.push(Target {
                words,
                value: own / theirs,
                goal: 2.5,
                more: true,
            });
        }
    }

    let direct = results
        .named(
            point(HopExperiment::Latency, links, 0),
            HopSystem::Direct,
            "kept flow",
        )
        .map(|s| s.median);

    let kept = [HopSystem::Hermes, HopSystem::Envoy]
        .map(|system| value(HopExperiment::Latency, system, "kept flow"));
    if let (Some(direct), [Some(own), Some(theirs)]) = (direct, kept) {
        let words = format!("{name}: latency added to a flow to Envoy's, at most 0.6");
        found.push(Target {
            words,
            value: (own - direct) / (theirs - direct),
            goal: 0.6,
            more: false,
        });
    }

    let times = [HopSystem::Hermes, HopSystem::Envoy]
        .map(|system| value(HopExperiment::Flows, system, "last answer"));
    if let [Some(own), Some(theirs)] = times {
        let words = format!("{name}: time of 1,000 new flows to Envoy's, at most 0.5");
        found.push(Target {
            words,
            value: own / theirs,
            goal: 0.5,
            more: false,
        });
    }

    if let Some(lost) = results.named(
        point(HopExperiment::Flows, links, 1),
        HopSystem::Hermes,
        "lost",
    ) {
        // One lost flow is a miss.
        let words = format!("{name}: lost of 1,000 new flows, none (+ 0.5)");
        found.push(Target {
            words,
            value: lost.most + 0.25,
            goal: 0.5,
            more: false,
        });
    }

    found
}

/// Forwarding hops after the first.
fn further(results: &HopResults, links: Links) -> Vec<Target> {
    let mut found = Vec::new();
    for experiment in [HopExperiment::Datagrams, HopExperiment::Download] {
        let what = experiment.name();
        let value = |hops, figure: &str| {
            results
                .named(point(experiment, links, hops), HopSystem::Hermes, figure)
                .map(|summary| summary.median)
        };

        let time = |hops: u8| {
            (1..=hops)
                .map(|hop| value(hops, &format!("time of proxy {hop}")))
                .sum::<Option<f64>>()
        };

        for hops in 2..=HOPS {
            let words = |measure: &str| format!("{}: {what}: {measure} at {hops}", links.name());
            if let (Some(first), Some(before), Some(now)) = (time(1), time(hops - 1), time(hops)) {
                let words = words("time of a further hop to the first proxy's, at most 0.6,");
                found.push(Target {
                    words,
                    value: (now - before) / first,
                    goal: FURTHER_TIME,
                    more: false,
                });
            }

            if let (Links::Gigabit, Some(before), Some(now)) = (
                links,
                value(hops - 1, "throughput"),
                value(hops, "throughput"),
            ) {
                let words = words("throughput to that of one hop less, at least 0.9,");
                found.push(Target {
                    words,
                    value: now / before,
                    goal: 1.0 - FURTHER_COST,
                    more: true,
                });
            }
        }
    }

    found
}

/// Throughput of one hop over all numbers of transactions.
fn steady(results: &HopResults, links: Links) -> Vec<Target> {
    let mut found = Vec::new();
    for experiment in [HopExperiment::Datagrams, HopExperiment::Download] {
        let one = point(experiment, links, 1);
        let same = |other: &Point| {
            Point {
                transactions: 1,
                ..*other
            } == one
        };

        let medians = |figure: &str| -> Vec<f64> {
            let mut points: Vec<_> = results
                .series
                .iter()
                .map(|series| series.case)
                .filter(same)
                .collect();
            points.dedup();
            points
                .iter()
                .filter_map(|point| Some(results.named(*point, HopSystem::Hermes, figure)?.median))
                .collect()
        };

        let medians = medians("throughput");
        let least = medians.iter().copied().fold(f64::NAN, f64::min);
        let peak = medians.iter().copied().fold(0.0, f64::max);

        if medians.len() > 1 {
            let what = experiment.name();
            let words = format!(
                "{}: {what}: least to peak of all numbers of transactions, at least 0.75",
                links.name()
            );
            found.push(Target {
                words,
                value: least / peak,
                goal: OF_PEAK,
                more: true,
            });
        }
    }

    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Figure;

    #[test]
    fn a_goal_is_judged_outside_of_the_noise_only() {
        let mut results = HopResults::default();
        let own = point(HopExperiment::Datagrams, Links::Fast, 1);
        results.add(own, HopSystem::Envoy, Figure::more("rate", "1000/s"), 10.0);
        results.add(own, HopSystem::Hermes, Figure::more("rate", "1000/s"), 40.0);
        let found = targets(&results);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].verdict(), "reached");
        assert_eq!(
            Target {
                value: 2.4,
                ..found[0].clone()
            }
            .verdict(),
            "too close to say"
        );
        assert_eq!(
            Target {
                value: 2.0,
                ..found[0].clone()
            }
            .verdict(),
            "missed"
        );
    }
}
