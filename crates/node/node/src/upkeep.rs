//! Background work of the process, beside the exchanges: health checks, their metrics, and the validity of certificates.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use hermes_acme::{Keeper, Progress};
use hermes_admit::current_snapshot::CurrentSnapshot;
use hermes_admit::snapshot::Snapshot;
use hermes_net::clock::unix_seconds;
use hermes_net::{Resolver, Watch};
use hermes_observe::validity::{self, Held, Validity};
use hermes_observe::{RenewalView, Telemetry};
use hermes_upstream::{Checks, Client};
use tokio_util::task::TaskTracker;

/// The upkeep of the upstreams in force.
pub(crate) struct Upkeep {
    telemetry: Arc<Telemetry>,
    checks: Checks,
    keeper: Keeper,
}

impl Upkeep {
    /// Begins; to be called inside the runtime of administration. Ends when `watch` drains.
    pub(crate) fn new(
        telemetry: Arc<Telemetry>,
        current: &Arc<CurrentSnapshot>,
        resolver: Arc<Resolver>,
        watch: Watch,
    ) -> Self {
        watch.spawn(remind(telemetry.clone(), watch.clone()));
        let client = Client::new(resolver.clone(), TaskTracker::new(), current.clone());
        let renewed = {
            let telemetry = telemetry.clone();
            let current = current.clone();
            move || look_at_certificates(&telemetry, &current.load())
        };
        // Held weakly: the telemetry must not keep a snapshot alive.
        let looked_at = Arc::downgrade(current);
        telemetry.watch_renewals(move || {
            looked_at
                .upgrade()
                .map_or_else(Vec::new, |current| renewals(&current.load()))
        });
        let keeper = Keeper::new(resolver, watch.clone(), Arc::new(renewed));
        let upkeep = Self {
            telemetry,
            checks: Checks::new(client, watch),
            keeper,
        };

        upkeep.follow(&current.load());
        upkeep
    }

    /// Goes on with the upstreams of this snapshot; those that did not change are not disturbed.
    pub(crate) fn follow(&self, snapshot: &Snapshot) {
        self.checks.follow(snapshot.upstreams.values());
        self.telemetry
            .watch_upstreams(snapshot.upstreams.values().cloned().collect());
        look_at_certificates(&self.telemetry, snapshot);
        self.keeper.follow(&snapshot.node.credentials.certificates);
    }
}

/// Reads how long the certificates of a snapshot are valid, and warns of those that end.
fn look_at_certificates(telemetry: &Telemetry, snapshot: &Snapshot) {
    let held = validity::all(&snapshot.document);
    telemetry.watch_certificates(held.clone());
    for held in validity::once(held) {
        warn(&held, unix_seconds());
    }
}

/// The orders of certificates and their outcomes.
fn renewals(snapshot: &Snapshot) -> Vec<RenewalView> {
    let progress = snapshot.node.credentials.certificates.progress();
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
async fn remind(telemetry: Arc<Telemetry>, watch: Watch) {
    let mut told: HashMap<String, Validity> = HashMap::new();
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = watch.graceful() => return,
        }

        let now = unix_seconds();
        let held = validity::once(telemetry.certificates());
        // A certificate that a reload removed and another one brings back is warned of again.
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
