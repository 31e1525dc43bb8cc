//! The descriptors that an exchange holds, out of the share of its user or source.

use std::sync::Arc;

use hermes_admit::routed::Routed;
use hermes_admit::worker::Worker;
use hermes_net::shares::{Exceeded, Share};
use hermes_net::{StreamInfo, descriptors};
use hermes_plug::refusal::Refusal;
use hermes_proto::proxy_status::ProxyError;
use http::StatusCode;

/// Whose share descriptors are taken from.
#[derive(Clone)]
pub(crate) struct ShareOwner {
    worker: Arc<Worker>,
    user: Option<Arc<str>>,
    source: Arc<StreamInfo>,
}

impl ShareOwner {
    /// The exchange's user, or its source where there is none.
    pub(crate) fn of(routed: &Routed) -> Self {
        let user = routed.user.as_deref().map(Arc::from);
        Self {
            worker: routed.worker.clone(),
            user,
            source: routed.source.clone(),
        }
    }

    /// Takes this many descriptors out of the share.
    ///
    /// # Errors
    /// The share is used up.
    pub(crate) fn take(&self, count: usize) -> Result<Share, Refusal> {
        let user = self.user.as_deref();
        let exceeded =
            match self
                .worker
                .shared
                .telemetry
                .shares()
                .take(user, &self.source.peer, count)
            {
                Ok(share) => return Ok(share),
                Err(exceeded) => exceeded,
            };

        descriptors::note_refusal();

        let who = if user.is_some() { "user" } else { "source" };
        let Exceeded { holds, taken } = exceeded;
        let more = if count == 1 {
            String::new()
        } else {
            format!(", and this needs {count}")
        };

        let details = format!(
            "the {who} holds {holds} of {} descriptors, as many as are free: {taken} are taken{more}",
            descriptors::ceiling()
        );
        let refusal = Refusal::new(ProxyError::ConnectionLimitReached, details);

        // A client that caused the shortage itself is told so.
        Err(if (holds + count - 1) * 2 >= taken {
            refusal.status(StatusCode::TOO_MANY_REQUESTS)
        } else {
            refusal
        })
    }
}

/// Takes a descriptor out of the share of the exchange's user or source; it holds one, however often it is tried.
///
/// # Errors
/// The share is used up.
pub(crate) fn take_one(routed: &Routed) -> Result<(), Refusal> {
    take_all(routed, 1)
}

/// As [`take_one`], for an exchange that opens this many at once.
///
/// # Errors
/// The share is used up.
pub(crate) fn take_all(routed: &Routed, count: usize) -> Result<(), Refusal> {
    if !routed.exchange.holds() {
        routed.exchange.hold(ShareOwner::of(routed).take(count)?);
    }
    Ok(())
}
