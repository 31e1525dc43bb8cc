//! The controller: the state of its overlay, and who attends.

use std::sync::Arc;
use std::time::Instant;

use hermes_api::{Health, Name, Progress, SigningKey};
use hermes_net::clock::unix_seconds;
use parking_lot::Mutex;
use rustls::ServerConfig;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tonic::Status;

use super::agreed::Agreed;
use super::binaries;
use super::fleet::{Arrival, Fleet, Mark, Session, Target, Word};
use super::in_force::InForce;
use super::outcome::Outcome;
use super::part::ElectedPart;
use super::peers::Peers;
use super::tls;
use crate::authority::Authority;
use crate::rollout::Event;
use crate::store::history::History;
use crate::store::{Leadership, Store, check_schema};

/// The properties of a controller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// The overlay.
    pub overlay: Name,
    /// The domain of SPIFFE IDs and DNS names.
    pub trust_domain: String,
    /// The node in the controller's process.
    pub node: Option<Name>,
    /// The controller as nodes reach it.
    pub url: String,
}

/// A controller of one overlay.
pub struct Controller {
    pub(super) about: About,
    pub(super) history: History,
    pub(super) authority: Authority,
    pub(super) key: SigningKey,
    pub(super) tls: Mutex<Arc<ServerConfig>>,
    pub(super) fleet: Mutex<Fleet>,
    /// What nodes have agreed on.
    pub(super) agreed: Mutex<Agreed>,
    /// The state that the last change leads to; locked while one is made.
    pub(super) in_force: Mutex<InForce>,
    /// Wakes those who wait for the end of a change.
    pub(super) steps: watch::Sender<Option<Outcome>>,
    pub(super) started: Instant,
    pub(super) election: ElectedPart,
    pub(super) peers: Peers,
}

impl Controller {
    /// The controller of the overlay in a store, which is begun if it is empty.
    ///
    /// # Errors
    /// The store cannot be read, or its state cannot be compiled.
    pub fn open(store: Arc<dyn Store>, about: About) -> Result<Arc<Self>, String> {
        let leadership = Leadership::alone(&about.url);
        Self::open_shared(store, about, leadership)
    }

    /// One of the controllers of the overlay in a store, which is begun if it is empty.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn open_shared(
        store: Arc<dyn Store>,
        about: About,
        leadership: Leadership,
    ) -> Result<Arc<Self>, String> {
        let now = unix_seconds();
        let said = |error: &dyn std::fmt::Display| error.to_string();
        check_schema(&*store).map_err(|error| said(&error))?;
        let authority = Authority::open_or_make(
            store.clone(),
            about.overlay.clone(),
            about.trust_domain.clone(),
            now,
        )
        .map_err(|error| said(&error))?;
        let key = authority.signing_key().map_err(|error| said(&error))?;
        let identity = authority
            .controller_identity(now)
            .map_err(|error| said(&error))?;
        let tls = tls::server_config(&identity.certificates, &identity.key, None)?;
        let to_peers = tls::client_config(&identity.certificates, &identity.key)?;
        let history = History::new(store);
        let in_force = InForce::read(&history, &authority, &about.trust_domain, now, None)?;

        let controller = Arc::new(Self {
            about,
            history,
            authority,
            key,
            tls: Mutex::new(tls),
            fleet: Mutex::new(Fleet::new(in_force.published.clone())),
            agreed: Mutex::default(),
            in_force: Mutex::new(in_force),
            steps: watch::Sender::new(None),
            started: Instant::now(),
            election: ElectedPart::new(leadership),
            peers: Peers::new(to_peers),
        });
        if controller.leads() {
            controller.read_agreed().map_err(|error| said(&error))?;
            controller.resume(&mut controller.in_force.lock());
        }
        Ok(controller)
    }

    /// Milliseconds since the controller started.
    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub(super) fn tls(&self) -> Arc<ServerConfig> {
        self.tls.lock().clone()
    }

    /// Its properties.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Whether the overlay has no resources yet.
    pub fn is_empty(&self) -> bool {
        self.in_force.lock().published.tree.is_empty()
    }

    // What the stream of a node asks.

    pub(super) fn came(&self, arrival: Arrival) -> Session {
        self.fleet.lock().came(arrival, unix_seconds())
    }

    pub(super) fn left(self: &Arc<Self>, node: &Name, session: u64) {
        let events = self.fleet.lock().left(node, session, self.now());
        self.follow(events);
    }

    /// The target of a node; `None` if this is not its stream any more.
    ///
    /// # Errors
    /// The node is no member any more.
    pub(super) fn target(&self, node: &Name, session: u64) -> Result<Option<Target>, Status> {
        let fleet = self.fleet.lock();
        if !self.leads() || fleet.is_dismissed(session) {
            return Err(Status::unavailable(
                "this controller does not lead any more",
            ));
        }
        let Some(record) = fleet.nodes().get(node) else {
            return Err(Status::permission_denied("the node was revoked"));
        };
        // Before anything is offered, and again with each state: the list is part of it.
        binaries::judge(&fleet.published().tree, node, record.binary)
            .map_err(Status::failed_precondition)?;
        Ok(fleet.is_current(node, session).then(|| fleet.target(node)))
    }

    /// Brings a node up to date at once, ahead of its turn in a change, and also with a state that it has refused.
    ///
    /// # Errors
    /// The node does not attend.
    pub fn update(&self, node: &Name) -> Result<(), String> {
        match self.fleet.lock().update(node) {
            true => Ok(()),
            false => Err(format!(
                "{node} does not attend; it gets the state of then when it comes"
            )),
        }
    }

    /// The key of statements.
    pub(super) fn key(&self) -> &SigningKey {
        &self.key
    }

    /// A node had already what it should have.
    pub(super) fn in_step(self: &Arc<Self>, node: &Name, target: &Target) {
        let word = Word {
            revision: target.published.revision,
            progress: Progress::Confirmed,
            mistakes: Vec::new(),
            report: String::new(),
            health: None,
        };
        self.heard(node, target.mark, word);
    }

    pub(super) fn reported(self: &Arc<Self>, node: &Name, mark: Mark, health: &Health) {
        let events = self.fleet.lock().health(node, mark, health, self.now());
        self.follow(events);
    }

    pub(super) fn heard(self: &Arc<Self>, node: &Name, mark: Mark, word: Word) {
        let events = self.fleet.lock().heard(node, mark, word, self.now());
        self.follow(events);
    }

    /// Settles the end of a change; nodes were woken already. The store is written elsewhere: it may block.
    pub(super) fn follow(self: &Arc<Self>, events: Vec<Event>) {
        if events
            .iter()
            .all(|event| matches!(event, Event::Reach { .. } | Event::Look(_)))
        {
            return;
        }
        let controller = self.clone();
        tokio::task::spawn_blocking(move || controller.settle(events));
    }
}
