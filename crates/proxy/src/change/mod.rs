//! From one configuration to the next, while exchanges go on: read, judge, bind, swap, decide again on tunnels, report.
//!
//! Everything that can fail comes before the swap: a file that does not hold changes nothing.

mod metrics;
mod watch;

use std::sync::Arc;

use hermes_config::model::Document;
use hermes_config::{Problems, read};
use serde::Serialize;

use crate::listeners::table::Changes;
use crate::node::{Changing, Node, check_rest, own_addresses, unbound};
use crate::redecide::Redecided;
use crate::seeing::AccessSink;
use crate::snapshot::Snapshot;
pub(crate) use metrics::Metrics;
pub(crate) use watch::{Watched, follow};

/// What a reload did.
#[derive(Debug, Clone, Serialize)]
pub struct ReloadReport {
    /// Number of the snapshot now in force.
    pub revision: u64,
    /// What happened to the listeners.
    pub listeners: Changes,
    /// Upstreams whose configuration changed, or that are new.
    pub upstreams_changed: Vec<String>,
    /// What became of open tunnels.
    pub tunnels: Redecided,
    /// Routes now in force.
    pub routes: usize,
    /// Keys that changed and are in force only after a restart.
    pub needs_restart: Vec<&'static str>,
}

impl Node {
    pub(crate) fn reload(&self) -> Result<ReloadReport, Problems> {
        let reloaded = self.change();
        self.shared.seeing.reload(if reloaded.is_ok() { "applied" } else { "refused" });
        reloaded
    }

    fn change(&self) -> Result<ReloadReport, Problems> {
        let mut changing = self.changing.lock();
        let loaded = read(&self.file, &|name| std::env::var(name).ok()).map_err(|flawed| flawed.judged(check_rest))?;
        let (places, files) = (loaded.places.clone(), loaded.files.clone());
        let previous = self.shared.snapshot.load_full();
        let snapshot = Snapshot::build(loaded, Some(&previous), &self.shared.seeing);
        let snapshot = snapshot.map_err(|problems| problems.in_order(&files))?;
        let workers = changing.doors.len();
        let prepared = changing.table.prepare(&snapshot.document, workers);
        let prepared = prepared.map_err(|errors| unbound(errors, &places))?;
        let metrics = changing.metrics.prepare(&snapshot.document)?;
        let own = own_addresses(&changing.table, &prepared, changing.metrics.address(&metrics));
        let snapshot = Arc::new(snapshot.own(prepared.doors(), &own));
        // New rules first: a new listener must find them.
        self.shared.snapshot.store(snapshot.clone());
        self.shared.revision.send_replace(snapshot.revision);
        self.upkeep.follow(&snapshot);
        let Changing { table, doors, metrics: served } = &mut *changing;
        let listeners = table.apply(prepared, &snapshot, doors, &self.drain.watch());
        served.apply(metrics);
        let tunnels = self.shared.tunnels.redecide(&snapshot);
        self.shared.seeing.users(snapshot.document.metrics.users);
        self.follow_log(&previous.document, &snapshot.document);
        Ok(ReloadReport {
            revision: snapshot.revision,
            listeners,
            upstreams_changed: upstreams_changed(&previous, &snapshot),
            tunnels,
            routes: snapshot.document.routes.len(),
            needs_restart: needs_restart(&previous.document, &snapshot.document),
        })
    }

    /// Logs as the new document says. What cannot be opened or read leaves the log as it was, and says so there.
    fn follow_log(&self, old: &Document, new: &Document) {
        if old.log.access != new.log.access {
            match AccessSink::open(&new.log.access) {
                Ok(sink) => self.shared.seeing.redirect_access(sink),
                Err(error) => tracing::error!(%error, "access records go on where they went"),
            }
        }
        if let Some(level) = new.log.level.as_deref().filter(|level| old.log.level.as_deref() != Some(level))
            && let Err(error) = (self.set_log)(level)
        {
            tracing::error!(error, "the log level stays as it was");
        }
    }
}

/// Upstreams that are not the same as before.
fn upstreams_changed(previous: &Snapshot, snapshot: &Snapshot) -> Vec<String> {
    let unchanged = |name: &String| {
        let (old, new) = (previous.upstreams.get(name), snapshot.upstreams.get(name));
        old.zip(new).is_some_and(|(old, new)| Arc::ptr_eq(old, new))
    };
    snapshot.upstreams.keys().filter(|name| !unchanged(name)).cloned().collect()
}

/// Keys that a running process cannot follow.
fn needs_restart(old: &Document, new: &Document) -> Vec<&'static str> {
    let changed = [
        ("node", old.node != new.node),
        ("workers", old.workers != new.workers),
        ("admin.socket", old.admin.socket != new.admin.socket),
    ];
    changed.into_iter().filter_map(|(key, changed)| changed.then_some(key)).collect()
}
