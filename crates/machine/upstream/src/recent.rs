//! How the last attempts at an endpoint went: a part of its health.

use std::sync::atomic::{AtomicU64, Ordering};

/// Attempts that are remembered: enough to tell a bad day from a bad moment.
#[doc(alias = "bound")]
const WINDOW: u32 = 32;

/// The newest attempts that decide alone when all failed, so that an endpoint that was well for
/// long is not called so when it dies.
#[doc(alias = "bound")]
const LATEST: u32 = 3;

/// A window full of successes: the state in which an endpoint that works spends its life, and which a success need not write.
const WELL: u64 = (WINDOW as u64) << WINDOW;

/// The outcomes of the last attempts: a bit for each in the lower half, the newest lowest and set where it failed; their number in
/// the upper half.
#[derive(Debug, Default)]
pub(crate) struct Recent(AtomicU64);

/// The content of [`Recent`] at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outcomes {
    /// Attempts that failed.
    pub(crate) failed: u32,
    /// Attempts that are known.
    pub(crate) of: u32,
    /// Whether each of the newest failed.
    latest: bool,
}

impl Recent {
    /// An attempt succeeded.
    pub(crate) fn succeeded(&self) {
        if self.0.load(Ordering::Relaxed) != WELL {
            self.note(false);
        }
    }

    /// An attempt failed.
    pub(crate) fn failed(&self) {
        self.note(true);
    }

    fn note(&self, failed: bool) {
        self.0
            .update(Ordering::Relaxed, Ordering::Relaxed, |state| {
                let known = ((state >> WINDOW) + 1).min(u64::from(WINDOW));
                let outcomes = u64::from((state as u32) << 1 | u32::from(failed));
                known << WINDOW | outcomes
            });
    }

    /// The recent outcomes.
    pub(crate) fn outcomes(&self) -> Outcomes {
        let state = self.0.load(Ordering::Relaxed);
        let of = (state >> WINDOW) as u32;
        let bits = state as u32;
        let newest = (1 << LATEST) - 1;

        Outcomes {
            failed: bits.count_ones(),
            of,
            latest: bits & newest == newest,
        }
    }
}

impl Outcomes {
    /// Whether the endpoint fails: half of all attempts, or all recent ones.
    pub(crate) fn is_failing(self) -> bool {
        self.failed > 0 && (self.failed * 2 >= self.of || self.latest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(outcomes: &str) -> Outcomes {
        let recent = Recent::default();
        for outcome in outcomes.chars() {
            if outcome == 'x' {
                recent.failed()
            } else {
                recent.succeeded()
            }
        }
        recent.outcomes()
    }

    #[test]
    fn counts_what_failed_of_what_is_known() {
        assert_eq!(
            after(""),
            Outcomes {
                failed: 0,
                of: 0,
                latest: false
            }
        );
        assert_eq!(
            after("xx.x"),
            Outcomes {
                failed: 3,
                of: 4,
                latest: false
            }
        );
        let long = "x".repeat(1058) + &".".repeat(30);
        assert_eq!(
            after(&long),
            Outcomes {
                failed: 2,
                of: WINDOW,
                latest: false
            }
        );
    }

    #[test]
    fn fails_by_half_or_by_the_latest() {
        for well in ["", ".", &".".repeat(100), "x..", &(".".repeat(100) + "xx")] {
            assert!(!after(well).is_failing(), "{well}");
        }
        for failing in [
            "x",
            "x.",
            "x.x",
            &(".".repeat(100) + "xxx"),
            &("x".repeat(1058)),
        ] {
            assert!(after(failing).is_failing(), "{failing}");
        }
        assert!(
            !after(&("x".repeat(1058) + &".".repeat(17))).is_failing(),
            "it came back"
        );
    }

    #[test]
    fn a_success_of_an_endpoint_that_works_writes_nothing() {
        let recent = Recent::default();
        (0..WINDOW).for_each(|_| recent.succeeded());
        assert_eq!(recent.0.load(Ordering::Relaxed), WELL);
        recent.succeeded();
        assert_eq!(
            recent.outcomes(),
            Outcomes {
                failed: 0,
                of: WINDOW,
                latest: false
            }
        );
        recent.failed();
        assert_eq!(
            recent.outcomes(),
            Outcomes {
                failed: 1,
                of: WINDOW,
                latest: false
            }
        );
    }
}
