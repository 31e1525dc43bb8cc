//! One worker's way out: connections are kept here and shared by its exchanges.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use hermes_net::clock;
use hermes_net::tls::system_generation;
use hermes_net::{LocalEnd, Resolver, within};
use http::HeaderValue;
use parking_lot::Mutex;
use rustls::ClientConfig;
use tokio_util::task::TaskTracker;

use crate::answers::AnswerLimits;
use crate::checkout::{self, Checkout};
use crate::endpoint_attempts::EndpointAttempts;
use crate::failure::ConnectFailure;
use crate::pinned::Own;
use crate::pool::{Dialer, Pool};
use crate::reached::Bounds;
use crate::ring::Affinity;
use crate::{Timeouts, Upstream, security};

/// A client's questions about the current configuration.
pub trait Directory: Send + Sync {
    /// The upstream of this name, for endpoints that are reached `via` it.
    fn upstream(&self, name: &str) -> Option<Arc<Upstream>>;

    /// All upstreams, for connections that are kept open before an exchange needs one. Default:
    /// none.
    fn upstreams(&self) -> Vec<Arc<Upstream>> {
        Vec::new()
    }

    /// Bounds of the answers of origins that requests choose. Default: those of an upstream.
    fn origin_answers(&self) -> AnswerLimits {
        AnswerLimits::default()
    }

    /// The local end of connections and datagrams to targets that requests choose. Default: chosen
    /// by the machine's routes.
    fn target_local_end(&self) -> LocalEnd {
        LocalEnd::ANY
    }

    /// The value of `Proxy-Authorization` for an upstream that tunnels for us; asked only where
    /// [`Upstream::sends_token`] allows it. Default: none.
    fn token(&self, upstream: &Upstream) -> Option<HeaderValue> {
        let _ = upstream;
        None
    }
}

impl Directory for ArcSwap<HashMap<String, Arc<Upstream>>> {
    fn upstream(&self, name: &str) -> Option<Arc<Upstream>> {
        self.load().get(name).cloned()
    }

    fn upstreams(&self) -> Vec<Arc<Upstream>> {
        self.load().values().cloned().collect()
    }
}

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
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
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

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

impl Client {
    /// A client without connections. Its tasks run in `tasks` on the current runtime;
    /// [`Self::close`] ends it.
    pub fn new(resolver: Arc<Resolver>, tasks: TaskTracker, directory: Arc<dyn Directory>) -> Self {
        let inner = Arc::new_cyclic(|inner: &Weak<Inner>| {
            let dialer: Weak<dyn Dialer> = inner.clone();
            let pool = Pool::new(tasks.clone(), dialer);
            Inner {
                resolver,
                tasks,
                tunnels: TaskTracker::new(),
                directory,
                pool,
                origin_tls: Mutex::default(),
            }
        });
        Self { inner }
    }

    /// Lets each link serve this many exchanges before another follows, in place of the usual million. No key of the configuration
    /// does: it lets a test see links follow each other.
    pub fn rotate_links_after(&self, exchanges: u64) {
        self.inner.pool.serve(exchanges);
    }

    /// Runs a task on this worker, which waits for it when it ends.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.inner.tasks.spawn(task);
    }

    /// Drops all kept connections and keeps none from now on; open exchanges go on. To be called
    /// when the worker begins to drain, because kept connections count among its tasks.
    pub fn close(&self) {
        self.inner.pool.close();
    }

    /// Waits, after [`Self::close`] and no longer than half a second, until the peers of links know that they end. TCP's would learn
    /// it from the kernel, QUIC's by nothing but silence. Where links are inside of others, the outer ones have half a second once
    /// the inner ones have ended, or after two seconds.
    pub async fn farewell(&self) {
        self.inner.tunnels.close();
        let _ = tokio::time::timeout(NESTED_FAREWELL, self.inner.tunnels.wait()).await;

        self.inner.tasks.close();
        let _ = tokio::time::timeout(FAREWELL, self.inner.tasks.wait()).await;
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
        self.inner
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
        (affinity, own): (Option<Affinity>, Own<'_>),
        avoid: &[Arc<str>],
    ) -> Result<Checkout, ConnectFailure> {
        let bounds = Bounds {
            until: clock::now() + timeouts.connect,
            depth: 0,
        };

        let attempts = EndpointAttempts::begin(upstream, affinity, bounds.until).await?;
        self.inner
            .take(upstream, bounds, attempts.avoiding(avoid), Some(own))
            .await
    }
}

impl Inner {
    pub(crate) async fn checkout(
        &self,
        upstream: &Arc<Upstream>,
        bounds: Bounds,
    ) -> Result<Checkout, ConnectFailure> {
        self.take(
            upstream,
            bounds,
            EndpointAttempts::begin(upstream, None, bounds.until).await?,
            None,
        )
        .await
    }

    async fn take(
        &self,
        upstream: &Arc<Upstream>,
        bounds: Bounds,
        mut attempts: EndpointAttempts<'_>,
        own: Option<Own<'_>>,
    ) -> Result<Checkout, ConnectFailure> {
        attempts.prefer(own.and_then(|own| own.index(upstream.id)));
        while let Some(next) = attempts.next() {
            let endpoint = next.endpoint.clone();
            let until = next.until;
            let attempt = pin!(checkout::endpoint(self, upstream, next, bounds.depth, own));

            match within(|| until, attempt).await {
                Some(Ok(checkout)) => return Ok(checkout),
                Some(Err(failure)) => attempts.failed(&endpoint, failure),
                None => attempts.failed(&endpoint, ConnectFailure::timeout(&*endpoint.text)),
            }
        }

        Err(attempts.failure())
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
