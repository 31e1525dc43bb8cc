//! Active checks: each endpoint is asked from time to time whether it is well, once for the whole process.

mod plan;
pub(crate) mod probe;

use std::collections::HashMap;
use std::sync::Arc;

use hermes_net::Watch;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use self::plan::Plan;
use crate::client::Client;
use crate::endpoint::Endpoint;
use crate::upstream::Upstream;

/// The checks of all upstreams.
pub struct Checks {
    client: Client,
    watch: Watch,
    runtime: Handle,
    running: Mutex<HashMap<u64, CancellationToken>>,
}

impl std::fmt::Debug for Checks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Checks").finish_non_exhaustive()
    }
}

impl Checks {
    /// No checks yet. They will run on this runtime, on connections of their own, until `watch` drains.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn new(client: Client, watch: Watch) -> Self {
        Self {
            client,
            watch,
            runtime: Handle::current(),
            running: Mutex::default(),
        }
    }

    /// Checks these upstreams from now on and no others. Running checks go on undisturbed.
    pub fn follow<'a>(&self, upstreams: impl Iterator<Item = &'a Arc<Upstream>>) {
        let mut running = self.running.lock();
        let mut still = HashMap::new();
        for upstream in upstreams.filter(|upstream| upstream.health_checks().is_some()) {
            let token = running
                .remove(&upstream.id)
                .unwrap_or_else(|| self.start(upstream));
            still.insert(upstream.id, token);
        }

        running.values().for_each(CancellationToken::cancel);
        *running = still;
    }

    fn start(&self, upstream: &Arc<Upstream>) -> CancellationToken {
        let token = CancellationToken::new();
        let _inside = self.runtime.enter();
        for endpoint in &upstream.endpoints {
            let client = self.client.clone();
            let watch = self.watch.clone();
            let ended = token.clone();
            let upstream = upstream.clone();
            let endpoint = endpoint.clone();
            self.watch.spawn(async move {
                tokio::select! {
                    () = check(&client, &upstream, &endpoint) => {}
                    () = watch.graceful() => {}
                    () = ended.cancelled() => {}
                }
            });
        }

        token
    }
}

impl Drop for Checks {
    fn drop(&mut self) {
        self.running
            .lock()
            .values()
            .for_each(CancellationToken::cancel);
    }
}

/// Checks one endpoint for ever. The first check comes within a tenth of the interval, so that many endpoints are not asked at
/// the same moment, then or later.
async fn check(client: &Client, upstream: &Arc<Upstream>, endpoint: &Arc<Endpoint>) {
    let Some(health) = upstream.health_checks() else {
        return;
    };
    let plan = Plan::new(health);
    sleep(plan.interval.mul_f64(fastrand::f64() / 10.0)).await;

    loop {
        let outcome = timeout(
            plan.timeout,
            probe::probe(&client.worker, upstream, endpoint, &plan),
        )
        .await;
        let outcome =
            outcome.unwrap_or_else(|_| Err(format!("no answer within {:?}", plan.timeout)));
        endpoint.checked(upstream.name(), outcome, plan.thresholds);
        sleep(plan.interval.mul_f64(0.9 + fastrand::f64() / 5.0)).await;
    }
}
