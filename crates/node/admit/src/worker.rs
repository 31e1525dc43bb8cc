//! A worker: one thread with a runtime of its own, its connections and its listeners' sockets. An exchange lives and dies on
//! one worker.

use std::net::SocketAddr;
use std::sync::Arc;

use hermes_identity::AuthContext;
use hermes_net::{LocalAddresses, Resolver, Watch};
use hermes_observe::{Exchange, Telemetry};
use hermes_packet::Egress;
use hermes_upstream::{Budget, Client};
use tokio_util::task::TaskTracker;

use crate::current_snapshot::CurrentSnapshot;
use crate::decide::DecisionLogger;
use crate::devices::Devices;
use crate::joins::Attachments;
use crate::outliving::Outliving;
use crate::refusals::remembered::LastRefusals;
use crate::shares::Shares;
use crate::snapshot::Snapshot;
use crate::tunnels::Tunnels;

/// The state that all workers share. Parts of the node that need one or two of these get those.
pub struct Shared {
    /// The configuration in force.
    pub snapshot: Arc<CurrentSnapshot>,
    /// Records, metrics and live exchanges.
    pub telemetry: Arc<Telemetry>,
    /// The retry budget of targets that requests name.
    pub targets: Budget,
    /// The last refusals.
    pub refusals: LastRefusals,
    /// The open tunnels, which a new configuration decides on again.
    pub tunnels: Tunnels,
    /// The shares of sources and users.
    pub shares: Shares,
    /// Tunnels that outlive the path to them.
    pub outliving: Outliving,
    /// Attachments in both directions.
    pub attachments: Attachments,
    /// The TUN devices where routes end.
    pub devices: Arc<Devices>,
    /// Says when the process is to stop.
    pub drain: Watch,
    /// This machine's addresses.
    pub local: LocalAddresses,
}

impl Egress for Worker {
    fn may_choose(&self, peer: SocketAddr) -> bool {
        self.snapshot().may_choose(peer).is_ok()
    }
}

/// One worker.
pub struct Worker {
    /// The state that all workers share.
    pub shared: Arc<Shared>,
    /// Its connections to other proxies and to origins.
    pub client: Client,
}

impl Worker {
    /// A worker without listeners.
    pub fn new(shared: Arc<Shared>, resolver: Arc<Resolver>, tasks: TaskTracker) -> Arc<Self> {
        let client = Client::new(resolver, tasks, shared.snapshot.clone());
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
