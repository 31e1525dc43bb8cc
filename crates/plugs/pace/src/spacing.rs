//! The gap between requests to an origin that refuses and says no more: how far it has to be apart is found by trying.

use std::time::{Duration, Instant};

/// The gap after the first refusal.
const FIRST: Duration = Duration::from_secs(1);
/// The longest gap.
const LONGEST: Duration = Duration::from_secs(60);
/// Below this, an origin is not held to gaps any more.
const SHORTEST: Duration = Duration::from_millis(10);

/// Factors of the gap: after a refusal, after one that follows another, with each answer, and with each after many.
const WIDER: f64 = 1.1;
const TWICE: f64 = 2.0;
const CLOSER: f64 = 0.998;
const MUCH_CLOSER: f64 = 0.95;
/// Answers after which the bound seems to be gone.
const MANY: u32 = 50;

/// Gaps between requests.
#[derive(Debug)]
pub(crate) struct Spacing {
    gap: Duration,
    pub(crate) next: Instant,
    /// When the gap became wider: answers to requests that were sent before say nothing new.
    widened: Instant,
    /// The last answer was a refusal.
    is_refused: bool,
    /// The rate of all that has passed was tried.
    is_guessed: bool,
    answers: u32,
}

impl Spacing {
    /// After a first refusal.
    pub(crate) fn new(now: Instant, chance: f64) -> Self {
        Self {
            gap: FIRST,
            next: now + spread(FIRST, chance),
            widened: now,
            is_refused: true,
            is_guessed: false,
            answers: 0,
        }
    }

    pub(crate) fn send(&mut self, now: Instant) {
        self.next = now + self.gap;
    }

    pub(crate) fn refused(&mut self, sent: Instant, now: Instant, chance: f64) {
        if sent <= self.widened {
            return;
        }
        let factor = if self.is_refused { TWICE } else { WIDER };
        self.gap = self.gap.mul_f64(factor).min(LONGEST);
        self.widened = now;
        self.is_refused = true;
        self.answers = 0;
        self.next = now + spread(self.gap, chance);
    }

    /// A request has passed; all that have passed took `mean` each. Returns whether gaps are needed any more.
    pub(crate) fn passed(&mut self, sent: Instant, mean: Duration) -> bool {
        if sent <= self.widened {
            return true;
        }
        if self.is_refused && !self.is_guessed {
            self.is_guessed = true;
            self.gap = mean.clamp(SHORTEST, LONGEST);
        } else {
            let is_free = self.answers > MANY;
            self.gap = self.gap.mul_f64(if is_free { MUCH_CLOSER } else { CLOSER });
        }
        self.is_refused = false;
        self.answers += 1;
        self.gap >= SHORTEST
    }

    pub(crate) fn gap(&self) -> Duration {
        self.gap
    }
}

/// Not all nodes that share an origin come back at once.
fn spread(gap: Duration, chance: f64) -> Duration {
    gap.mul_f64(0.75 + chance / 2.0)
}
