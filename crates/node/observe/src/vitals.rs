//! Sums over all exchanges of the node, for who compares two times of it: without labels, and cheap to read.

use std::sync::atomic::{AtomicU64, Ordering};

/// Classes of duration to each doubling: neighbours differ by 9 %.
const PARTS: u32 = 8;

/// Microseconds below which durations are not told apart.
const SHORTEST: u64 = 64;

/// Doublings of the shortest duration: up to 67 s.
const DOUBLINGS: u32 = 20;

/// Classes of duration.
#[doc(alias = "bound")]
const CLASSES: usize = (PARTS * DOUBLINGS) as usize;

/// Sums over all exchanges that have ended. They only grow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vitals {
    /// Exchanges that ended.
    pub exchanges: u64,
    /// Exchanges that failed: without a response, with a 5xx, or broken off by the target.
    pub failures: u64,
    /// Requests that were answered, by their duration. Tunnels last as long as their users like, and are not among them.
    durations: Vec<u64>,
}

impl Vitals {
    /// The exchanges that ended after an earlier look.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let both = self.durations.iter().zip(&earlier.durations);
        Self {
            exchanges: self.exchanges.saturating_sub(earlier.exchanges),
            failures: self.failures.saturating_sub(earlier.failures),
            durations: both
                .map(|(now, before)| now.saturating_sub(*before))
                .collect(),
        }
    }

    /// The duration in microseconds that so many of a thousand requests stay below; `None` without requests.
    #[must_use]
    pub fn quantile(&self, thousandths: u64) -> Option<u64> {
        let all: u64 = self.durations.iter().sum();
        let below = (all * thousandths).div_ceil(1000).max(1);
        let mut sum = 0;
        let class = self.durations.iter().position(|count| {
            sum += count;
            sum >= below
        });
        class.map(longest)
    }
}

/// The longest duration of a class, in microseconds.
fn longest(class: usize) -> u64 {
    let class = u32::try_from(class).unwrap_or(u32::MAX) + 1;
    let doubled = SHORTEST << (class / PARTS).min(DOUBLINGS);
    doubled + doubled * u64::from(class % PARTS) / u64::from(PARTS)
}

/// The class of a duration.
fn class(micros: u64) -> usize {
    let above = micros.clamp(SHORTEST, SHORTEST << DOUBLINGS);
    let doublings = (above / SHORTEST).ilog2();
    let floor = SHORTEST << doublings;
    // Below 8, because the duration is less than twice its floor.
    let part = (above - floor) * u64::from(PARTS) / floor;
    let class = u64::from(doublings * PARTS) + part;
    usize::try_from(class).unwrap_or(CLASSES).min(CLASSES - 1)
}

/// The sums as they are added to.
#[derive(Debug)]
pub(super) struct VitalCounters {
    exchanges: AtomicU64,
    failures: AtomicU64,
    durations: [AtomicU64; CLASSES],
}

impl Default for VitalCounters {
    fn default() -> Self {
        Self {
            exchanges: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            durations: [const { AtomicU64::new(0) }; CLASSES],
        }
    }
}

impl VitalCounters {
    /// Counts an exchange that has ended; `lasted` says how many microseconds a request took that was answered.
    pub fn count(&self, failed: bool, lasted: Option<u64>) {
        self.exchanges.fetch_add(1, Ordering::Relaxed);
        if failed {
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(micros) = lasted {
            self.durations[class(micros)].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The sums so far.
    pub fn read(&self) -> Vitals {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Vitals {
            exchanges: load(&self.exchanges),
            failures: load(&self.failures),
            durations: self.durations.iter().map(load).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_lies_within_its_class() {
        for micros in [1, 64, 65, 71, 72, 100, 1000, 12_345, 999_999, 60_000_000] {
            let longest = longest(class(micros));
            assert!(longest > micros, "{micros}: {longest}");
            assert!(longest <= micros.max(64) * 9 / 8 + 8, "{micros}: {longest}");
        }
        assert_eq!(class(u64::MAX), CLASSES - 1);
    }

    #[test]
    fn quantiles_are_those_of_the_exchanges_between_two_looks() {
        let counters = VitalCounters::default();
        counters.count(true, Some(5_000_000));
        let before = counters.read();
        for _ in 0..99 {
            counters.count(false, Some(1000));
        }
        counters.count(true, Some(50_000));
        counters.count(false, None);
        let since = counters.read().since(&before);
        assert_eq!((since.exchanges, since.failures), (101, 1));
        assert!(since.quantile(980).is_some_and(|micros| micros < 1200));
        assert!(since.quantile(1000).is_some_and(|micros| micros > 50_000));
        assert_eq!(before.since(&before).quantile(990), None);
    }
}
