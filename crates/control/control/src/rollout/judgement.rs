//! Whether a node is worse off since a change.

use hermes_api::{Figures, Health};

/// Failures that are no accident.
const FAILURES: u64 = 5;

/// Exchanges of which shares are made: fewer say nothing.
const EXCHANGES: u64 = 20;

/// Exchanges before and since a change whose durations are compared: of fewer, a slow one is chance.
const DURATIONS: u64 = 200;

/// Microseconds that no one notices: durations that differ by less are not told apart.
const UNNOTICED: u64 = 5000;

/// Exchanges in the minutes before a change that make it worth to wait for more of them.
const BUSY: u64 = 50;

/// How much worse a node may be since a change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StopBounds {
    /// Failures of a million exchanges, more than there were before.
    pub errors: u64,
    /// How many times as long as before the slowest hundredth of requests may take.
    pub p99: f64,
}

impl Default for StopBounds {
    fn default() -> Self {
        Self {
            errors: 50_000,
            p99: 1.5,
        }
    }
}

impl StopBounds {
    /// Why the node has too many failures; `None` if it has not.
    pub fn failing(&self, health: &Health) -> Option<String> {
        let before = health.before.unwrap_or_default();
        let since = health.since.unwrap_or_default();
        if since.exchanges < EXCHANGES || since.failures < FAILURES {
            return None;
        }
        // In products of whole numbers: a share of few exchanges is not rounded in favour of the change.
        let share = millionths(&since);
        if share <= millionths(&before) + self.errors {
            return None;
        }
        Some(format!(
            "{} since the change, {} before it; at most {} % more may fail (rollout.stopOn.errors)",
            failures(&since),
            failures(&before),
            percent(self.errors)
        ))
    }

    /// Why the node is too slow; `None` if it is not.
    pub fn slow(&self, health: &Health) -> Option<String> {
        let before = health.before.unwrap_or_default();
        let since = health.since.unwrap_or_default();
        if before.exchanges.min(since.exchanges) < DURATIONS || before.p99_micros == 0 {
            return None;
        }
        // Two of a hundred have to be as slow as one may be: the slowest hundredth of a few exchanges is chance.
        let bound = (before.p99_micros as f64 * self.p99) as u64;
        if since.p98_micros <= bound.max(before.p99_micros + UNNOTICED) {
            return None;
        }
        Some(format!(
            "99 of 100 requests took up to {} since the change, {} before it; {} times that is allowed (rollout.stopOn.p99)",
            time(since.p99_micros),
            time(before.p99_micros),
            self.p99
        ))
    }
}

/// Whether a node carried so much before a change that the exchanges after it can be compared.
pub(super) fn is_busy(health: &Health) -> bool {
    health.before.is_some_and(|before| before.exchanges >= BUSY)
}

fn millionths(figures: &Figures) -> u64 {
    let failures = u128::from(figures.failures) * 1_000_000;
    let share = failures.checked_div(figures.exchanges.into());
    share.and_then(|share| share.try_into().ok()).unwrap_or(0)
}

fn failures(figures: &Figures) -> String {
    format!(
        "{} of {} exchanges failed ({} %)",
        figures.failures,
        figures.exchanges,
        percent(millionths(figures))
    )
}

/// With one decimal at most.
fn percent(millionths: u64) -> f64 {
    (millionths / 1000) as f64 / 10.0
}

fn time(micros: u64) -> String {
    match micros {
        0..10_000 => format!("{:.1} ms", micros as f64 / 1000.0),
        _ => format!("{} ms", micros / 1000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(exchanges: u64, failures: u64, millis: u64) -> Figures {
        Figures {
            exchanges,
            failures,
            p98_micros: millis * 1000,
            p99_micros: millis * 1000,
        }
    }

    fn health(before: Figures, since: Figures) -> Health {
        Health {
            statement: Vec::new(),
            before: Some(before),
            since: Some(since),
        }
    }

    #[test]
    fn noise_stops_no_change() {
        let bounds = StopBounds::default();
        let quiet = figures(300, 0, 10);
        for since in [
            figures(19, 19, 10),
            figures(100, 4, 10),
            figures(1000, 50, 10),
        ] {
            assert_eq!(bounds.failing(&health(quiet, since)), None, "{since:?}");
        }
        for since in [
            figures(199, 0, 900),
            figures(300, 0, 15),
            figures(300, 0, 0),
        ] {
            assert_eq!(bounds.slow(&health(quiet, since)), None, "{since:?}");
        }
        // A service that failed before fails no more because of a change.
        let failing = health(figures(300, 150, 10), figures(300, 160, 10));
        assert_eq!(bounds.failing(&failing), None);
    }

    #[test]
    fn reasons_have_the_figures() {
        let bounds = StopBounds::default();
        let failing = bounds.failing(&health(figures(300, 3, 10), figures(80, 12, 10)));
        assert_eq!(
            failing.as_deref(),
            Some(
                "12 of 80 exchanges failed (15 %) since the change, 3 of 300 exchanges failed (1 %) before it; at most 5 % more may fail (rollout.stopOn.errors)"
            )
        );
        let slow = bounds.slow(&health(figures(300, 3, 10), figures(200, 0, 120)));
        assert_eq!(
            slow.as_deref(),
            Some(
                "99 of 100 requests took up to 120 ms since the change, 10 ms before it; 1.5 times that is allowed (rollout.stopOn.p99)"
            )
        );
    }
}
