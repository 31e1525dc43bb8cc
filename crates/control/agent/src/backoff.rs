//! The pauses of an agent whose controller is away.

use std::time::Duration;

/// The first pause after a connection was lost; each one more doubles it.
const FIRST: Duration = Duration::from_millis(200);

/// The first pause after a controller has said that it lets others in first; each one more doubles it.
const LATER: Duration = Duration::from_secs(1);

/// The longest such pause.
#[doc(alias = "bound")]
const LONGEST_LATER: Duration = Duration::from_secs(6);

/// Pauses between attempts to reach a controller.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
    later: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            next: FIRST,
            later: LATER,
        }
    }
}

impl Backoff {
    /// The controller was there: the next loss begins anew.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }

    /// The pause after a controller has said that it lets others in first. It is there: pauses stay short, and those after a loss as they were.
    pub(crate) fn later(&mut self, chance: f64) -> Duration {
        let pause = self.later;
        self.later = (pause * 2).min(LONGEST_LATER);
        pause / 2 + pause.mul_f64(chance / 2.0)
    }

    /// The next pause, and at most the longest one. Half of it is chance, from 0 to 1, so that nodes do not come back all at once.
    pub(crate) fn pause(&mut self, chance: f64, longest: Duration) -> Duration {
        let pause = self.next.min(longest);
        self.next = (pause * 2).min(longest);
        pause / 2 + pause.mul_f64(chance / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_secs(30);

    /// Attempts in an hour without a controller.
    fn attempts(chance: &mut dyn FnMut() -> f64) -> u32 {
        let mut backoff = Backoff::default();
        let mut time = Duration::ZERO;
        let mut attempts = 0;
        while time < Duration::from_secs(3600) {
            attempts += 1;
            time += backoff.pause(chance(), LONGEST);
        }
        attempts
    }

    #[test]
    fn an_hour_without_a_controller_takes_few_attempts() {
        let most = attempts(&mut || 0.0);
        assert!(most < 250, "{most}");
        let mut rng = fastrand::Rng::with_seed(7);
        let usual = attempts(&mut || rng.f64());
        assert!((120..200).contains(&usual), "{usual}");
    }

    #[test]
    fn a_node_that_is_let_in_later_comes_again_within_seconds_and_not_all_the_time() {
        let mut backoff = Backoff::default();
        let pauses: Duration = (0..10).map(|_| backoff.later(0.0)).sum();
        assert!(pauses >= 20 * LATER, "{pauses:?}");
        assert!(backoff.later(1.0) <= LONGEST_LATER);
        assert_eq!(backoff.pause(1.0, LONGEST), FIRST);
        backoff.reset();
        assert_eq!(backoff.later(1.0), LATER);
    }

    #[test]
    fn a_controller_that_was_there_is_asked_soon_again() {
        let mut backoff = Backoff::default();
        for _ in 0..20 {
            backoff.pause(1.0, LONGEST);
        }
        assert_eq!(backoff.pause(1.0, LONGEST), LONGEST);
        backoff.reset();
        assert_eq!(backoff.pause(1.0, LONGEST), FIRST);
    }
}
