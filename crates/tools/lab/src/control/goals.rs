//! What was promised, and what others have published.

use super::agents::{MEMORY, ONE_JOIN, RECONNECTION, RESTARTED, SINGLE, WHOLE};
use crate::report::{PageHead, Sheet, SheetGoal};

pub(super) const HEAD: PageHead = PageHead {
    title: "The control plane",
    command: "control",
    words: "",
    notes: "",
};

/// A bound on a figure of one column.
struct Bound {
    words: &'static str,
    case: &'static str,
    system: &'static str,
    figure: &'static str,
    most: f64,
}

const BOUNDS: [Bound; 9] = [
    Bound {
        words: "change of one node with 10,000 agents, p99 in ms, below 50",
        case: SINGLE,
        system: "10000 agents",
        figure: "p99",
        most: 50.0,
    },
    Bound {
        words: "change of all of 1,000 nodes, p99 in ms, below 1,000",
        case: WHOLE,
        system: "1000 agents",
        figure: "p99 of the agents",
        most: 1000.0,
    },
    Bound {
        words: "change of all of 10,000 nodes, the last one in ms, below 10,000",
        case: WHOLE,
        system: "10000 agents",
        figure: "last agent",
        most: 10_000.0,
    },
    Bound {
        words: "memory an agent of 10,000 at the controller in KiB, at most 32",
        case: MEMORY,
        system: "10000 agents",
        figure: "at the controller",
        most: 32.0,
    },
    Bound {
        words: "reconnection without a change, bytes to the controller, below 1,024",
        case: RECONNECTION,
        system: "10000 agents",
        figure: "to the controller",
        most: 1024.0,
    },
    Bound {
        words: "reconnection without a change, bytes to the agent, below 1,024",
        case: RECONNECTION,
        system: "10000 agents",
        figure: "to the agent",
        most: 1024.0,
    },
    Bound {
        words: "controller restarted with 10,000 agents, ms until all are in step, below 30,000",
        case: RESTARTED,
        system: "10000 agents",
        figure: "all in step",
        most: 30_000.0,
    },
    Bound {
        words: "documents sent again after it, none",
        case: RESTARTED,
        system: "10000 agents",
        figure: "documents sent again",
        most: 0.0,
    },
    Bound {
        words: "documents of others that change when one more joins, none",
        case: ONE_JOIN,
        system: "10000 agents",
        figure: "other documents changed",
        most: 0.0,
    },
];

/// The goals that were measured.
pub(super) fn of(sheet: &Sheet) -> Vec<SheetGoal> {
    let goals = BOUNDS.iter().filter_map(|bound| {
        let found = sheet.of(bound.case, bound.system, bound.figure)?;
        Some(SheetGoal {
            words: bound.words.to_owned(),
            value: found.most,
            is_reached: found.most <= bound.most,
        })
    });
    goals.collect()
}
