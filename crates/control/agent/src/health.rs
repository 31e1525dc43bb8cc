//! How the exchanges of a node go: before the last change, and since then.

use std::collections::VecDeque;
use std::time::Duration;

use hermes_api::{Figures, Hash, Health};
use hermes_node::Vitals;

/// The time between two looks that are kept.
const APART: Duration = Duration::from_secs(30);

/// Looks that are kept: a change is compared with the five minutes before it.
#[doc(alias = "bound")]
const LOOKS: usize = 10;

/// Looks at the exchanges of a node. Times are those of a clock that never jumps.
#[derive(Debug, Default)]
pub(crate) struct HealthLog {
    looks: VecDeque<(Duration, Vitals)>,
    /// The sums at the last change.
    changed: Option<Vitals>,
    before: Figures,
}

impl HealthLog {
    /// Keeps a look, if it is time for one.
    pub(crate) fn look(&mut self, now: Duration, vitals: impl FnOnce() -> Option<Vitals>) {
        let last = self.looks.back().map(|(at, _)| *at);
        if last.is_some_and(|last| now.saturating_sub(last) < APART) {
            return;
        }
        let Some(vitals) = vitals() else {
            return;
        };
        if self.looks.len() >= LOOKS {
            self.looks.pop_front();
        }
        self.looks.push_back((now, vitals));
    }

    /// The node is about to change.
    pub(crate) fn changes(&mut self, vitals: Option<Vitals>) {
        let Some(vitals) = vitals else {
            return;
        };
        // Without a look before, the exchanges since the start are those before the change.
        let before = match self.looks.front() {
            Some((_, first)) => vitals.since(first),
            None => vitals.clone(),
        };
        self.before = figures(&before);
        // Earlier looks stay: a change has several stages, and each is compared with the minutes before.
        self.changed = Some(vitals);
    }

    /// The figures for a controller that knows this statement.
    pub(crate) fn report(&self, statement: Hash, vitals: Option<Vitals>) -> Option<Health> {
        let since = vitals?.since(self.changed.as_ref()?);
        Some(Health {
            statement: statement.as_bytes().to_vec(),
            before: Some(self.before),
            since: Some(figures(&since)),
        })
    }
}

fn figures(vitals: &Vitals) -> Figures {
    Figures {
        exchanges: vitals.exchanges,
        failures: vitals.failures,
        p98_micros: vitals.quantile(980).unwrap_or_default(),
        p99_micros: vitals.quantile(990).unwrap_or_default(),
    }
}
