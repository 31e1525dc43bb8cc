//! When a handshake began, which grows from one to the next (TAI64N): an old one cannot be played again.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// TAI64's label of the Unix epoch, with the ten seconds by which TAI was ahead then.
const EPOCH: u64 = (1 << 62) + 10;

/// Nanoseconds are told to about 17 ms only: more would tell of the machine's clock.
const COARSE: u32 = !0xff_ffff;

/// Bytes of a timestamp.
pub(crate) const TIMESTAMP: usize = 12;

/// Seconds and nanoseconds in network byte order: later is greater.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Timestamp(pub(crate) [u8; TIMESTAMP]);

/// The wall-clock time of an instant. It does not run backwards while the process runs.
#[derive(Debug, Clone, Copy)]
pub struct WallClock {
    /// An instant.
    pub at: Instant,
    /// The wall-clock time at that instant, since the Unix epoch.
    pub unix: Duration,
}

impl WallClock {
    /// By the system's clock now.
    pub fn of_system(at: Instant, time: SystemTime) -> Self {
        let unix = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { at, unix }
    }

    pub(crate) fn timestamp(&self, now: Instant) -> Timestamp {
        let unix = self.unix + now.saturating_duration_since(self.at);
        let mut bytes = [0; TIMESTAMP];
        bytes[..8].copy_from_slice(&(EPOCH + unix.as_secs()).to_be_bytes());
        bytes[8..].copy_from_slice(&(unix.subsec_nanos() & COARSE).to_be_bytes());
        Timestamp(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_is_greater_and_the_epoch_is_that_of_tai64() {
        let clock = WallClock {
            at: Instant::now(),
            unix: Duration::ZERO,
        };
        let first = clock.timestamp(clock.at);
        let later = clock.timestamp(clock.at + Duration::from_millis(40));
        assert_eq!(first.0, [0x40, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 0]);
        assert!(first < later);
        assert!(later < clock.timestamp(clock.at + Duration::from_secs(1)));
    }
}
