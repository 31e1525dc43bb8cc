//! One worker's way out: connections are kept here and shared by its exchanges.

use std::sync::Arc;
use std::time::Duration;

use hermes_net::Resolver;
use hermes_net::clock;
use tokio_util::task::TaskTracker;

use crate::checkout::Checkout;
use crate::directory::Directory;
use crate::endpoint_attempts::EndpointAttempts;
use crate::failure::ConnectFailure;
use crate::pinned::Own;
use crate::reached::Bounds;
use crate::ring::Affinity;
use crate::worker::Worker;
use crate::{Timeouts, Upstream};

/// How long the end of a worker waits for those of its links.
#[doc(alias = "bound")]
const FAREWELL: Duration = Duration::from_millis(500);

/// The same for links inside tunnels of other links, which end one after the other, the innermost first: two round trips of 125 ms
/// for each of four.
#[doc(alias = "bound")]
const NESTED_FAREWELL: Duration = Duration::from_secs(2);

/// The way to upstreams and targets, with the connections that one worker keeps. Clones share them.
#[derive(Clone)]
pub struct Client {
    pub(crate) worker: Arc<Worker>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

impl Client {
    /// A client without connections. Its tasks run in `tasks` on the current runtime;
    /// [`Self::close`] ends it.
    pub fn new(resolver: Arc<Resolver>, tasks: TaskTracker, directory: Arc<dyn Directory>) -> Self {
        let worker = Worker::new(resolver, tasks, directory);
        Self { worker }
    }

    /// Lets each link serve this many exchanges before another follows, in place of the usual million. No key of the configuration
    /// does: it lets a test see links follow each other.
    pub fn rotate_links_after(&self, exchanges: u64) {
        self.worker.pool.serve(exchanges);
    }

    /// Runs a task on this worker, which waits for it when it ends.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.worker.tasks.spawn(task);
    }

    /// Drops all kept connections and keeps none from now on; open exchanges go on. To be called
    /// when the worker begins to drain, because kept connections count among its tasks.
    pub fn close(&self) {
        self.worker.pool.close();
    }

    /// Waits, after [`Self::close`] and no longer than half a second, until the peers of links know that they end. TCP's would learn
    /// it from the kernel, QUIC's by nothing but silence. Where links are inside of others, the outer ones have half a second once
    /// the inner ones have ended, or after two seconds.
    pub async fn farewell(&self) {
        self.worker.tunnels.close();
        let _ = tokio::time::timeout(NESTED_FAREWELL, self.worker.tunnels.wait()).await;

        self.worker.tasks.close();
        let _ = tokio::time::timeout(FAREWELL, self.worker.tasks.wait()).await;
    }

    /// A connection for one exchange with an endpoint of `upstream`.
    ///
    /// Up to three endpoints are tried within `timeouts.connect`; those that failed a moment ago come last.
    ///
    /// # Errors
    /// The failure of the endpoint that was tried last.
    pub async fn checkout(
        &self,
        upstream: &Arc<Upstream>,
        timeouts: &Timeouts,
    ) -> Result<Checkout, ConnectFailure> {
        self.checkout_avoiding(upstream, timeouts, &[]).await
    }

    /// As [`Self::checkout`], with other endpoints preferred to those in `avoid`, which are named as in [`Checkout`].
    ///
    /// # Errors
    /// As for [`Self::checkout`].
    pub async fn checkout_avoiding(
        &self,
        upstream: &Arc<Upstream>,
        timeouts: &Timeouts,
        avoid: &[Arc<str>],
    ) -> Result<Checkout, ConnectFailure> {
        self.checkout_for(upstream, timeouts, None, avoid).await
    }

    /// As [`Self::checkout_avoiding`], for an exchange that belongs to others: under `balance: ring_hash` they go to one
    /// endpoint.
    ///
    /// # Errors
    /// As for [`Self::checkout`].
    pub async fn checkout_for(
        &self,
        upstream: &Arc<Upstream>,
        timeouts: &Timeouts,
        affinity: Option<Affinity>,
        avoid: &[Arc<str>],
    ) -> Result<Checkout, ConnectFailure> {
        let bounds = Bounds {
            until: clock::now() + timeouts.connect,
            depth: 0,
        };

        let attempts = EndpointAttempts::begin(upstream, affinity, bounds.until).await?;
        self.worker
            .take(upstream, bounds, attempts.avoiding(avoid), None)
            .await
    }

    /// As [`Self::checkout_for`], of a connection for exchanges of `own` alone. It speaks HTTP/1.1
    /// if the upstream does: authentication of connections works nowhere else. An endpoint that was
    /// used before is preferred.
    ///
    /// # Errors
    /// As for [`Self::checkout`].
    pub async fn checkout_own(
        &self,
        upstream: &Arc<Upstream>,
        timeouts: &Timeouts,
        affinity: Option<Affinity>,
        own: Own<'_>,
        avoid: &[Arc<str>],
    ) -> Result<Checkout, ConnectFailure> {
        let bounds = Bounds {
            until: clock::now() + timeouts.connect,
            depth: 0,
        };

        let attempts = EndpointAttempts::begin(upstream, affinity, bounds.until).await?;
        self.worker
            .take(upstream, bounds, attempts.avoiding(avoid), Some(own))
            .await
    }
}
