//! How many errors a router sends (RFC 4443, section 2.4 (f)): a flood of packets must not become a flood of errors.

use std::time::{Duration, Instant};

/// Errors that may be sent at once: several flows may learn the MTU of a path at the same time.
#[doc(alias = "bound")]
pub const ICMP_BURST: u32 = 50;

/// Errors that may be sent in a second, on and on.
#[doc(alias = "bound")]
pub const ICMP_PER_SECOND: u32 = 100;

/// Counts the errors to one peer.
#[derive(Debug, Default, Clone)]
pub struct IcmpLimiter {
    /// Until when errors that were sent are paid for, one after the other.
    paid_until: Option<Instant>,
    suppressed: u64,
}

impl IcmpLimiter {
    /// Whether an error may be sent now; counts one that may not.
    pub fn allows(&mut self, now: Instant) -> bool {
        const EACH: Duration = Duration::from_micros(1_000_000 / ICMP_PER_SECOND as u64);
        const AHEAD: Duration =
            Duration::from_micros((1_000_000 / ICMP_PER_SECOND as u64) * (ICMP_BURST as u64 - 1));

        let due = self.paid_until.map_or(now, |until| until.max(now));
        if due > now + AHEAD {
            self.suppressed += 1;
            return false;
        }

        self.paid_until = Some(due + EACH);
        true
    }

    /// How many were not sent since this was last asked.
    pub fn take_suppressed(&mut self) -> u64 {
        std::mem::take(&mut self.suppressed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(limiter: &mut IcmpLimiter, now: Instant, wanted: u32) -> u32 {
        (0..wanted).map(|_| u32::from(limiter.allows(now))).sum()
    }

    #[test]
    fn a_burst_passes_and_then_a_rate() {
        let start = Instant::now();
        let mut limiter = IcmpLimiter::default();
        assert_eq!(sent(&mut limiter, start, 1000), ICMP_BURST);
        assert_eq!(limiter.take_suppressed(), u64::from(1000 - ICMP_BURST));

        let mut later = 0;
        for second in 1..=20 {
            later += sent(&mut limiter, start + Duration::from_secs(second), 1000);
        }
        // The saved credit is at most a burst, after any time without errors.
        assert_eq!(later, 20 * ICMP_BURST);

        let mut steady = 0;
        for tick in 1..=1000 {
            let now = start + Duration::from_secs(20) + Duration::from_millis(10 * tick);
            steady += sent(&mut limiter, now, 10);
        }
        assert_eq!(steady, 10 * ICMP_PER_SECOND);
        assert!(limiter.take_suppressed() > 0);
        assert_eq!(limiter.take_suppressed(), 0);
    }
}
