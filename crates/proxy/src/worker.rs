//! A worker: one thread with a runtime of its own, its connections and its listeners' sockets. An exchange lives and dies on
//! one worker.

use std::sync::Arc;

use arc_swap::ArcSwap;
use hermes_net::{Resolver, Watch};
use hermes_upstream::{Client, Directory, Upstream};
use http::HeaderValue;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::task::TaskTracker;

use crate::listeners::Door;
use crate::seeing::Seeing;
use crate::snapshot::Snapshot;

/// What all workers share.
pub struct Shared {
    /// The configuration in force.
    pub snapshot: ArcSwap<Snapshot>,
    /// What the operator sees.
    pub seeing: Arc<Seeing>,
}

impl Directory for Shared {
    fn upstream(&self, name: &str) -> Option<Arc<Upstream>> {
        self.snapshot.load().upstreams.get(name).cloned()
    }

    fn token(&self, _: &Upstream) -> Option<HeaderValue> {
        self.snapshot.load().token.clone()
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
        Arc::new(Self { shared, client })
    }

    /// The configuration in force.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.shared.snapshot.load_full()
    }

    /// Opens the doors that it is told to, until nobody can tell it any more.
    pub async fn run(self: Arc<Self>, mut doors: UnboundedReceiver<Door>, watch: Watch) {
        let mut draining = false;
        loop {
            tokio::select! {
                door = doors.recv() => match door {
                    Some(door) => door.open(&self),
                    None => return,
                },
                () = watch.graceful(), if !draining => {
                    draining = true;
                    self.client.close();
                }
            }
        }
    }
}
