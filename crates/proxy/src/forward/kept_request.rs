//! A request that is tried again for as long as `retry.keep_for` says: what its client and the operator see meanwhile.

use std::time::Duration;

use hermes_http::{RequestHead, Responder, ResponseHead};
use hermes_net::clock;
use hermes_proto::proxy_status::{self, PROXY_STATUS, ProxyError};
use http::{HeaderName, StatusCode};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::retry::Tries;
use crate::refusal::Refusal;

/// Asks with `?1` for an interim response about each failure, at most one a second.
pub(super) const PROGRESS: HeaderName = HeaderName::from_static("hermes-progress");

/// Shortest time between two interim responses.
const SHORTEST: Duration = Duration::from_secs(1);

/// One such request.
pub(super) struct KeptRequest {
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
    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// An attempt failed, and another one follows.
    pub(super) async fn failed(
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

        let asks = head.fields.get(PROGRESS).is_some_and(|asks| asks == "?1");
        let told = *self.told.lock();
        let is_due = told.is_none_or(|told| told.elapsed() >= SHORTEST);
        if !asks || !is_due {
            return;
        }

        *self.told.lock() = Some(Instant::now());
        let details = format!("attempt {made} failed: {reason}");
        let node = &tries.routed.snapshot.node;
        let mut progress = ResponseHead::new(StatusCode::PROCESSING);
        let status =
            proxy_status::format(node, ProxyError::ConnectionTerminated, Some(&details), None);
        progress.fields.insert(PROXY_STATUS, status);
        // A client that is gone is noticed while the next attempt waits.
        let _ = responder.interim(&progress).await;
    }
}
