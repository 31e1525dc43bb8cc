//! The paper's figures, and the goals that are made of them.

use super::network::TABLE_I;
use super::rate::case;
use crate::report::{Figure, PageHead, Sheet, SheetGoal};

/// The time that the quickest request takes longer than the quickest direct one.
pub(super) const LONGER: &str = "longer than direct";

pub(super) const HEAD: PageHead = PageHead {
    title: "Functions on the way",
    command: "functions",
    words: "The experiments of the paper on bridging functions (EPI framework, section VI). *1 to 16 clients*: a client, a proxy and a server in a process \
            each over loopback, every request on a connection of its own with `Connection: close`; the system anew for each round. *DOCKER 1 to 6*: the \
            six rows of Table I, as networks of their own; the numbers are round trips from client to proxy, proxy to server, and client to \
            server. Requests one after the other in which all systems take turns, each a new connection, as `httping` sends them: their median, the quickest of them, and by how much it took \
            longer than the quickest direct one; the paper has means, which other work on a machine delays. `nginx` is a \
            reverse proxy, `hermes` a port for one server as it has one, `hermes5` and `hermes6` are spoken to by SOCKS5 and SOCKS6, the chains by SOCKS6: \
            an allow-list, then `sniff`, `limit` and `tap` behind it; `outside` is a `hop` through microsocks. The columns of the paper are what its text says of figures \
            11 and 12.",
    notes: include_str!("notes.txt"),
};

/// What a proxy of the paper adds in a row of Table I, in milliseconds, and the system of ours to compare.
struct PaperFigure {
    row: usize,
    proxy: &'static str,
    ours: &'static str,
    longer: f64,
}

impl PaperFigure {
    const fn of(row: usize, proxy: &'static str, ours: &'static str, longer: f64) -> Self {
        Self {
            row,
            proxy,
            ours,
            longer,
        }
    }
}

const NGINX: &str = "paper's nginx";
const SOCKS5: &str = "paper's SOCKS5";
const SOCKS6: &str = "paper's SOCKS6";

/// Sections VI-B and VI-C: below 1, 12 and 6 ms with the proxy on the way; 2 to 21, 5 to 42 and 4 to 32 ms in triangles of 1 to 10 ms.
const PAPER: [PaperFigure; 9] = [
    PaperFigure::of(0, NGINX, "hermes", 1.0),
    PaperFigure::of(0, SOCKS5, "hermes5", 12.0),
    PaperFigure::of(0, SOCKS6, "hermes6", 6.0),
    PaperFigure::of(3, NGINX, "hermes", 2.0),
    PaperFigure::of(3, SOCKS5, "hermes5", 5.0),
    PaperFigure::of(3, SOCKS6, "hermes6", 4.0),
    PaperFigure::of(5, NGINX, "hermes", 21.0),
    PaperFigure::of(5, SOCKS5, "hermes5", 42.0),
    PaperFigure::of(5, SOCKS6, "hermes6", 32.0),
];

/// Puts the paper's figures beside ours.
pub(super) fn add_paper(sheet: &mut Sheet) {
    for figure in &PAPER {
        let case = TABLE_I[figure.row].name;
        let longer = Figure::less(LONGER, "ms");
        sheet.add(case, figure.proxy, longer, figure.longer);
    }
}

/// A rate that should reach some part of another one.
struct RateGoal {
    words: &'static str,
    clients: usize,
    of: &'static str,
    to: &'static str,
    bound: f64,
}

const RATES: [RateGoal; 3] = [
    RateGoal {
        words: "16 clients by SOCKS6, of nginx's rate, at least 1 (the paper's order)",
        clients: 16,
        of: "hermes6",
        to: "nginx",
        bound: 1.0,
    },
    RateGoal {
        words: "16 clients by SOCKS6, of SOCKS5's rate, at least 1 (the paper's order)",
        clients: 16,
        of: "hermes6",
        to: "hermes5",
        bound: 1.0,
    },
    RateGoal {
        words: "16 clients and four functions, of the rate without any, at least 0.8 (our own)",
        clients: 16,
        of: "chain4",
        to: "hermes6",
        bound: 0.8,
    },
];

/// The goals for which there are figures.
pub(super) fn of(sheet: &Sheet) -> Vec<SheetGoal> {
    let mut goals = Vec::new();
    for figure in &PAPER {
        let row = TABLE_I[figure.row].name;
        if let Some(found) = sheet.of(row, figure.ours, LONGER) {
            goals.push(SheetGoal {
                words: format!(
                    "{row}: {} longer than direct by at most the {} ms of {}",
                    figure.ours, figure.longer, figure.proxy
                ),
                value: found.median,
                is_reached: found.median <= figure.longer,
            });
        }
    }
    for goal in &RATES {
        let median = |system| {
            let found = sheet.of(&case(goal.clients), system, "rate");
            found.map(|summary| summary.median)
        };
        let Some((of, to)) = median(goal.of).zip(median(goal.to)) else {
            continue;
        };
        goals.push(SheetGoal {
            words: goal.words.to_owned(),
            value: of / to,
            is_reached: of / to >= goal.bound,
        });
    }
    goals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_the_papers_figures_and_ratios_of_rates() {
        let mut sheet = Sheet::default();
        let longer = || Figure::less(LONGER, "ms");
        sheet.add(TABLE_I[0].name, "hermes", longer(), 0.5);
        sheet.add(TABLE_I[5].name, "hermes6", longer(), 33.0);
        for (system, rate) in [("hermes6", 90.0), ("nginx", 100.0), ("chain4", 72.0)] {
            sheet.add(&case(16), system, Figure::more("rate", "requests/s"), rate);
        }
        let goals = of(&sheet);
        let found: Vec<_> = goals
            .iter()
            .map(|goal| (goal.value, goal.is_reached))
            .collect();
        assert_eq!(
            found,
            [(0.5, true), (33.0, false), (0.9, false), (0.8, true)]
        );
    }
}
