//! The budget of retries: every exchange adds a little, and every retry takes one.
//!
//! A dead upstream is then asked `1 + ratio` times for each exchange, and not as often as every exchange may be tried. All
//! workers share the purse; it takes no lock. Time is an argument.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Instant;

use hermes_config::model::Percent;

/// Price of a retry: the purse counts in thousandths.
const RETRY: i64 = 1000;

/// Retries that can be saved up: the savings of a busy hour must not become a storm. A hundred at
/// once hurt no one.
#[doc(alias = "bound")]
const SAVED: i64 = 100 * RETRY;

/// How fast a purse fills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// Retries for each exchange.
    pub ratio: Percent,
    /// Retries a second that are allowed under any load.
    pub per_second: u16,
}

/// A purse of retries.
#[derive(Debug, Default)]
pub struct Budget {
    /// Thousandths of a retry.
    saved: AtomicI64,
    /// When time began to be paid for.
    since: OnceLock<Instant>,
    /// Milliseconds that were paid for.
    paid: AtomicU64,
}

impl Budget {
    /// An exchange begins, and brings its share.
    pub fn deposit(&self, allowance: Allowance) {
        let share = allowance.ratio.of(RETRY.unsigned_abs());
        self.add(share.cast_signed(), SAVED);
    }

    /// Takes one retry, if there is one.
    pub fn withdraw(&self, allowance: Allowance, now: Instant) -> bool {
        self.refill(allowance, now);
        let take = |saved: i64| (saved >= RETRY).then(|| saved - RETRY);
        self.saved
            .try_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .is_ok()
    }

    /// Pays for the time since the last time; never more than one second's worth, so that silence saves nothing.
    fn refill(&self, allowance: Allowance, now: Instant) {
        let second = i64::from(allowance.per_second) * RETRY;
        let since = *self.since.get_or_init(|| {
            self.add(second, second);
            now
        });
        let now =
            u64::try_from(now.saturating_duration_since(since).as_millis()).unwrap_or(u64::MAX);
        let newer = |paid: u64| (paid < now).then_some(now);

        let Ok(paid) = self
            .paid
            .try_update(Ordering::Relaxed, Ordering::Relaxed, newer)
        else {
            return;
        };

        // A thousandth of a retry for each millisecond and each retry a second.
        let earned =
            i64::try_from((now - paid).min(1000)).unwrap_or(0) * i64::from(allowance.per_second);
        self.add(earned, second);
    }

    /// Adds, but not above `limit`; an amount above it stays.
    fn add(&self, amount: i64, limit: i64) {
        let more = |saved: i64| (saved < limit).then(|| (saved + amount).min(limit));
        // Full is as good as added to.
        let _ = self
            .saved
            .try_update(Ordering::Relaxed, Ordering::Relaxed, more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::time::Duration;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn exchanges_pay_for_their_share_of_retries() {
        let (budget, allowance) = (
            Budget::default(),
            Allowance {
                ratio: Percent(200_000),
                per_second: 0,
            },
        );
        (0..50).for_each(|_| budget.deposit(allowance));
        let taken = (0..50)
            .filter(|_| budget.withdraw(allowance, Instant::now()))
            .count();
        assert_eq!(taken, 10);
    }

    #[test]
    fn a_few_retries_a_second_are_always_allowed() {
        let (budget, allowance) = (
            Budget::default(),
            Allowance {
                ratio: Percent(0),
                per_second: 3,
            },
        );
        let now = Instant::now();
        let take = |now: Instant| (0..10).filter(|_| budget.withdraw(allowance, now)).count();
        assert_eq!(
            [
                take(now),
                take(now),
                take(now + SECOND),
                take(now + SECOND * 100)
            ],
            [3, 0, 3, 3]
        );
        assert_eq!(
            take(now + SECOND * 100 + Duration::from_millis(400)),
            1,
            "1.2, of which 0.2 are left"
        );
        assert_eq!(
            take(now + SECOND * 100 + Duration::from_millis(700)),
            1,
            "0.2 and 0.9"
        );
    }

    #[test]
    fn savings_have_an_end() {
        let (budget, allowance) = (
            Budget::default(),
            Allowance {
                ratio: Percent(1_000_000),
                per_second: 0,
            },
        );
        (0..10_000).for_each(|_| budget.deposit(allowance));
        assert_eq!(
            (0..10_000)
                .filter(|_| budget.withdraw(allowance, Instant::now()))
                .count(),
            100
        );
    }

    #[test]
    fn time_that_runs_backwards_earns_nothing() {
        let (budget, allowance) = (
            Budget::default(),
            Allowance {
                ratio: Percent(0),
                per_second: 1,
            },
        );
        let now = Instant::now();
        assert!(budget.withdraw(allowance, now + SECOND));
        assert!(!budget.withdraw(allowance, now));
    }
}
