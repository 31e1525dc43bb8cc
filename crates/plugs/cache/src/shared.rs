//! The state of the caches of a node: stored responses, requests on their way, and counts.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::sync::Semaphore;

use crate::choice::Choice;
use crate::disk::{Disk, LoadedFiles};
use crate::flights::Flights;
use crate::name::ResourceName;
use crate::parts::Parts;
use crate::promotion::AT_ONCE;
use crate::restore::restore;
use crate::storage::Storage;
use crate::stored::Stored;

/// The state that all caches of a node share.
pub(crate) struct Shared {
    pub(crate) storage: Arc<Storage>,
    pub(crate) flights: Arc<Flights>,
    pub(crate) parts: Parts,
    pub(crate) counts: Counts,
    /// Turns of contents that come back into memory.
    pub(crate) promotions: Arc<Semaphore>,
    disk: OnceLock<Arc<Disk>>,
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            storage: Arc::default(),
            flights: Arc::default(),
            parts: Parts::default(),
            counts: Counts::default(),
            promotions: Arc::new(Semaphore::new(AT_ONCE)),
            disk: OnceLock::new(),
        }
    }
}

impl Shared {
    /// Forgets a resource, and what is on its way from it; whether files of it may be on disk.
    pub(crate) fn invalidate(&self, name: &ResourceName) -> bool {
        self.flights.invalidate(name);
        self.parts.invalidate(name);
        self.storage.invalidate(name) > 0 && self.disk.get().is_some()
    }

    /// Where responses are kept on disk, too.
    pub(crate) fn disk(&self) -> Option<&Arc<Disk>> {
        self.disk.get()
    }

    /// Begins to keep responses in this folder, once; whether they are kept there.
    pub(crate) fn keep_in(&self, folder: &Path) -> bool {
        if let Some(disk) = self.disk.get() {
            return disk.path() == folder;
        }
        let storage = Arc::downgrade(&self.storage);
        let asked = self.storage.epoch();
        let load = move |files: &LoadedFiles<'_>| restore(&storage, files, asked);
        match Disk::start(folder, Box::new(load)) {
            Ok(disk) => {
                let disk = Arc::new(disk);
                if self.disk.set(disk.clone()).is_ok() {
                    self.storage.set_disk(disk);
                }
                true
            }
            Err(error) => {
                tracing::error!(folder = %folder.display(), %error, "the cache keeps responses in memory alone: no thread for its folder");
                false
            }
        }
    }

    /// Keeps a whole response that is stored on disk, too.
    pub(crate) fn keep(&self, stored: &Arc<Stored>) {
        if self.disk.get().is_some() {
            self.storage.keep(stored);
        }
    }

    /// Removes the responses of a choice; how many.
    pub(crate) fn purge(&self, choice: &Choice) -> usize {
        self.parts.clear();
        let purged = self.storage.purge(choice);
        self.counts
            .purged
            .fetch_add(purged as u64, Ordering::Relaxed);
        purged
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
    /// Responses that an operator removed.
    purged: AtomicU64,
    /// Contents that came back from disk into memory.
    promoted: AtomicU64,
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

    /// A content is in memory again.
    pub(crate) fn promoted(&self) {
        self.promoted.fetch_add(1, Ordering::Relaxed);
    }

    /// Contents that came back from disk into memory.
    pub(crate) fn promotions(&self) -> u64 {
        self.promoted.load(Ordering::Relaxed)
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

    /// Responses that an operator removed.
    pub(crate) fn purged(&self) -> u64 {
        self.purged.load(Ordering::Relaxed)
    }

    /// How many of a thousand requests that a cache may answer were answered by stored content.
    pub(crate) fn hit_permille(&self) -> usize {
        let [hit, stale, validated, miss, _] = self.named().map(|(_, count)| count);
        let stored = hit + stale + validated;
        let all = (stored + miss).max(1);
        usize::try_from(stored.saturating_mul(1000) / all).unwrap_or(1000)
    }
}
