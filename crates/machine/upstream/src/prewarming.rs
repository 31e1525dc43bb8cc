//! Prewarming: links that are open before anyone asks.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, timeout_at};

use crate::client::Client;
use crate::condition::Fitness;
use crate::connect::{self, Attempt};
use crate::failure::ConnectFailure;
use crate::pool::Key;
use crate::reached::Bounds;
use crate::upstream::Upstream;
use crate::worker::Worker;

/// How often missing links are opened.
const ROUND: Duration = Duration::from_secs(1);

impl Client {
    /// Keeps links open to the endpoints of upstreams that ask for it (`warm`), until [`Self::close`].
    pub fn keep_warm(&self) {
        let client = Arc::downgrade(&self.worker);
        let closed = self.worker.pool.closed();
        self.worker.tasks.spawn(async move {
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

async fn warm_all(client: &Arc<Worker>) {
    let mut attempts = JoinSet::new();
    for upstream in client
        .directory
        .upstreams()
        .into_iter()
        .filter(|one| one.links.warm > 0 && one.may_share())
    {
        for index in 0..upstream.endpoints.len() {
            attempts.spawn(warm(client.clone(), upstream.clone(), index));
        }
    }

    while attempts.join_next().await.is_some() {}
}

/// Opens a link to an endpoint that has too few, unless it is unfit or failed a moment ago.
async fn warm(client: Arc<Worker>, upstream: Arc<Upstream>, index: usize) {
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
        let addresses = connect::dial_addresses(&client, &upstream, endpoint).await?;
        let client = &*client;
        let upstream = &*upstream;

        let dial = Attempt {
            client,
            upstream,
            endpoint,
            bounds: Bounds { until, depth: 0 },
        }
        .http(&addresses);

        client
            .pool
            .warm(&slot, upstream.links.warm, Box::pin(dial))
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
