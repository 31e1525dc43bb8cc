//! Buckets of bytes: one instant each, as in the generic cell rate algorithm.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Users and sources whose rates are known at once; further ones are refused.
#[doc(alias = "bound")]
const OWNERS: usize = 16_384;

/// A rate, and the bytes that may pass at once after a pause.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// Bytes in a second.
    pub(super) rate: u64,
    /// Bytes.
    pub(super) burst: u64,
}

impl Pace {
    /// The time that these bytes take.
    fn time(self, bytes: u64) -> Duration {
        let nanoseconds = u128::from(bytes) * 1_000_000_000 / u128::from(self.rate.max(1));
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }
}

/// Whose a bucket is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum BucketOwner {
    All,
    User(Box<str>),
    /// An address, or the local sockets of this machine.
    Source(Option<IpAddr>),
}

/// The bytes of one owner in one direction.
pub(super) struct Bucket {
    pace: Pace,
    /// When all bytes that have passed would have passed at the rate.
    paid: Mutex<Instant>,
}

impl Bucket {
    /// These bytes have passed: the instant before which their sender passes no more.
    pub(super) fn pay(&self, bytes: usize, now: Instant) -> Instant {
        let mut paid = self.paid.lock();
        *paid = (*paid).max(now) + self.pace.time(bytes as u64);
        let burst = self.pace.time(self.pace.burst);
        paid.checked_sub(burst).unwrap_or(now)
    }

    /// Whether these bytes may pass now; if so they are paid.
    pub(super) fn admits(&self, bytes: usize, now: Instant) -> bool {
        let mut paid = self.paid.lock();
        let after = (*paid).max(now) + self.pace.time(bytes as u64);
        let is_within = after <= now + self.pace.time(self.pace.burst);
        if is_within {
            *paid = after;
        }
        is_within
    }

    fn is_full(&self, now: Instant) -> bool {
        *self.paid.lock() <= now
    }
}

/// The buckets of all owners of one rate.
pub(super) struct Buckets {
    pace: Pace,
    known: Mutex<HashMap<BucketOwner, [Arc<Bucket>; 2]>>,
}

impl Buckets {
    pub(super) fn new(pace: Pace) -> Self {
        Self {
            pace,
            known: Mutex::default(),
        }
    }

    /// The buckets of an owner, to the target and to the client; `None` if too many are known.
    pub(super) fn of(&self, owner: BucketOwner, now: Instant) -> Option<[Arc<Bucket>; 2]> {
        let mut known = self.known.lock();
        if let Some(buckets) = known.get(&owner) {
            return Some(buckets.clone());
        }
        if known.len() >= OWNERS {
            // One who comes back after a debt still has it: only full buckets without tunnels are forgotten.
            known.retain(|_, pair| {
                pair.iter()
                    .any(|bucket| Arc::strong_count(bucket) > 1 || !bucket.is_full(now))
            });
        }
        if known.len() >= OWNERS {
            return None;
        }

        let bucket = || {
            Arc::new(Bucket {
                pace: self.pace,
                paid: Mutex::new(now),
            })
        };
        let pair = [bucket(), bucket()];
        known.insert(owner, pair.clone());
        Some(pair)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace {
        rate: 1000,
        burst: 500,
    };

    fn bucket(now: Instant) -> Arc<Bucket> {
        let buckets = Buckets::new(PACE);
        let [bucket, _] = buckets.of(BucketOwner::All, now).unwrap();
        bucket
    }

    #[test]
    fn bytes_beyond_the_burst_wait_for_the_rate() {
        let now = Instant::now();
        let bucket = bucket(now);
        assert_eq!(bucket.pay(500, now), now);
        assert_eq!(bucket.pay(1000, now), now + Duration::from_secs(1));
        let later = now + Duration::from_secs(60);
        assert!(bucket.pay(500, later) <= later, "a pause refills it");
    }

    #[test]
    fn turns_of_one_user_follow_one_another() {
        let now = Instant::now();
        let bucket = bucket(now);
        bucket.pay(500, now);
        let turns: Vec<_> = (0..4).map(|_| bucket.pay(100, now) - now).collect();
        let expected = [100, 200, 300, 400].map(Duration::from_millis);
        assert_eq!(turns, expected);
    }

    #[test]
    fn datagrams_beyond_the_rate_are_not_admitted_and_not_paid() {
        let now = Instant::now();
        let bucket = bucket(now);
        assert!(bucket.admits(400, now) && !bucket.admits(200, now) && bucket.admits(100, now));
        assert!(bucket.admits(100, now + Duration::from_millis(100)));
    }

    #[test]
    fn a_user_who_comes_back_still_has_the_debt() {
        let now = Instant::now();
        let buckets = Buckets::new(PACE);
        let user = || BucketOwner::User("ann".into());
        buckets.of(user(), now).unwrap()[0].pay(5_000, now);
        let again = buckets.of(user(), now).unwrap();
        assert!(!again[0].admits(1, now) && again[1].admits(1, now));
    }

    #[test]
    fn owners_are_bounded_and_idle_ones_make_room() {
        let now = Instant::now();
        let buckets = Buckets::new(PACE);
        let owner = |number: usize| BucketOwner::User(number.to_string().into());
        let held: Vec<_> = (0..OWNERS)
            .map(|number| buckets.of(owner(number), now).unwrap())
            .collect();
        assert!(buckets.of(owner(OWNERS), now).is_none());
        drop(held);
        assert!(buckets.of(owner(OWNERS), now).is_some());
    }
}
