//! The cost of attacks, as a table.

use hermes_harness::attacks::Attack;
use serde::{Deserialize, Serialize};

use super::measure::AttackCost;
use crate::options::Published;
use crate::report::{Run, Summary, number, page_table, plain_table};

/// The most memory of a node with its defaults, in MiB.
const PEAK: f64 = 256.0;

/// The longest that a bystander waits, in milliseconds.
const SLOW: f64 = 250.0;

/// One figure of a round.
type CostFigure = fn(&AttackCost) -> f64;

/// Columns of the table, and their figures.
const COLUMNS: [(&str, CostFigure); 11] = [
    ("sent, kB", |outcome| outcome.sent),
    ("attempts", |outcome| outcome.attempts),
    ("past rules", |outcome| outcome.passed),
    ("memory, MiB", |outcome| outcome.peak),
    ("processors", |outcome| outcome.processors),
    ("calm, ms", |outcome| outcome.calm),
    ("p50, ms", |outcome| outcome.middle),
    ("p99, ms", |outcome| outcome.slow),
    ("after, ms", |outcome| outcome.after),
    ("failed", |outcome| outcome.failed),
    ("refused", |outcome| outcome.refused),
];

/// All outcomes.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct AttackCosts {
    /// How it was measured.
    pub run: Option<Run>,
    attacks: Vec<AttackRounds>,
}

/// The rounds of one attack.
#[derive(Debug, Serialize, Deserialize)]
struct AttackRounds {
    name: String,
    by: String,
    summary: String,
    rounds: Vec<AttackCost>,
}

impl AttackRounds {
    fn median(&self, figure: CostFigure) -> f64 {
        let values: Vec<_> = self.rounds.iter().map(figure).collect();
        Summary::of(&values).map_or(f64::NAN, |summary| summary.median)
    }

    fn cells(&self) -> Vec<String> {
        let figures = COLUMNS.map(|(_, figure)| number(self.median(figure)));
        [self.name.clone(), self.by.clone()]
            .into_iter()
            .chain(figures)
            .collect()
    }

    /// The promises that it broke.
    fn broken(&self) -> Vec<String> {
        let most = [
            ("MiB of memory", PEAK, self.median(|outcome| outcome.peak)),
            (
                "ms of a bystander",
                SLOW,
                self.median(|outcome| outcome.slow),
            ),
            (
                "failed requests",
                0.0,
                self.median(|outcome| outcome.failed),
            ),
            (
                "attempts past a rule",
                0.0,
                self.median(|outcome| outcome.passed),
            ),
        ];
        let over = most.into_iter().filter(|(_, most, had)| had > most);
        over.map(|(unit, most, had)| {
            format!(
                "{}: {} {unit}, {} at most",
                self.name,
                number(had),
                number(most)
            )
        })
        .collect()
    }
}

impl AttackCosts {
    /// Adds a round.
    pub fn add(&mut self, attack: &Attack, outcome: AttackCost) {
        if let Some(known) = self
            .attacks
            .iter_mut()
            .find(|known| known.name == attack.name)
        {
            known.rounds.push(outcome);
            return;
        }

        self.attacks.push(AttackRounds {
            name: attack.name.to_owned(),
            by: attack.by.to_string(),
            summary: attack.summary.to_owned(),
            rounds: vec![outcome],
        });
    }

    /// Promises that were broken, a line each.
    pub fn broken(&self) -> Vec<String> {
        self.attacks.iter().flat_map(AttackRounds::broken).collect()
    }
}

impl Published for AttackCosts {
    fn print(&self) -> String {
        let rows = self.attacks.iter().map(AttackRounds::cells);
        plain_table(header(), rows, 2).to_string()
    }

    fn page(&self) -> String {
        let mut page = "# What attacks cost\n\n\
            Each attack runs against a node of its own with the defaults. A bystander of another address asks the same node every 10 ms: \
            `calm` is its median before the attack, `p50` and `p99` are during it, `after` is 10 s after its end. `failed` counts the \
            bystander's requests, `past rules` the attacker's. Promised are at most 256 MiB, a p99 of 250 ms, and zeros in both columns.\n\n"
            .to_owned();
        let rows = self.attacks.iter().map(AttackRounds::cells);
        page += &page_table(&header(), rows, 2);

        page += "\n";
        for attack in &self.attacks {
            page += &format!("- `{}`: {}\n", attack.name, attack.summary);
        }
        if let Some(run) = &self.run {
            page += &format!("\n{run}\n");
        }

        page
    }
}

fn header() -> Vec<String> {
    let named = ["attack", "by"].into_iter();
    let columns = COLUMNS.iter().map(|(name, _)| *name);
    named.chain(columns).map(str::to_owned).collect()
}
