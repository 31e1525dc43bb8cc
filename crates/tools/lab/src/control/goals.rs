//! What was promised, and what others have published.

use super::agents::{MEMORY, ONE_JOIN, RECONNECTION, RESTARTED, SINGLE, WHOLE};
use super::nodes::{FOOTPRINT, REAL, REVOKED, UPDATED};
use crate::report::{PageHead, Sheet, SheetGoal, median};

pub(super) const HEAD: PageHead = PageHead {
    title: "The control plane",
    command: "control",
    words: "A controller in one process, agents in another one, on the processors of one machine. Each agent has its own key, certificate, folder \
            and connection (gRPC over mutual TLS), and no data plane: it notes when a document would be put in force. One agent is the ingress, one \
            in a hundred is a proxy with a document of its own, the others are devices, which share one. *Change of one node*: the server behind \
            one proxy moves. *Change of all nodes*: the ingress moves, which is in the document of every device. Times begin with the \
            operator's request. All folders are in memory. *Real nodes* are processes that carry exchanges.",
    notes: NOTES,
};

const NOTES: &str = "\n![Changes over the number of agents](control.svg)\n\n\
## What a larger fleet costs\n\n\
A change of one node takes twice as long at p99 beside 10,000 agents as beside 100. It is no walk over the fleet: in a profile of the controller (`perf`, \
60 s of 10,000 agents) no function of Hermes has 0.4 % of the time, and copies and comparisons of trees have 0.2 % together. The \
rest is the transaction of a store that is a hundred times as large (redb: pages read, checked, written and synced), and the kernel's, which \
wakes tasks among 10,000 connections on two processors.\n\n\
An agent's memory at the controller is mostly that of its connection: the buffers of HTTP/2 (h2) and TLS (rustls).\n\n\
## Beside others\n\n\
The prototype of the paper polled every 5 s: by that alone a change takes 2.5 s in the mean and 4.95 s at p99, for one node as for all, and a \
step of its experiments took up to 10 s. What others have published, on their own machines; not measured here:\n\n\
| System | Published |\n|---|---|\n\
| Consul | 10,000 nodes and 172,000 instances in less than 1 s, with 5 servers |\n\
| Istio | 1 processor and 1.5 GB for 2,000 sidecars: 750 KiB each; p90 of 1.5 s, later 4.5 s (Airbnb); 5,000 reconnect in 3 min (istio#35263) |\n\
| SPIRE | polls every 5 s; 1,000 agents with 100 workloads: 16 processors, 8 GB; 30 to 60 s in the field (spire#2593) |\n\
| headscale | 80 clients take 60 % of a processor (headscale#3108); `up` takes 7 s among 650 (headscale#3165) |\n\
| NetBird | 70 peers need 8 processors, updates take up to 30 s (netbird#4488) |\n\
| Tailscale | 400 changes at a client in 0.14 s (tailscale#20466) |\n\
| Cilium | 90 min after the API server moved (cilium#26192) |\n\
| Corrosion | more than 800 servers, p99 1 to 2 s |\n";

/// A bound on a figure of one column.
struct FigureBound {
    words: &'static str,
    case: &'static str,
    system: &'static str,
    figure: &'static str,
    most: f64,
}

const BOUNDS: [FigureBound; 12] = [
    FigureBound {
        words: "change of one node with 10,000 agents, p99 in ms, below 50",
        case: SINGLE,
        system: "10000 agents",
        figure: "p99",
        most: 50.0,
    },
    FigureBound {
        words: "change of all of 1,000 nodes, p99 in ms, below 1,000",
        case: WHOLE,
        system: "1000 agents",
        figure: "p99 of the agents",
        most: 1000.0,
    },
    FigureBound {
        words: "change of all of 10,000 nodes, the last one in ms, below 10,000",
        case: WHOLE,
        system: "10000 agents",
        figure: "last agent",
        most: 10_000.0,
    },
    FigureBound {
        words: "memory an agent of 10,000 at the controller in KiB, at most 32",
        case: MEMORY,
        system: "10000 agents",
        figure: "at the controller",
        most: 32.0,
    },
    FigureBound {
        words: "reconnection without a change, bytes to the controller, below 1,024",
        case: RECONNECTION,
        system: "10000 agents",
        figure: "to the controller",
        most: 1024.0,
    },
    FigureBound {
        words: "reconnection without a change, bytes to the agent, below 1,024",
        case: RECONNECTION,
        system: "10000 agents",
        figure: "to the agent",
        most: 1024.0,
    },
    FigureBound {
        words: "controller restarted with 10,000 agents, ms until all are in step, below 30,000",
        case: RESTARTED,
        system: "10000 agents",
        figure: "all in step",
        most: 30_000.0,
    },
    FigureBound {
        words: "documents sent again after it, none",
        case: RESTARTED,
        system: "10000 agents",
        figure: "documents sent again",
        most: 0.0,
    },
    FigureBound {
        words: "documents of others that change when one more joins, none",
        case: ONE_JOIN,
        system: "10000 agents",
        figure: "other documents changed",
        most: 0.0,
    },
    FigureBound {
        words: "a tunnel of a revoked device ends, p99 in ms, below 1,000",
        case: REVOKED,
        system: REAL,
        figure: "tunnel ended, p99",
        most: 1000.0,
    },
    FigureBound {
        words: "exchanges that fail under changes, none",
        case: UPDATED,
        system: REAL,
        figure: "failed with changes",
        most: 0.0,
    },
    FigureBound {
        words: "memory of the agent in a node in MiB, below 3",
        case: FOOTPRINT,
        system: REAL,
        figure: "difference",
        most: 3.0,
    },
];

/// The goals that were measured.
pub(super) fn of(sheet: &Sheet) -> Vec<SheetGoal> {
    let bounded = BOUNDS.iter().filter_map(|bound| {
        let found = sheet.of(bound.case, bound.system, bound.figure)?;
        Some(SheetGoal {
            words: bound.words.to_owned(),
            value: found.most,
            is_reached: found.most <= bound.most,
        })
    });
    let mut goals: Vec<_> = bounded.collect();
    goals.extend(same_with_many(sheet));
    goals.extend(calm_under_changes(sheet));
    goals
}

/// One node changes as quickly among 10,000 as among 100.
fn same_with_many(sheet: &Sheet) -> Option<SheetGoal> {
    let of = |system| sheet.of(SINGLE, system, "p99");
    let ratio = of("10000 agents")?.median / of("100 agents")?.median;
    Some(SheetGoal {
        words: "the same among 100, p99 among 10,000 divided by it, at most 1.5".to_owned(),
        value: ratio,
        is_reached: ratio <= 1.5,
    })
}

/// Exchanges take as long under changes as without.
fn calm_under_changes(sheet: &Sheet) -> Option<SheetGoal> {
    let of = |figure| sheet.values(UPDATED, REAL, figure);
    let pairs = of("p99 with changes").iter().zip(of("p99 without"));
    let ratios: Vec<_> = pairs.map(|(with, without)| with / without).collect();
    let ratio = (!ratios.is_empty()).then(|| median(&ratios))?;
    Some(SheetGoal {
        words: "p99 of exchanges under changes divided by that without, the middle of all pairs, at most 1.5".to_owned(),
        value: ratio,
        is_reached: ratio <= 1.5,
    })
}
