//! What was promised.

use super::measure::{BOUNDED, CONNECT, HUGE, KEPT, LARGE, LOSSY, MEMORY, NEW, REFUSED};
use crate::report::{PageHead, Sheet, SheetGoal};

pub(super) const HEAD: PageHead = PageHead {
    title: "Split connections",
    command: "split",
    words: "A client, a router and a server in a namespace each, on the processors of one machine, joined by virtual cables; the system runs on the \
            router with its defaults and without logs, anew for each round. `direct`: the router passes packets on. `hermes` captures by TPROXY and \
            accepts clients first, `hermes-split` holds the beginning of a connection until the server has answered, `hermes-stack` is the device of \
            `hermes exec --capture`, whose stack is the node's own. The others forward TCP from an address of their own. *Connect*: until the client is connected; *new \
            connection*: until a byte has come back; *kept connection*: a byte over one that is open; *refused*: until the client knows that no \
            one listens, left empty where it is told otherwise. *Beside* some open connections, 128 KB are asked for each 100 ms, over \
            one after the other. *One segment at a time*: without offloads (TSO and GSO). *Where the network is the limit*: the server sends \
            4 Gbit/s at most (a token bucket). *Lossy and long*: 5 ms and 1 % loss between client and router, 45 ms behind it, each way. Memory is \
            what is resident.",
    notes: include_str!("notes.txt"),
};

/// A comparison of two systems with a bound.
struct SplitGoal {
    words: &'static str,
    case: &'static str,
    figure: &'static str,
    of: &'static str,
    /// The other system, and how it is compared; `None` for the figure itself.
    to: Option<(&'static str, Compared)>,
    bound: f64,
    at_least: bool,
}

/// How two figures are compared.
#[derive(Debug, Clone, Copy)]
enum Compared {
    Ratio,
    Difference,
}

impl SplitGoal {
    const fn of(words: &'static str, case: &'static str, figure: &'static str) -> Self {
        Self {
            words,
            case,
            figure,
            of: "hermes-split",
            to: None,
            bound: 0.0,
            at_least: false,
        }
    }

    const fn beside(self, system: &'static str, compared: Compared) -> Self {
        Self {
            to: Some((system, compared)),
            ..self
        }
    }

    const fn at_most(self, bound: f64) -> Self {
        Self { bound, ..self }
    }

    const fn at_least(self, bound: f64) -> Self {
        Self {
            bound,
            at_least: true,
            ..self
        }
    }

    fn value(&self, sheet: &Sheet) -> Option<f64> {
        let median = |system| {
            sheet
                .of(self.case, system, self.figure)
                .map(|found| found.median)
        };
        let of = median(self.of)?;
        Some(match self.to {
            None => of,
            Some((to, Compared::Ratio)) => of / median(to)?,
            Some((to, Compared::Difference)) => of - median(to)?,
        })
    }
}

const GOALS: [SplitGoal; 10] = [
    SplitGoal::of("new connection, of nginx's, at most 1.1", NEW, "p50")
        .beside("nginx", Compared::Ratio)
        .at_most(1.1),
    SplitGoal::of("kept connection, of nginx's, at most 1", KEPT, "p50")
        .beside("nginx", Compared::Ratio)
        .at_most(1.0),
    SplitGoal::of("256 MB, of direct, at least 0.8", LARGE, "rate")
        .beside("direct", Compared::Ratio)
        .at_least(0.8),
    SplitGoal::of("1 GB, of direct, at least 0.8", HUGE, "rate")
        .beside("direct", Compared::Ratio)
        .at_least(0.8),
    SplitGoal::of(
        "4 GB where the network is the limit, of direct's time, at most 1.012",
        BOUNDED,
        "time",
    )
    .beside("direct", Compared::Ratio)
    .at_most(1.012),
    SplitGoal::of(
        "a lossy and long path, of direct's time, at most 1",
        LOSSY,
        "p50",
    )
    .beside("direct", Compared::Ratio)
    .at_most(1.0),
    SplitGoal::of(
        "connect, us longer than direct, at most 150",
        CONNECT,
        "p50",
    )
    .beside("direct", Compared::Difference)
    .at_most(150.0),
    SplitGoal::of(
        "refused, us later than direct, at most 1,000",
        REFUSED,
        "p50",
    )
    .beside("direct", Compared::Difference)
    .at_most(1000.0),
    SplitGoal::of(
        "an idle connection, KiB, at most 2",
        MEMORY,
        "an idle connection",
    )
    .at_most(2.0),
    SplitGoal {
        of: "hermes-stack",
        ..SplitGoal::of("256 MB by a device, of direct, at least 0.8", LARGE, "rate")
    }
    .beside("direct", Compared::Ratio)
    .at_least(0.8),
];

/// The goals for which there are figures.
pub(super) fn of(sheet: &Sheet) -> Vec<SheetGoal> {
    let goals = GOALS.iter().filter_map(|goal| {
        let value = goal.value(sheet)?;
        Some(SheetGoal {
            words: goal.words.to_owned(),
            value,
            is_reached: match goal.at_least {
                true => value >= goal.bound,
                false => value <= goal.bound,
            },
        })
    });
    goals.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Figure;

    #[test]
    fn goals_compare_medians_and_those_without_figures_are_left_out() {
        let mut sheet = Sheet::default();
        for (system, connect, rate) in [("direct", 100.0, 20.0), ("hermes-split", 260.0, 17.0)] {
            sheet.add(CONNECT, system, Figure::less("p50", "us"), connect);
            sheet.add(LARGE, system, Figure::more("rate", "Gbit/s"), rate);
        }
        let goals = of(&sheet);
        let found: Vec<_> = goals
            .iter()
            .map(|goal| (goal.value, goal.is_reached))
            .collect();
        assert_eq!(found, [(0.85, true), (160.0, false)]);
    }
}
