//! From one configuration to the next, while exchanges go on: read, judge, bind, swap, re-evaluate tunnels, report.
//!
//! Everything that can fail comes before the swap: a file that does not hold changes nothing.

mod compare;
mod confirm;
mod watch;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hermes_admit::decision_log::decisions_file;
use hermes_admit::memory_limits;
use hermes_admit::snapshot::Snapshot;
use hermes_admit::tunnels::Reevaluated;
use hermes_config::model::Document;
use hermes_config::{Loaded, Places, Problem, Problems};
use hermes_listen::changes::ListenerChanges;
use hermes_listen::table::Prepared;
use hermes_observe::AccessSink;
use hermes_rules::needs_restart;
use serde::Serialize;

use crate::answers::Unconfirmed;
use crate::check::{Proposal, log_warnings, unbound, warnings};
use crate::documents::{DocumentSource, Documents, Revision};
use crate::metrics::Endpoint;
use crate::process::{Changing, Node, own_addresses};
pub(crate) use confirm::keep_time;
pub use confirm::{Confirmed, NotReturned, TooLate};
pub(crate) use watch::{Watched, follow};

/// The effects of a reload.
#[derive(Debug, Clone, Serialize)]
pub struct ReloadReport {
    /// Number of the snapshot now in force.
    pub revision: u64,
    /// The changes of listeners.
    pub listeners: ListenerChanges,
    /// Upstreams whose configuration changed, or that are new.
    pub upstreams_changed: Vec<String>,
    /// The outcome for open tunnels.
    pub tunnels: Reevaluated,
    /// Routes now in force.
    pub routes: usize,
    /// Keys that changed and are in force only after a restart.
    pub needs_restart: Vec<String>,
    /// The return from the document if it is not confirmed; `None`: it stays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unconfirmed: Option<Unconfirmed>,
}

/// Who wants a reload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trigger {
    /// The administrator, who may want to confirm it within this time.
    Operator(Option<Duration>),
    /// A signal, or a file that changed: it may mean something else, such as that logs were moved.
    Surroundings,
}

/// Why nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotReloaded {
    /// The configuration is not valid.
    Invalid(Problems),
    /// It is valid, but something that it asks for cannot be bound now.
    Unbound(Problems),
    /// It is still the one that was not confirmed, and no one has asked for it again.
    GivenUp(Problems),
}

impl NotReloaded {
    /// The problems.
    pub fn problems(&self) -> &Problems {
        let (Self::Invalid(problems) | Self::Unbound(problems) | Self::GivenUp(problems)) = self;
        problems
    }

    pub(crate) fn into_problems(self) -> Problems {
        let (Self::Invalid(problems) | Self::Unbound(problems) | Self::GivenUp(problems)) = self;
        problems
    }
}

impl From<Problems> for NotReloaded {
    fn from(problems: Problems) -> Self {
        Self::Invalid(problems)
    }
}

impl fmt::Display for NotReloaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.problems().fmt(f)
    }
}

impl Node {
    pub(crate) fn reload(&self, by: Trigger) -> Result<ReloadReport, NotReloaded> {
        // Moving logs away asks for it, too, whether the file is valid or not.
        self.shared.telemetry.reopen_access();
        self.shared.telemetry.reopen_decisions();
        self.log.reopen();
        self.shared.snapshot.load().reports.connections.reopen();
        self.resolver.forget();
        reread_authorities();
        self.change(by, || self.read_again())
    }

    /// Puts a document in force, wherever it comes from. With `confirm`, it has to be confirmed within that time.
    ///
    /// # Errors
    /// The problems of the document; then nothing has changed.
    pub(crate) fn apply(
        &self,
        mut loaded: Loaded,
        confirm: Option<Duration>,
    ) -> Result<ReloadReport, NotReloaded> {
        if loaded.files.is_empty() {
            // A document without a file is another one of this node, whose name may be that of its file.
            loaded.files.clone_from(&self.shared.snapshot.load().files);
        }
        self.change(Trigger::Operator(confirm), || Ok(loaded.clone()))
    }

    /// The document of the source as it is now.
    fn read_again(&self) -> Result<Loaded, NotReloaded> {
        match &self.source {
            DocumentSource::File(file) => {
                let env = |name: &str| std::env::var(name).ok();
                Ok(self.plugs.form().load(file, &env)?)
            }
            DocumentSource::Caller { .. } => {
                let in_force = self.changing.lock().documents.current.clone();
                Ok(in_force.loaded()?)
            }
        }
    }

    fn change(
        &self,
        by: Trigger,
        next: impl Fn() -> Result<Loaded, NotReloaded>,
    ) -> Result<ReloadReport, NotReloaded> {
        let changed = loop {
            let candidate = match next().and_then(|loaded| self.candidate(loaded)) {
                Ok(candidate) => candidate,
                Err(refused) => break Err(refused),
            };
            let mut changing = self.changing.lock();
            // Another document may have been put in force while this one's files were read: then it is built once more.
            if self.follows(&candidate) {
                break self.enter(&mut changing, candidate, by);
            }
        };
        self.shared.telemetry.reload(if changed.is_ok() {
            "applied"
        } else {
            "refused"
        });

        changed
    }

    /// Builds all that a document says, and reads the files that it names. They may stand still, for ever: so nothing is locked here, and
    /// another document can be put in force, or confirmed, meanwhile.
    fn candidate(&self, loaded: Loaded) -> Result<Candidate, NotReloaded> {
        let previous = self.shared.snapshot.load_full();
        let revision = self.source.revision(&loaded, previous.revision + 1);
        let places = loaded.places.clone();
        let files = loaded.files.clone();
        let warnings = warnings(&loaded);
        let telemetry = &self.shared.telemetry;
        let proposal = Proposal::new(loaded, Some(&previous), telemetry, &self.plugs, false)
            .map_err(|problems| problems.in_order(&files))?;

        Ok(Candidate {
            previous,
            revision,
            places,
            warnings,
            proposal,
        })
    }

    /// Whether a candidate still follows the snapshot in force. To be asked under the lock under which it is put in force.
    fn follows(&self, candidate: &Candidate) -> bool {
        Arc::ptr_eq(&candidate.previous, &self.shared.snapshot.load_full())
    }

    fn enter(
        &self,
        changing: &mut Changing,
        candidate: Candidate,
        by: Trigger,
    ) -> Result<ReloadReport, NotReloaded> {
        let confirm = match by {
            Trigger::Operator(confirm) => confirm,
            Trigger::Surroundings => {
                not_given_up(&changing.documents, &candidate.revision)?;
                None
            }
        };

        let previous = changing.documents.current.clone();
        let report = self.put_in_force(changing, candidate)?;
        let unconfirmed = self.set_condition(&mut changing.documents, &previous, confirm);

        Ok(ReloadReport {
            unconfirmed,
            ..report
        })
    }

    fn put_in_force(
        &self,
        changing: &mut Changing,
        candidate: Candidate,
    ) -> Result<ReloadReport, NotReloaded> {
        let Candidate {
            previous,
            revision: kept,
            places,
            warnings,
            proposal: Proposal { draft, plugs },
        } = candidate;
        log_warnings(&warnings);

        let bound = changing
            .bind(draft.document(), &places)
            .map_err(NotReloaded::Unbound)?;
        let doors = bound.listeners.doors();
        let snapshot = Arc::new(draft.with_sockets(doors, &bound.own, &self.shared.local));

        // Nothing can fail from here on. New rules first: a new listener must find them.
        self.shared.snapshot.store(snapshot.clone());
        self.upkeep.follow(&snapshot);

        let Changing {
            table,
            doors,
            metrics,
            documents,
        } = changing;

        documents.follow(kept);
        let listeners = table.apply(bound.listeners, &snapshot, doors, &self.drain.watch());
        metrics.apply(bound.metrics);

        let tunnels = self.shared.tunnels.reevaluate(&snapshot);
        self.shared.telemetry.users(snapshot.document.metrics.users);
        memory_limits::apply(&snapshot.document.memory);
        self.follow_log(&previous.document, &snapshot.document);
        let mut needs_restart = needs_restart(&previous.document, &snapshot.document);
        needs_restart.extend(plugs.apply());

        Ok(ReloadReport {
            revision: snapshot.revision,
            listeners,
            upstreams_changed: upstreams_changed(&previous, &snapshot),
            tunnels,
            routes: snapshot.document.routes.len(),
            needs_restart,
            unconfirmed: None,
        })
    }

    /// Logs as the new document says. An error leaves the log as it was, and is written there.
    fn follow_log(&self, old: &Document, new: &Document) {
        if old.log.access != new.log.access {
            match AccessSink::open(&new.log.access) {
                Ok(sink) => self.shared.telemetry.redirect_access(sink),
                Err(error) => tracing::error!(%error, "access records go on where they went"),
            }
        }

        let file = decisions_file(new);
        if decisions_file(old) != file
            && let Err(error) = self.shared.telemetry.redirect_decisions(file)
        {
            tracing::error!(%error, "decisions go on where they went");
        }

        if let Some(level) = new
            .log
            .level
            .as_deref()
            .filter(|level| old.log.level.as_deref() != Some(level))
            && let Err(error) = self.log.change(level)
        {
            tracing::error!(error, "the log level stays as it was");
        }
    }
}

/// The system's authorities may be others by now: upstreams that rely on them are built anew.
fn reread_authorities() {
    match hermes_net::tls::reread_system_authorities() {
        Ok(true) => tracing::info!("the system's authorities have changed, and count from now on"),
        Ok(false) => {}
        Err(error) => tracing::warn!(%error, "the system's authorities stay as they were"),
    }
}

/// A document with all that its files say, which could be put in force after `previous`.
struct Candidate {
    previous: Arc<Snapshot>,
    revision: Revision,
    places: Places,
    warnings: Vec<Problem>,
    proposal: Proposal,
}

/// The sockets of a document, bound and not yet served.
struct NewSockets {
    listeners: Prepared,
    metrics: Endpoint,
    /// The addresses of both, which no request may choose.
    own: Vec<SocketAddr>,
}

impl Changing {
    /// Binds the sockets of a document that are not bound yet.
    fn bind(&mut self, document: &Document, places: &Places) -> Result<NewSockets, Problems> {
        let listeners = self
            .table
            .prepare(document, self.doors.len())
            .map_err(|errors| unbound(errors, places))?;
        let metrics = self.metrics.prepare(document, self.table.passed())?;
        let own = own_addresses(&self.table, &listeners, self.metrics.address(&metrics));

        Ok(NewSockets {
            listeners,
            metrics,
            own,
        })
    }
}

/// A file that was given up is not put in force again because someone moved logs.
fn not_given_up(documents: &Documents, asked: &Revision) -> Result<(), NotReloaded> {
    let Some(given_up) = &documents.given_up else {
        return Ok(());
    };
    if asked.text != given_up.text {
        return Ok(());
    }

    let reason = format!(
        "the file still has the configuration that was given up with revision {}",
        given_up.number
    );
    let problem = Problem::new("", reason)
        .remedy("mend it, or put it in force all the same by `hermes reload`");
    Err(NotReloaded::GivenUp(Problems(vec![problem])))
}

/// Upstreams that are not the same as before.
fn upstreams_changed(previous: &Snapshot, snapshot: &Snapshot) -> Vec<String> {
    let unchanged = |name: &String| {
        let old = previous.upstreams.get(name);
        let new = snapshot.upstreams.get(name);
        old.zip(new).is_some_and(|(old, new)| Arc::ptr_eq(old, new))
    };
    snapshot
        .upstreams
        .keys()
        .filter(|name| !unchanged(name))
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests;
