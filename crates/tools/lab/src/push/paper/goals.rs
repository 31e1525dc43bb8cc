//! The bounds of the paper's experiments.

use super::call::OUTSIDE;
use super::local::{CALL, LARGEST, PING};
use super::rendezvous::{self, GAINING};
use super::wide::{EACH, JOINED, LINK, ping_case};
use crate::report::{Sheet, SheetGoal};

/// A figure of Hermes, by itself or as a part of another one, and its bound.
struct PaperGoal {
    words: String,
    value: Option<f64>,
    bound: f64,
    at_least: bool,
}

impl PaperGoal {
    fn at_most(words: &str, bound: f64, value: Option<f64>) -> Self {
        Self {
            words: format!("{words}, at most {bound}"),
            value,
            bound,
            at_least: false,
        }
    }

    fn at_least(words: &str, bound: f64, value: Option<f64>) -> Self {
        Self {
            words: format!("{words}, at least {bound}"),
            value,
            bound,
            at_least: true,
        }
    }

    fn verdict(self) -> Option<SheetGoal> {
        let value = self.value?;
        Some(SheetGoal {
            words: self.words,
            value,
            is_reached: match self.at_least {
                true => value >= self.bound,
                false => value <= self.bound,
            },
        })
    }
}

/// The goals for which there are figures.
pub(crate) fn of(sheet: &Sheet) -> Vec<SheetGoal> {
    let median = |case: &str, system: &str, figure: &str| {
        let found = sheet.of(case, system, figure);
        found.map(|summary| summary.median)
    };
    let ours = |case: &str, figure: &str| median(case, "hermes", figure);
    let of_indirect = |case: &str| {
        let indirect = median(case, "indirect", "RTT, p50")?;
        Some(ours(case, "RTT, p50")? / indirect)
    };
    let share = |size| ours(&rendezvous::case(size), GAINING);
    let mut goals = vec![
        PaperGoal::at_most("ping, of the indirect path's", 2.0, of_indirect(PING)),
        PaperGoal::at_most(
            "gaps of a call beside bulk outside 10 to 30 ms, in %",
            0.1,
            ours(CALL, OUTSIDE),
        ),
        PaperGoal::at_least(
            "throughput of 1 MB messages in Gbit/s",
            7.0,
            ours(LARGEST, "throughput"),
        ),
        PaperGoal::at_most(
            "what a link carries for 20 receivers behind an aggregating node, of one copy",
            1.15,
            ours(JOINED, LINK),
        ),
        PaperGoal::at_least(
            "pairs that gain by a rendezvous for 1 KB, in %",
            50.0,
            share(1000),
        ),
        PaperGoal::at_least(
            "pairs that gain by a rendezvous for 100 KB, in %",
            95.0,
            share(100_000),
        ),
    ];
    // The relay's own time does not grow with the distance.
    for way in 0..3 {
        let case = ping_case(way);
        let words = format!("{case}, of the indirect path's");
        goals.push(PaperGoal::at_most(&words, 1.05, of_indirect(&case)));
    }
    let each = ours(EACH, "each, on average");
    let joined = ours(JOINED, "each, on average");
    goals.push(PaperGoal::at_least(
        "throughput of a receiver behind an aggregating node, of one by itself",
        10.0,
        joined.zip(each).map(|(joined, each)| joined / each),
    ));
    goals.into_iter().filter_map(PaperGoal::verdict).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Figure;

    #[test]
    fn a_ping_is_compared_with_the_indirect_path() {
        let mut sheet = Sheet::default();
        for (system, value) in [("indirect", 0.2), ("hermes", 0.3)] {
            sheet.add(PING, system, Figure::less("RTT, p50", "ms"), value);
        }
        sheet.add(JOINED, "hermes", Figure::less(LINK, "times"), 20.0);
        let goals = of(&sheet);
        let reached: Vec<_> = goals.iter().map(|goal| goal.is_reached).collect();
        assert_eq!(reached, [true, false]);
    }
}
