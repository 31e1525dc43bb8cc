//! A worker: one thread with a runtime of its own, its connections and its listeners' sockets. An exchange lives and dies on
//! one worker.

use std::net::SocketAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use hermes_identity::AuthContext;
use hermes_net::turns::{TurnBounds, Turns};
use hermes_net::{LocalAddresses, LocalEnd, Resolver, Watch};
use hermes_observe::{Exchange, Telemetry};
use hermes_packet::Egress;
use hermes_upstream::{AnswerLimits, Attached, Budget, Client, Directory, Upstream, local_end};
use http::HeaderValue;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use crate::decide::DecisionLogger;
use crate::devices::Devices;
use crate::joins::Joins;
use crate::outliving::Outliving;
use crate::refusals::remembered::LastRefusals;
use crate::shares::sessions::Sessions;
use crate::shares::sources::{Sources, Users};
use crate::snapshot::Snapshot;
use crate::tunnels::Tunnels;

/// What all workers share.
pub struct Shared {
    /// The configuration in force.
    pub snapshot: ArcSwap<Snapshot>,
    /// What the operator sees.
    pub telemetry: Arc<Telemetry>,
    /// What retries towards targets that requests name are paid from.
    pub targets: Budget,
    /// What was refused last.
    pub refusals: LastRefusals,
    /// The open tunnels, which a new configuration decides on again.
    pub tunnels: Tunnels,
    /// What each source has open at each listener.
    pub sources: Sources,
    /// What each user has at each listener.
    pub users: AllOfUsers,
    /// Tunnels that outlive the path to them.
    pub outliving: Outliving,
    /// CONNECT-UDP sessions of each user.
    pub sessions: Sessions,
    /// The nodes that are attached to this one.
    pub attached: Arc<Attached>,
    /// What this node attaches to.
    pub joins: Joins,
    /// The TUN devices where routes end.
    pub devices: Devices,
    /// The number of the snapshot in force, to wait for the next.
    pub revision: watch::Sender<u64>,
    /// Says when the process is to stop.
    pub drain: Watch,
    /// This machine's addresses.
    pub local: LocalAddresses,
}

/// Flows of tunnels that begin at once: each costs a worker some 100 us until it waits for its target.
#[doc(alias = "bound")]
const BEGINNING: usize = 16;

/// Batches of packets of tunnels that end in user space at once, of all workers: half of them of one user.
#[doc(alias = "bound")]
const BATCHES: usize = 8;

/// Tunnels that wait to begin a flow, or for packets to be looked at.
#[doc(alias = "bound")]
const TUNNELS_WAITING: usize = 64 * 1024;

/// What each user has at each listener.
pub struct AllOfUsers {
    /// Connections of those who are known by a password or token.
    pub connections: Users,
    /// Exchanges that are open.
    pub exchanges: Users,
    /// Turns at beginning the flows of tunnels that end here: one user opens flows in many tunnels as fast as it sends packets.
    pub flows: Turns,
    /// Turns at the packets of these tunnels.
    pub packets: Turns,
}

/// Turns of which one user has at most half.
fn turns(at_once: usize) -> Turns {
    Turns::new(TurnBounds {
        at_once,
        of_group: at_once,
        spare: true,
        waiting: TUNNELS_WAITING,
        waiting_of_asker: TUNNELS_WAITING / 4,
    })
}

impl Default for AllOfUsers {
    fn default() -> Self {
        Self {
            connections: Users::default(),
            exchanges: Users::default(),
            flows: turns(BEGINNING),
            packets: turns(BATCHES),
        }
    }
}

impl Directory for Shared {
    fn upstream(&self, name: &str) -> Option<Arc<Upstream>> {
        self.snapshot.load().upstreams.get(name).cloned()
    }

    fn upstreams(&self) -> Vec<Arc<Upstream>> {
        self.snapshot.load().upstreams.values().cloned().collect()
    }

    fn origin_answers(&self) -> AnswerLimits {
        let snapshot = self.snapshot.load();
        let limits = &snapshot.document.defaults.limits;
        AnswerLimits::new(&limits.upstreams)
    }

    fn target_local_end(&self) -> LocalEnd {
        let snapshot = self.snapshot.load();
        let egress = &snapshot.document.egress;
        local_end(&egress.local_address, egress.interface.as_deref())
    }

    fn token(&self, _: &Upstream) -> Option<HeaderValue> {
        self.snapshot.load().own.token.clone()
    }
}

impl Egress for Worker {
    fn may_choose(&self, peer: SocketAddr) -> bool {
        self.snapshot().may_choose(peer).is_ok()
    }
}

/// One worker.
pub struct Worker {
    /// What all workers share.
    pub shared: Arc<Shared>,
    /// Its connections to other proxies and to origins.
    pub client: Client,
}

impl Worker {
    /// A worker without listeners.
    pub fn new(shared: Arc<Shared>, resolver: Arc<Resolver>, tasks: TaskTracker) -> Arc<Self> {
        let client = Client::new(resolver, tasks, shared.clone());
        client.keep_warm();
        Arc::new(Self { shared, client })
    }

    /// Logs the decisions on an exchange.
    pub fn logger<'a>(
        &'a self,
        exchange: &'a Exchange,
        auth: &'a AuthContext,
    ) -> DecisionLogger<'a> {
        DecisionLogger::new(&self.client, &self.shared.telemetry, exchange, auth)
    }

    /// The configuration in force.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.shared.snapshot.load_full()
    }
}
