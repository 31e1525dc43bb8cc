//! How links are kept: their PINGs, and the links that are open before anybody asks.

use std::sync::Arc;
use std::time::Duration;

use hermes_config::model;
use hermes_http::h2::client::Keepalive;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, timeout_at};

use crate::client::{Client, Inner};
use crate::condition::Fitness;
use crate::connect::{self, Attempt, Bounds};
use crate::failure::ConnectFailure;
use crate::pool::{Key, Slot};
use crate::upstream::Upstream;

/// How often it is seen to that enough links are open.
const ROUND: Duration = Duration::from_secs(1);

/// How the links of an upstream are kept, defaults filled in.
#[derive(Debug)]
pub(crate) struct Keeping {
    /// Links that each worker keeps to each healthy endpoint.
    pub(crate) warm: usize,
    /// PINGs.
    pub(crate) keepalive: Option<Keepalive>,
}

impl Keeping {
    pub(crate) fn new(config: &model::Upstream) -> Self {
        const EVERY: Duration = Duration::from_secs(15);
        const TIMEOUT: Duration = Duration::from_secs(5);
        let keepalive = config.keepalive.as_ref().map(|keepalive| Keepalive {
            every: keepalive.every.map_or(EVERY, |every| every.0),
            timeout: keepalive.timeout.map_or(TIMEOUT, |timeout| timeout.0),
        });
        Self {
            warm: usize::from(config.warm),
            keepalive,
        }
    }
}

impl Client {
    /// Keeps links open to the endpoints of upstreams that ask for it (`warm`), until [`Self::close`].
    pub fn keep_warm(&self) {
        let client = Arc::downgrade(&self.inner);
        let closed = self.inner.pool.closed();
        self.inner.tasks.spawn(async move {
            let mut rounds = tokio::time::interval(ROUND);
            rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tokio::select! {
                    _ = rounds.tick() => {}
                    () = closed.cancelled() => return,
                }
                let Some(client) = client.upgrade() else {
                    return;
                };
                tokio::select! {
                    () = warm_all(&client) => {}
                    () = closed.cancelled() => return,
                }
            }
        });
    }
}

async fn warm_all(client: &Arc<Inner>) {
    let mut attempts = JoinSet::new();
    for upstream in client
        .directory
        .upstreams()
        .into_iter()
        .filter(|one| one.keeping.warm > 0 && one.may_share())
    {
        for index in 0..upstream.endpoints.len() {
            attempts.spawn(warm(client.clone(), upstream.clone(), index));
        }
    }
    while attempts.join_next().await.is_some() {}
}

/// Makes a connection to an endpoint unless one came about since then; says whether over QUIC.
pub(crate) async fn reach_anew(
    client: &Inner,
    upstream: &Arc<Upstream>,
    index: usize,
    slot: &Arc<Slot>,
    since: Instant,
) -> Result<bool, ConnectFailure> {
    let endpoint = &upstream.endpoints[index];
    let until = Instant::now() + upstream.timeouts().connect;
    let attempt = async {
        let road = connect::road(client, upstream, endpoint).await?;
        let dial = Attempt {
            client,
            upstream,
            endpoint,
            bounds: Bounds { until, depth: 0 },
        }
        .http(&road);
        client.pool.reach_anew(slot, since, Box::pin(dial)).await
    };
    let done = timeout_at(until, attempt).await;
    done.unwrap_or_else(|_| Err(ConnectFailure::timeout(&*endpoint.text)))
}

/// Opens a link to an endpoint that has too few, unless it is unfit or failed a moment ago.
async fn warm(client: Arc<Inner>, upstream: Arc<Upstream>, index: usize) {
    let endpoint = &upstream.endpoints[index];
    let now = Instant::now();
    if endpoint.fitness(now) != Fitness::Healthy || endpoint.is_resting(now) {
        return;
    }
    let until = now + upstream.timeouts().connect;
    let slot = client
        .pool
        .slot(Key::Endpoint(upstream.id, index), Some(&upstream), true);
    let attempt = async {
        let road = connect::road(&client, &upstream, endpoint).await?;
        let client = &*client;
        let upstream = &*upstream;
        let dial = Attempt {
            client,
            upstream,
            endpoint,
            bounds: Bounds { until, depth: 0 },
        }
        .http(&road);
        client
            .pool
            .warm(&slot, upstream.keeping.warm, Box::pin(dial))
            .await
    };
    let done = timeout_at(until, attempt).await;
    if let Err(failure) = done.unwrap_or_else(|_| Err(ConnectFailure::timeout(&*endpoint.text))) {
        tracing::debug!(
            upstream = upstream.name(),
            endpoint = &*endpoint.text,
            reason = failure.reason,
            "no warm link"
        );
        endpoint.failed(&failure);
    }
}
