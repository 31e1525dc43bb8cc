//! When a certificate is renewed, and when an attempt follows one that failed.

use std::time::Duration;

/// The pause after a first failure. Authorities allow few failed attempts an hour: Let's Encrypt five for a name.
#[doc(alias = "bound")]
const FIRST_PAUSE: Duration = Duration::from_secs(60);

/// The longest pause: a certificate with a third of 90 days left is tried for over a hundred times more.
#[doc(alias = "bound")]
const LONGEST_PAUSE: Duration = Duration::from_secs(6 * 60 * 60);

/// The least pause where the authority says that it was asked too often: its limits count by the hour.
#[doc(alias = "bound")]
const RATE_LIMITED: Duration = Duration::from_secs(60 * 60);

/// From when until when a certificate is valid, in Unix seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lifetime {
    pub(crate) from: u64,
    pub(crate) until: u64,
}

impl Lifetime {
    /// When to renew: after two thirds of the lifetime, or up to a thirtieth of it sooner, so that many nodes do not ask at once.
    /// `chance` is between 0 and 1.
    pub(crate) fn renewal(self, chance: f64) -> u64 {
        let life = self.until.saturating_sub(self.from) as f64;
        let sooner = life / 30.0 * chance;
        self.from + (life * 2.0 / 3.0 - sooner) as u64
    }
}

/// A moment within a window that the authority suggests, in Unix seconds (RFC 9773 section 4.2).
pub(crate) fn within(start: u64, end: u64, chance: f64) -> u64 {
    start + (end.saturating_sub(start) as f64 * chance) as u64
}

/// The pause before the next attempt after `failures` in a row; `chance` is between 0 and 1 and moves it by a quarter.
pub(crate) fn pause(failures: u32, is_rate_limited: bool, chance: f64) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    let pause = FIRST_PAUSE
        .saturating_mul(1 << doublings)
        .min(LONGEST_PAUSE);
    let pause = if is_rate_limited {
        pause.max(RATE_LIMITED)
    } else {
        pause
    };
    pause.mul_f64(0.75 + chance / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 24 * 60 * 60;

    #[test]
    fn a_certificate_is_renewed_at_two_thirds_of_its_life_or_a_little_sooner() {
        let ninety = Lifetime {
            from: 10 * DAY,
            until: 100 * DAY,
        };
        assert_eq!(ninety.renewal(0.0), 70 * DAY);
        assert_eq!(ninety.renewal(1.0), 67 * DAY);
        let backwards = Lifetime { from: 5, until: 1 };
        assert_eq!(backwards.renewal(1.0), 5);
    }

    #[test]
    fn pauses_double_up_to_a_bound_and_an_authority_that_asks_for_it_gets_an_hour() {
        let minutes = |failures| pause(failures, false, 0.5).as_secs() / 60;
        assert_eq!([1, 2, 3, 4].map(minutes), [1, 2, 4, 8]);
        assert_eq!(minutes(u32::MAX), 6 * 60);
        assert_eq!(pause(1, true, 0.5), RATE_LIMITED);
        assert!(pause(1, false, 0.0) < pause(1, false, 1.0));
    }

    #[test]
    fn a_window_is_met_within_and_an_empty_one_at_its_start() {
        assert_eq!(within(100, 200, 0.5), 150);
        assert_eq!(within(200, 100, 0.5), 200);
    }
}
