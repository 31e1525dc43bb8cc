//! What goes on beside the exchanges, once for the process: checks of endpoints, and what metrics say of them.

use std::sync::Arc;

use hermes_net::{Resolver, Watch};
use hermes_upstream::{Checks, Client};
use tokio_util::task::TaskTracker;

use crate::snapshot::Snapshot;
use crate::worker::Shared;

/// The upkeep of the upstreams in force.
pub(crate) struct Upkeep {
    shared: Arc<Shared>,
    checks: Checks,
}

impl Upkeep {
    /// Begins; to be called inside the runtime of administration. Ends when `watch` drains.
    pub(crate) fn new(shared: &Arc<Shared>, resolver: Arc<Resolver>, watch: Watch) -> Self {
        let client = Client::new(resolver, TaskTracker::new(), shared.clone());
        let upkeep = Self { shared: shared.clone(), checks: Checks::new(client, watch) };
        upkeep.follow(&shared.snapshot.load());
        upkeep
    }

    /// Goes on with the upstreams of this snapshot; those that did not change are not disturbed.
    pub(crate) fn follow(&self, snapshot: &Snapshot) {
        self.checks.follow(snapshot.upstreams.values());
        self.shared.seeing.watch_upstreams(snapshot.upstreams.values().cloned().collect());
    }
}
