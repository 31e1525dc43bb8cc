//! How often a peer may send capsules: each replaces the previous state, and costs more than its
//! size.

use std::time::{Duration, Instant};

/// Capsules at once: the start of a peer with many addresses and routes.
#[doc(alias = "bound")]
const CAPSULE_BURST: u32 = 64;

/// Time between capsules, on and on: routes do not change more often for long.
#[doc(alias = "bound")]
const CAPSULE_EVERY: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Until when those that came are accounted for, one after the other.
    until: Option<Instant>,
}

impl Pace {
    pub(super) fn allows(&mut self, now: Instant) -> bool {
        // A token bucket in one instant: how far `until` lies ahead of now is how much of the burst is spent.
        let due = self.until.map_or(now, |until| until.max(now));
        if due > now + CAPSULE_EVERY * (CAPSULE_BURST - 1) {
            return false;
        }

        self.until = Some(due + CAPSULE_EVERY);
        true
    }
}
