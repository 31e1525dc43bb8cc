//! Tries HTTP/3 again beside the links of HTTP/2 that an endpoint is reached by, once its rest is over.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use super::taken::Dialer;
use super::{Pool, Slot};
use crate::failure::ConnectFailure;
use crate::reached::Reached;
use crate::upstream::Upstream;

/// Longest random time before QUIC is tried again, so that the workers of a node, and nodes, do not
/// try together.
#[doc(alias = "bound")]
const JITTER: Duration = Duration::from_millis(500);

/// Time between the first connection that succeeded and the second, which is used: a path that
/// works for a moment is not enough.
#[doc(alias = "bound")]
const AGAIN: Duration = Duration::from_secs(1);

/// Why HTTP/3 is used again.
const ANSWERS: &str = "it answered again, twice";

impl Pool {
    /// Begins to try where HTTP/3 is preferred, rests no more, and something else is used.
    pub(super) fn probe(self: &Arc<Self>, slot: &Arc<Slot>, now: Instant) {
        let Some((upstream, index)) = slot.endpoint() else {
            return;
        };
        if !upstream.prefers_h3()
            || !upstream.endpoints[index].quic.is_worth_trying(now)
            || !slot.links.lack_quic()
        {
            return;
        }

        let Some(dialer) = self.dialer.upgrade() else {
            return;
        };
        if slot.probing.swap(true, Ordering::Relaxed) {
            return;
        }

        let pool = self.clone();
        let slot = slot.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = pool.try_quic(&*dialer, &upstream, index, &slot) => {}
                () = pool.closed.cancelled() => {}
            }
            slot.probing.store(false, Ordering::Relaxed);
        });
    }

    async fn try_quic(
        self: &Arc<Self>,
        dialer: &dyn Dialer,
        upstream: &Arc<Upstream>,
        index: usize,
        slot: &Arc<Slot>,
    ) {
        let endpoint = &upstream.endpoints[index];
        sleep(JITTER.mul_f64(fastrand::f64())).await;
        let tried = async {
            drop(connected(dialer, upstream, index).await?);
            sleep(AGAIN).await;
            let used = async {
                let reached = connected(dialer, upstream, index).await?;
                endpoint.hop.reached(&reached, |_| ANSWERS.to_owned());
                Ok(reached)
            };

            self.connect(slot, Box::pin(used)).await
        };

        match tried.await {
            Ok(_) => {
                endpoint.quic.worked_again();
                slot.links.prefer_quic();
                tracing::info!(upstream = upstream.name(), endpoint = %endpoint.text, "HTTP/3 is used again");
            }
            Err(failure) => endpoint.quic.failed_beside(&failure.reason, Instant::now()),
        }
    }
}

/// A connection over QUIC.
async fn connected(
    dialer: &dyn Dialer,
    upstream: &Upstream,
    index: usize,
) -> Result<Reached, ConnectFailure> {
    let until = Instant::now() + upstream.timeouts().connect;
    let done = timeout_at(until, dialer.quic(upstream, index, until)).await;
    done.unwrap_or_else(|_| Err(ConnectFailure::timeout(&*upstream.endpoints[index].text)))
}
