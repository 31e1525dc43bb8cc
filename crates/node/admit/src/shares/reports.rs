//! The rate of reports about the way of exchanges, for each user.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hermes_net::memory::Owner;

/// Reports that a user gets at once, after a while without.
#[doc(alias = "bound")]
const BURST: u64 = 64;

/// Time after which a user may have one more.
#[doc(alias = "bound")]
const INTERVAL: Duration = Duration::from_millis(20);

/// Rates that are counted apart. Users who share one by chance share its reports.
#[doc(alias = "bound")]
const SLOTS: usize = 1024;

/// The rates, by a generic cell rate algorithm: each slot is the time at which its reports will have been paid for.
pub struct ReportRates {
    /// Microseconds since `began`.
    paid: OnceLock<Box<[AtomicU64]>>,
    hasher: RandomState,
    began: Instant,
}

impl Default for ReportRates {
    fn default() -> Self {
        Self {
            // Most nodes are never asked.
            paid: OnceLock::new(),
            hasher: RandomState::new(),
            began: Instant::now(),
        }
    }
}

impl ReportRates {
    /// Whether `owner` may have a report now.
    pub fn admit(&self, owner: &Owner, now: Instant) -> bool {
        let slots = self
            .paid
            .get_or_init(|| (0..SLOTS).map(|_| AtomicU64::new(0)).collect());
        let slot = &slots[self.slot(owner)];
        let now = micros(now.saturating_duration_since(self.began));
        let interval = micros(INTERVAL);
        let admitted = slot.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |paid| {
            let paid = paid.max(now) + interval;
            (paid - now <= interval * BURST).then_some(paid)
        });
        admitted.is_ok()
    }

    fn slot(&self, owner: &Owner) -> usize {
        usize::try_from(self.hasher.hash_one(owner)).unwrap_or_default() % SLOTS
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_gets_a_burst_and_then_one_report_an_interval() {
        let rates = ReportRates::default();
        let (alice, bob) = (Owner::User("alice".into()), Owner::User("bob".into()));
        let now = Instant::now();
        let admitted = |owner: &Owner, at: Instant| {
            let admitted = (0..1000).filter(|_| rates.admit(owner, at));
            u64::try_from(admitted.count()).unwrap()
        };
        assert_eq!(admitted(&alice, now), BURST);
        assert_eq!(admitted(&alice, now), 0);
        assert_eq!(admitted(&alice, now + INTERVAL * 3), 3);
        let is_apart = rates.slot(&alice) != rates.slot(&bob);
        assert!(!is_apart || admitted(&bob, now) == BURST);
        let later = now + Duration::from_secs(60 * 60 * 24 * 1000);
        assert_eq!(admitted(&alice, later), BURST);
    }
}
