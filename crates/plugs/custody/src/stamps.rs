//! When handshakes were begun: a HELLO that someone repeats is known by it.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::noise::Stamp;

/// Stamps are told to about 17 ms only: more would tell of the machine's clock.
const COARSE: u64 = 1 << 24;

/// Makes stamps, each greater than the ones before, also over restarts as long as the system's clock is not set back.
#[derive(Debug)]
pub(crate) struct Stamps {
    at: Instant,
    /// The time then, since the Unix epoch.
    unix: Duration,
    last: Stamp,
}

impl Stamps {
    /// By the system's clock.
    pub(crate) fn new(now: Instant) -> Self {
        let time = SystemTime::now().duration_since(UNIX_EPOCH);
        Self::at(now, time.unwrap_or_default())
    }

    /// By a clock that shows so much since the Unix epoch now.
    pub(crate) fn at(now: Instant, unix: Duration) -> Self {
        Self {
            at: now,
            unix,
            last: 0,
        }
    }

    /// The next one.
    pub(crate) fn next(&mut self, now: Instant) -> Stamp {
        let time = self.unix + now.saturating_duration_since(self.at);
        let time = Stamp::try_from(time.as_nanos()).unwrap_or(Stamp::MAX);
        // Two handshakes within one coarse step still differ, and in their order.
        self.last = (time & !(COARSE - 1)).max(self.last.saturating_add(1));
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_greater_than_those_before() {
        let now = Instant::now();
        let mut stamps = Stamps::at(now, Duration::from_secs(1_000));
        let first = stamps.next(now);
        let second = stamps.next(now);
        let later = stamps.next(now + Duration::from_secs(1));
        assert!(0 < first && first < second && second < later);

        let mut restarted = Stamps::at(now, Duration::from_secs(1_002));
        assert!(restarted.next(now) > later);
    }
}
