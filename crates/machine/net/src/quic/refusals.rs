//! ICMP errors of the peer's machine: its port is closed.
//!
//! Such an error is a hint only: anyone who guesses our port can forge it (RFC 9000, section 14.2.1
//! of MTU messages). So it does not end a connection; it makes the liveness monitor look at once.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// Counts "port unreachable" messages of ICMP about packets of one socket.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    count: AtomicU64,
    changed: Notify,
}

impl Refusals {
    /// Counts a refusal.
    pub(super) fn note(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.changed.notify_waiters();
    }

    /// How many have come.
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Resolves when more than this many have come. Dropping the future loses nothing.
    pub(super) async fn more_than(&self, count: u64) {
        loop {
            let changed = self.changed.notified();
            if self.count() > count {
                return;
            }
            changed.await;
        }
    }
}
