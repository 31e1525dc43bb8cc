//! A request that is tried again for as long as `retry.keep_for` says, as its client and the operator see it meanwhile.

use std::time::Duration;

use hermes_http::{RequestHead, Responder};
use hermes_net::clock;
use hermes_plug::refusal::Refusal;
use hermes_proto::proxy_status::{self, ProxyError};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::progress;
use super::retry::Tries;

/// One such request.
pub(crate) struct KeptRequest {
    began: Instant,
    /// When its client last heard of it.
    told: Mutex<Option<Instant>>,
}

impl Default for KeptRequest {
    fn default() -> Self {
        Self {
            began: clock::now(),
            told: Mutex::default(),
        }
    }
}

impl KeptRequest {
    /// How long it has been tried.
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// An attempt failed, and another one follows.
    pub(crate) async fn failed(
        &self,
        tries: &Tries<'_>,
        head: &RequestHead,
        refusal: &Refusal,
        responder: &mut Responder,
    ) {
        let made = tries.made();
        let reason = refusal.reason();
        let exchange = &tries.routed.exchange;
        exchange.waits(Some(format!("attempt {}, after {reason}", made + 1)));

        let told = *self.told.lock();
        let is_due = told.is_none_or(|told| told.elapsed() >= progress::SHORTEST);
        if !progress::is_asked(head) || !is_due {
            return;
        }

        *self.told.lock() = Some(Instant::now());
        let details = format!("attempt {made} failed: {reason}");
        let node = &tries.routed.snapshot.node.name;
        let status =
            proxy_status::format(node, ProxyError::ConnectionTerminated, Some(&details), None);
        progress::tell(status, responder).await;
    }
}
