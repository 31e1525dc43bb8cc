//! The state of the caches of a node: stored responses, requests on their way, and counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::flights::Flights;
use crate::name::ResourceName;
use crate::storage::Storage;

/// The state that all caches of a node share.
#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) storage: Storage,
    pub(crate) flights: Arc<Flights>,
    pub(crate) counts: Counts,
}

impl Shared {
    /// Forgets a resource, and what is on its way from it.
    pub(crate) fn invalidate(&self, name: &ResourceName) {
        self.flights.invalidate(name);
        self.storage.invalidate(name);
    }
}

/// Requests by their end.
#[derive(Default)]
pub(crate) struct Counts {
    hits: AtomicU64,
    stale: AtomicU64,
    validated: AtomicU64,
    missed: AtomicU64,
    bypassed: AtomicU64,
}

impl Counts {
    /// A stored response was given.
    pub(crate) fn hit(&self) {
        self.hits.fetch_add(1, Ordering::Relaxed);
    }

    /// A stale response was given because the next hop failed.
    pub(crate) fn stale(&self) {
        self.stale.fetch_add(1, Ordering::Relaxed);
    }

    /// A stored response was given once the next hop had confirmed it.
    pub(crate) fn validated(&self) {
        self.validated.fetch_add(1, Ordering::Relaxed);
    }

    /// The next hop answered.
    pub(crate) fn missed(&self) {
        self.missed.fetch_add(1, Ordering::Relaxed);
    }

    /// The request was none for a cache.
    pub(crate) fn bypassed(&self) {
        self.bypassed.fetch_add(1, Ordering::Relaxed);
    }

    /// All of them, with their names in status and metrics.
    pub(crate) fn named(&self) -> [(&'static str, u64); 5] {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        [
            ("hit", read(&self.hits)),
            ("stale", read(&self.stale)),
            ("validated", read(&self.validated)),
            ("miss", read(&self.missed)),
            ("bypass", read(&self.bypassed)),
        ]
    }
}
