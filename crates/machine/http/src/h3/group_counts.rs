//! Counts of the groups of one session's datagrams.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts that outlive the session's stream.
#[derive(Debug, Clone, Default)]
pub struct GroupCounts(Arc<GroupCounters>);

#[derive(Debug, Default)]
struct GroupCounters {
    begun: AtomicU64,
    given_up: AtomicU64,
    alone: AtomicU64,
    dropped: AtomicU64,
    came: Arc<AtomicU64>,
}

/// The counts at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GroupTally {
    /// Groups that were begun.
    pub groups: u64,
    /// Groups that had not arrived within their time.
    pub given_up: u64,
    /// Datagrams that left as QUIC datagrams, as there was no group for them.
    pub alone: u64,
    /// Datagrams that were dropped, as there was no room for them.
    pub dropped: u64,
    /// Datagrams of the other side that came in groups.
    pub came: u64,
}

impl GroupCounts {
    /// The counts of a session whose received datagrams are counted there.
    pub(super) fn beside(came: Arc<AtomicU64>) -> Self {
        Self(Arc::new(GroupCounters {
            came,
            ..GroupCounters::default()
        }))
    }

    /// How it is now.
    #[must_use]
    pub fn tally(&self) -> GroupTally {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        GroupTally {
            groups: read(&self.0.begun),
            given_up: read(&self.0.given_up),
            alone: read(&self.0.alone),
            dropped: read(&self.0.dropped),
            came: read(&self.0.came),
        }
    }

    pub(super) fn begun(&self) {
        self.0.begun.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn given_up(&self) {
        self.0.given_up.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn alone(&self, datagrams: usize) {
        self.0.alone.fetch_add(datagrams as u64, Ordering::Relaxed);
    }

    pub(super) fn dropped(&self, datagrams: usize) {
        self.0
            .dropped
            .fetch_add(datagrams as u64, Ordering::Relaxed);
    }
}
