//! What goes on beside the exchanges, once for the process: checks of endpoints, and what metrics say of them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use hermes_acme::{Keeper, Progress};
use hermes_admit::snapshot::Snapshot;
use hermes_admit::worker::Shared;
use hermes_net::clock::unix_seconds;
use hermes_net::{Resolver, Watch};
use hermes_observe::RenewalView;
use hermes_observe::validity::{self, Held, Validity};
use hermes_upstream::{Checks, Client};
use tokio_util::task::TaskTracker;

/// The upkeep of the upstreams in force.
pub(crate) struct Upkeep {
    shared: Arc<Shared>,
    checks: Checks,
    keeper: Keeper,
}

impl Upkeep {
    /// Begins; to be called inside the runtime of administration. Ends when `watch` drains.
    pub(crate) fn new(shared: &Arc<Shared>, resolver: Arc<Resolver>, watch: Watch) -> Self {
        watch.spawn(remind(shared.clone(), watch.clone()));
        let client = Client::new(resolver.clone(), TaskTracker::new(), shared.clone());
        let of_renewals = shared.clone();
        let renewed = move || look_at_certificates(&of_renewals, &of_renewals.snapshot.load());
        let looked_at = Arc::downgrade(shared);
        shared.telemetry.watch_renewals(move || {
            looked_at
                .upgrade()
                .map_or_else(Vec::new, |shared| renewals(&shared))
        });
        let keeper = Keeper::new(resolver, watch.clone(), Arc::new(renewed));
        let upkeep = Self {
            shared: shared.clone(),
            checks: Checks::new(client, watch),
            keeper,
        };

        upkeep.follow(&shared.snapshot.load());
        upkeep
    }

    /// Goes on with the upstreams of this snapshot; those that did not change are not disturbed.
    pub(crate) fn follow(&self, snapshot: &Snapshot) {
        self.checks.follow(snapshot.upstreams.values());
        self.shared
            .telemetry
            .watch_upstreams(snapshot.upstreams.values().cloned().collect());
        look_at_certificates(&self.shared, snapshot);
        self.keeper.follow(&snapshot.own.certificates);
    }
}

/// Reads how long the certificates of a snapshot are valid, and warns of those that end.
fn look_at_certificates(shared: &Shared, snapshot: &Snapshot) {
    let held = validity::all(&snapshot.document);
    shared.telemetry.watch_certificates(held.clone());
    for held in validity::once(held) {
        warn(&held, unix_seconds());
    }
}

/// What became of the orders of certificates.
fn renewals(shared: &Shared) -> Vec<RenewalView> {
    let progress = shared.snapshot.load().own.certificates.progress();
    let view = |progress: Progress| RenewalView {
        is_failing: progress.reason.is_some(),
        domains: progress.domains,
        obtained: progress.obtained,
        failed: progress.failed,
    };
    progress.into_iter().map(view).collect()
}

/// How often certificates are looked at.
const LOOK: Duration = Duration::from_secs(3600);

/// Warns of certificates that end soon, each once a day, and of those that have ended, once.
async fn remind(shared: Arc<Shared>, watch: Watch) {
    let mut told: HashMap<String, Validity> = HashMap::new();
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = watch.graceful() => return,
        }

        let now = unix_seconds();
        let held = validity::once(shared.telemetry.certificates());
        told.retain(|path, _| held.iter().any(|held| held.path == *path));

        for held in held {
            let state = held.state(now);
            if told.insert(held.path.clone(), state) != Some(state) {
                warn(&held, now);
            }
        }
    }
}

fn warn(held: &Held, now: u64) {
    if let Some((reason, remedy)) = held.warning(now) {
        tracing::warn!(key = held.path, file = %held.source, "{reason}; {remedy}");
    }
}
