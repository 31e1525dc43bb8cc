//! The connections and tasks that one worker's exchanges share.

use std::sync::{Arc, Weak};

use hermes_net::Resolver;
use hermes_net::tls::system_generation;
use parking_lot::Mutex;
use rustls::ClientConfig;
use tokio_util::task::TaskTracker;

use crate::directory::Directory;
use crate::pool::{Dialer, Pool};
use crate::security;

/// One worker's share of a [`Client`](crate::Client).
pub(crate) struct Worker {
    pub(crate) resolver: Arc<Resolver>,
    pub(crate) tasks: TaskTracker,
    /// Carries links inside tunnels of others.
    pub(crate) tunnels: TaskTracker,
    pub(crate) directory: Arc<dyn Directory>,
    pub(crate) pool: Arc<Pool>,
    /// With the number of the system's authorities that it was made with.
    origin_tls: Mutex<Option<(u64, Result<OriginTls, String>)>>,
}

/// TLS towards origins that requests name, by the HTTP versions that it offers.
#[derive(Debug, Clone)]
pub(crate) struct OriginTls {
    pub(crate) any: Arc<ClientConfig>,
    pub(crate) h1: Arc<ClientConfig>,
}

impl Worker {
    /// Without connections yet; its tasks run in `tasks`.
    pub(crate) fn new(
        resolver: Arc<Resolver>,
        tasks: TaskTracker,
        directory: Arc<dyn Directory>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|worker: &Weak<Self>| {
            // Weak: the pool is the worker's own, and must not keep it alive.
            let dialer: Weak<dyn Dialer> = worker.clone();
            let pool = Pool::new(tasks.clone(), dialer);
            Self {
                resolver,
                tasks,
                tunnels: TaskTracker::new(),
                directory,
                pool,
                origin_tls: Mutex::default(),
            }
        })
    }

    /// TLS towards origins that requests name; made at its first use, and anew when the system's authorities have changed.
    pub(crate) fn origin_tls(&self) -> Result<OriginTls, String> {
        let generation = system_generation();
        let mut known = self.origin_tls.lock();
        if let Some((_, tls)) = known.as_ref().filter(|(of, _)| *of == generation) {
            return tls.clone();
        }

        let made = security::for_origins().map(|any| OriginTls {
            h1: security::h1_only(&any),
            any,
        });
        *known = Some((generation, made.clone()));
        made
    }
}
