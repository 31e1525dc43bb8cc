//! What was promised, and the formulas of the paper.

use super::measure::{AT_ONCE, BULK, NEW};
use super::systems::SocksSystem;
use super::trips::{TO_PROXY, TO_PROXY_FAST, TO_SERVER, TO_SERVER_FAST, TRIPS};
use crate::report::{PageHead, Sheet, SheetGoal};

pub(super) const HEAD: PageHead = PageHead {
    title: "SOCKS",
    command: "socks",
    words: "A client, a proxy and a server in a process each, on the processors of one machine, over loopback; each proxy with its defaults, without \
            passwords and logs, and started anew for each round. `hermes` is spoken to by SOCKS5 and `hermes6` by SOCKS6, the first byte with the request. \
            *New connection*: connected, asked, and a byte that came back, one after the other. *1,000 at once*: the same, until the last \
            byte is back. Memory is what is resident, shared pages in part. Round trips are counted over links of 50 ms in namespaces.",
    notes: NOTES,
};

const NOTES: &str = "\n![New connections, a thousand at once, and bulk](socks.svg)\n\n\
## Round trips of the paper\n\n\
The paper on bridging functions (EPI framework, equations 6 to 9) counts: directly 2; through a reverse proxy 2 to it and 2 behind it; SOCKS5 5 and 2; \
SOCKS6 3 and 2, since its implementation wrote the initial data as a second message. Its own aim, and ours, is 2 and 2. SOCKS5 without a password \
needs 4: the connection, method, request, and the bytes themselves; a password is the fifth. With TCP Fast Open on both sides, whose kernels have \
cookies of each other, SOCKS6 needs 1 and 1: the request opens the connection to the proxy, and its bytes the one to the server.\n\n\
## Why three goals are missed\n\n\
- **A new connection** is two for a proxy: microsocks, which is little more than the system calls that SOCKS takes, needs 0.56 of sing-box's time here, and so do we with \
SOCKS6. With SOCKS5 the reply that the client waits for costs one more turn of two processes, 48 us; 0.45 of sing-box's would be 147 us, less than any proxy here.\n\
- **1,000 at once**: client, proxy and server share two processors, which are busy all the time. A connection takes 33 us of them directly, and 112 to 118 through \
microsocks and Hermes: twice the sockets, and three programs that take turns instead of two.\n\
- **Bulk**: directly, a GB takes 0.43 s of two busy processors. At 0.8 of the direct rate 0.11 s a GB would be left for the proxy, on the same processors; `splice`, \
which copies nothing, takes 0.27. Where the proxy has processors of its own, the goal is one of the kernel's: nothing of a byte is touched here.\n";

/// A ratio of two systems with a bound.
struct RatioGoal {
    words: &'static str,
    case: &'static str,
    figure: &'static str,
    of: SocksSystem,
    to: SocksSystem,
    bound: f64,
    at_least: bool,
}

const RATIOS: [RatioGoal; 3] = [
    RatioGoal {
        words: "new connection, of sing-box's, at most 0.45",
        case: NEW,
        figure: "p50",
        of: SocksSystem::Hermes,
        to: SocksSystem::SingBox,
        bound: 0.45,
        at_least: false,
    },
    RatioGoal {
        words: "1,000 at once, of direct, at most 1.7",
        case: AT_ONCE,
        figure: "all answered",
        of: SocksSystem::Hermes,
        to: SocksSystem::Direct,
        bound: 1.7,
        at_least: false,
    },
    RatioGoal {
        words: "bulk, of direct, at least 0.8",
        case: BULK,
        figure: "rate",
        of: SocksSystem::Hermes,
        to: SocksSystem::Direct,
        bound: 0.8,
        at_least: true,
    },
];

/// Round trips of a system that were promised.
const COUNTED: [(SocksSystem, &str, f64); 6] = [
    (SocksSystem::Hermes, TO_PROXY, 4.0),
    (SocksSystem::Hermes, TO_SERVER, 2.0),
    (SocksSystem::Hermes6, TO_PROXY, 2.0),
    (SocksSystem::Hermes6, TO_SERVER, 2.0),
    (SocksSystem::Hermes6, TO_PROXY_FAST, 1.0),
    (SocksSystem::Hermes6, TO_SERVER_FAST, 1.0),
];

/// The goals for which there are figures.
pub(super) fn of(sheet: &Sheet) -> Vec<SheetGoal> {
    let mut goals = Vec::new();
    for goal in &RATIOS {
        let median = |system: SocksSystem| {
            let found = sheet.of(goal.case, system.name(), goal.figure);
            found.map(|summary| summary.median)
        };
        let Some((of, to)) = median(goal.of).zip(median(goal.to)) else {
            continue;
        };
        let value = of / to;
        goals.push(SheetGoal {
            words: goal.words.to_owned(),
            value,
            is_reached: match goal.at_least {
                true => value >= goal.bound,
                false => value <= goal.bound,
            },
        });
    }
    for (system, figure, wanted) in COUNTED {
        if let Some(found) = sheet.of(TRIPS, system.name(), figure) {
            goals.push(SheetGoal {
                words: format!("round trips of {system}, {figure}, {wanted}"),
                value: found.median,
                is_reached: (found.median - wanted).abs() < f64::EPSILON,
            });
        }
    }
    goals
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Figure;

    #[test]
    fn ratios_are_of_medians_and_goals_without_figures_are_left_out() {
        let mut sheet = Sheet::default();
        for value in [40.0, 45.0, 100.0] {
            sheet.add(NEW, "hermes", Figure::less("p50", "us"), value);
            sheet.add(NEW, "sing-box", Figure::less("p50", "us"), 100.0);
        }
        sheet.add(BULK, "hermes", Figure::more("rate", "Gbit/s"), 7.0);
        sheet.add(BULK, "direct", Figure::more("rate", "Gbit/s"), 10.0);
        sheet.add(TRIPS, "hermes6", Figure::less(TO_PROXY, "round trips"), 2.0);
        let goals = of(&sheet);
        let found: Vec<_> = goals
            .iter()
            .map(|goal| (goal.value, goal.is_reached))
            .collect();
        assert_eq!(found, [(0.45, true), (0.7, false), (2.0, true)]);
    }
}
