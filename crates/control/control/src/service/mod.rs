//! A running controller: members attend it over mutual TLS, operators change the overlay over a Unix socket.
//!
//! - `accept`, `tls`, `grpc`: connections of agents. `attend`: the stream of one. `fleet`: who attends, and what each should have.
//! - `change`: from one state of the overlay to the next. `published`: a state as nodes get it.
//! - `members`: joins, renewals, revocations. `admin`: the requests of operators.

mod accept;
pub mod admin;
mod attend;
mod change;
mod fleet;
mod grpc;
mod members;
mod published;
mod tls;

use std::sync::Arc;
use std::time::{Duration, Instant};

use hermes_api::{Name, SignedStatement, SigningKey, Statement};
use hermes_net::clock::unix_seconds;
use parking_lot::Mutex;
use rustls::ServerConfig;
use serde::{Deserialize, Serialize};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tonic::Status;

use self::accept::Rooms;
use self::change::InForce;
pub use self::change::{Changed, How, NotChanged, Outcome};
use self::fleet::{Arrival, Fleet, Mark, Session, Target, Word};
use self::published::Published;
use crate::authority::Authority;
use crate::compile::Recipient;
use crate::rollout::Event;
use crate::store::Store;
use crate::store::history::History;

/// How often a change that spreads is looked at.
const TICK: Duration = Duration::from_millis(100);

/// How often authorities, revocations and old states are tended.
const TEND: Duration = Duration::from_secs(600);

/// What a controller is.
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
    about: About,
    history: History,
    authority: Authority,
    key: SigningKey,
    rooms: Rooms,
    tls: Mutex<Arc<ServerConfig>>,
    fleet: Mutex<Fleet>,
    /// The state that the last change leads to; locked while one is made.
    in_force: Mutex<InForce>,
    /// Wakes those who wait for the end of a change.
    steps: watch::Sender<Option<Outcome>>,
    started: Instant,
}

impl Controller {
    /// The controller of the overlay in a store, which is begun if it is empty.
    ///
    /// # Errors
    /// The store cannot be read, or its state cannot be compiled.
    pub fn open(store: Arc<dyn Store>, about: About) -> Result<Arc<Self>, String> {
        let now = unix_seconds();
        let said = |error: &dyn std::fmt::Display| error.to_string();
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
        let tls = tls::server_config(&identity.certificates, &identity.key)?;
        let history = History::new(store);
        let in_force = InForce::read(&history, &authority, &about.trust_domain, now)?;

        Ok(Arc::new(Self {
            about,
            history,
            authority,
            key,
            rooms: Rooms::new(),
            tls: Mutex::new(tls),
            fleet: Mutex::new(Fleet::new(in_force.published.clone())),
            in_force: Mutex::new(in_force),
            steps: watch::Sender::new(None),
            started: Instant::now(),
        }))
    }

    /// Serves agents and operators until the future is dropped. To be called inside a run time.
    pub async fn serve(self: Arc<Self>, agents: TcpListener, operators: UnixListener) {
        let agents = accept::serve(self.clone(), agents);
        let operators = admin::serve(self.clone(), operators);
        tokio::join!(agents, operators, self.clone().tick(), self.tend());
    }

    /// Changes that spread go on with time.
    async fn tick(self: Arc<Self>) {
        let mut tick = tokio::time::interval(TICK);
        loop {
            tick.tick().await;
            let events = self.fleet.lock().tick(self.now());
            self.follow(events);
            if self
                .in_force
                .try_lock()
                .is_some_and(|in_force| in_force.is_overdue())
            {
                let controller = self.clone();
                // One after the other: the next look finds that it has returned.
                let _ =
                    tokio::task::spawn_blocking(move || controller.return_if_unconfirmed()).await;
            }
        }
    }

    /// What comes with the days: another authority, another list of revoked certificates, states that no one goes back to.
    async fn tend(self: Arc<Self>) {
        let mut turn = tokio::time::interval(TEND);
        loop {
            turn.tick().await;
            let controller = self.clone();
            let tended = tokio::task::spawn_blocking(move || controller.tend_once()).await;
            match tended {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::error!("the overlay is not tended: {error}"),
                Err(error) => tracing::error!("the overlay is not tended: {error}"),
            }
        }
    }

    /// Milliseconds since the controller started.
    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn tls(&self) -> Arc<ServerConfig> {
        self.tls.lock().clone()
    }

    /// What it is.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Whether the overlay has no resources yet.
    pub fn is_empty(&self) -> bool {
        self.in_force.lock().published.tree.is_empty()
    }

    // What the stream of a node asks.

    fn came(&self, arrival: Arrival) -> Session {
        self.fleet.lock().came(arrival, unix_seconds())
    }

    fn left(self: &Arc<Self>, node: &Name, session: u64) {
        let events = self.fleet.lock().left(node, session, self.now());
        self.follow(events);
    }

    /// What a node should have now; `None` if this is not its stream any more.
    ///
    /// # Errors
    /// The node is no member any more.
    fn target(&self, node: &Name, session: u64) -> Result<Option<Target>, Status> {
        let fleet = self.fleet.lock();
        if !fleet.nodes().contains_key(node) {
            return Err(Status::permission_denied("the node was revoked"));
        }
        Ok(fleet.is_current(node, session).then(|| fleet.target(node)))
    }

    fn statement(
        &self,
        published: &Published,
        node: &Name,
        recipient: &Recipient,
    ) -> Option<Statement> {
        published.statement(&self.about.overlay, node, recipient)
    }

    fn sign(&self, statement: &Statement) -> SignedStatement {
        statement.sign(&self.key)
    }

    /// A node had already what it should have.
    fn in_step(self: &Arc<Self>, node: &Name, target: &Target) {
        let word = Word {
            revision: target.published.revision,
            progress: hermes_api::Progress::Confirmed,
            mistakes: Vec::new(),
            report: String::new(),
        };
        self.heard(node, target.mark, word);
    }

    fn heard(self: &Arc<Self>, node: &Name, mark: Mark, word: Word) {
        let events = self.fleet.lock().heard(node, mark, word, self.now());
        self.follow(events);
    }

    /// What follows from the steps of a change, beside the nodes that were woken. The store is written elsewhere: it may block.
    fn follow(self: &Arc<Self>, events: Vec<Event>) {
        if events
            .iter()
            .all(|event| matches!(event, Event::Reach { .. }))
        {
            return;
        }
        let controller = self.clone();
        tokio::task::spawn_blocking(move || controller.settle(events));
    }
}
