//! The bounds that were promised.

use super::measure::{BESIDE_IDLE, FAN_OUT, LARGE, LATENCY, MEMORY, STREAM};
use super::paper;
use super::systems::PushSystem;
use crate::report::{PageHead, Sheet, SheetGoal};

pub(super) const HEAD: PageHead = PageHead {
    title: "Publish and subscribe",
    command: "push",
    words: "A broker in a process of its own, started anew for each round, and all its clients in another, on the processors of one machine over loopback. \
            Hermes is spoken to by HTTP/1.1 in the relay's native form, NATS by its own protocol, nchan (a module of nginx) and Centrifugo by requests and EventSource; the same client code counts the messages of all. *100 B to N \
            subscribers*: one message at a time, until the last subscriber has it. *Without pause*: a publisher that keeps its subscribers, all together, at most 50,000 messages behind, none of which \
            is lost. Memory is what is resident, shared pages in part. The other cases are the experiments of the paper about HTTP as the narrow waist. `direct` is a TCP connection between \
            the two programs, `indirect` one through a forwarder of TCP, `paper` the paper's own server, as far as its text has figures. *Wide area*: four sites as namespaces, with the distances of its \
            Table 1, which vary by 2 ms up and down, and 20 Mbit/s. *Link, of one copy*: bytes that the link between relay and receivers carries, of those of the messages. *Gain*: the throughput of one message by \
            the best of five relays, the time of asking the nearest rendezvous, one round trip, included, beside the relay in the middle; for 90 pairs at seeded places, computed by a model of TCP. Throughput is that of contents.",
    notes: include_str!("notes.txt"),
};

/// A figure of Hermes with a bound.
struct PushBound {
    words: &'static str,
    case: &'static str,
    figure: &'static str,
    bound: f64,
    at_least: bool,
}

const BOUNDS: [PushBound; 4] = [
    PushBound {
        words: "messages a second to one subscriber, at least 130,000",
        case: STREAM,
        figure: "deliveries",
        bound: 130_000.0,
        at_least: true,
    },
    PushBound {
        words: "deliveries a second to 100 subscribers, at least 2,500,000",
        case: FAN_OUT,
        figure: "deliveries",
        bound: 2_500_000.0,
        at_least: true,
    },
    PushBound {
        words: "1 MB messages a second, at least 900",
        case: LARGE,
        figure: "rate",
        bound: 900.0,
        at_least: true,
    },
    PushBound {
        words: "memory with 19,000 idle subscribers in MiB, at most 150",
        case: MEMORY,
        figure: "19000, all",
        bound: 150.0,
        at_least: false,
    },
];

/// The latency of Hermes as a part of that of NATS, at most, for each of [`LATENCY`].
const OF_NATS: [f64; 3] = [1.0, 0.7, 0.7];

/// The goals for which there are figures.
pub(super) fn of(sheet: &Sheet) -> Vec<SheetGoal> {
    let median = |case: &str, system: PushSystem, figure: &str| {
        let found = sheet.of(case, system.name(), figure);
        found.map(|summary| summary.median)
    };
    let mut goals = Vec::new();
    for ((case, _), bound) in LATENCY.into_iter().zip(OF_NATS) {
        let ours = median(case, PushSystem::Hermes, "p50");
        let theirs = median(case, PushSystem::Nats, "p50");
        if let Some((ours, theirs)) = ours.zip(theirs) {
            goals.push(SheetGoal {
                words: format!("{case}, of NATS's, at most {bound}"),
                value: ours / theirs,
                is_reached: ours <= bound * theirs,
            });
        }
    }
    for goal in &BOUNDS {
        let Some(value) = median(goal.case, PushSystem::Hermes, goal.figure) else {
            continue;
        };
        goals.push(SheetGoal {
            words: goal.words.to_owned(),
            value,
            is_reached: match goal.at_least {
                true => value >= goal.bound,
                false => value <= goal.bound,
            },
        });
    }
    let alone = median(LATENCY[0].0, PushSystem::Hermes, "p50");
    let beside = median(BESIDE_IDLE, PushSystem::Hermes, "p50");
    if let Some((alone, beside)) = alone.zip(beside) {
        goals.push(SheetGoal {
            words: "latency beside idle subscribers, of that without, at most 1.1".to_owned(),
            value: beside / alone,
            is_reached: beside <= 1.1 * alone,
        });
    }
    goals.extend(paper::goals(sheet));
    goals
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Figure;

    #[test]
    fn latency_is_compared_and_rates_have_bounds() {
        let mut sheet = Sheet::default();
        for (system, value) in [("hermes", 60.0), ("nats", 80.0)] {
            for (case, _) in LATENCY {
                sheet.add(case, system, Figure::less("p50", "us"), value);
            }
        }
        sheet.add(
            STREAM,
            "hermes",
            Figure::more("deliveries", "/s"),
            140_000.0,
        );
        let reached: Vec<_> = of(&sheet).iter().map(|goal| goal.is_reached).collect();
        assert_eq!(reached, [true, false, false, true]);
    }
}
