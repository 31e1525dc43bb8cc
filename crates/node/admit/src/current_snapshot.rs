//! The configuration in force.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use hermes_net::LocalEnd;
use hermes_upstream::{AnswerLimits, Directory, Upstream, local_end};
use http::HeaderValue;
use tokio::sync::watch;

use crate::snapshot::Snapshot;

/// The snapshot in force, which changes replace as a whole.
pub struct CurrentSnapshot {
    snapshot: ArcSwap<Snapshot>,
    /// Its number, to wait for the next.
    revision: watch::Sender<u64>,
}

impl CurrentSnapshot {
    /// Begins with the first snapshot of a process.
    pub fn new(snapshot: Arc<Snapshot>) -> Self {
        Self {
            revision: watch::Sender::new(snapshot.revision),
            snapshot: ArcSwap::new(snapshot),
        }
    }

    /// The snapshot, for a moment: a guard that is kept for longer makes later loads slower.
    #[inline]
    pub fn load(&self) -> Guard<Arc<Snapshot>> {
        self.snapshot.load()
    }

    /// The snapshot, to keep.
    #[inline]
    pub fn load_full(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// Puts a snapshot in force.
    pub fn store(&self, snapshot: Arc<Snapshot>) {
        let revision = snapshot.revision;
        self.snapshot.store(snapshot);
        // Last: a waiter that hears of the revision loads the snapshot.
        self.revision.send_replace(revision);
    }

    /// Waits for later revisions.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }
}

/// Upstreams are looked up anew at each use: a link outlives the snapshot under which it was opened.
impl Directory for CurrentSnapshot {
    fn upstream(&self, name: &str) -> Option<Arc<Upstream>> {
        self.load().upstreams.get(name).cloned()
    }

    fn upstreams(&self) -> Vec<Arc<Upstream>> {
        self.load().upstreams.values().cloned().collect()
    }

    fn origin_answers(&self) -> AnswerLimits {
        let snapshot = self.load();
        let limits = &snapshot.document.defaults.limits;
        AnswerLimits::new(&limits.upstreams)
    }

    fn target_local_end(&self) -> LocalEnd {
        let snapshot = self.load();
        let egress = &snapshot.document.egress;
        local_end(&egress.local_address, egress.interface.as_deref())
            .keeping_clients(egress.keep_source)
            .over_multipath(egress.multipath)
    }

    fn token(&self, _: &Upstream) -> Option<HeaderValue> {
        self.load().node.credentials.token.clone()
    }
}
