//! An exchange that could not be forwarded.

use bytes::Bytes;
use hermes_http::{RefusalReason, Responder, ResponseHead, StreamError};
use hermes_plug::arrival::Arrival;
use hermes_plug::refusal::Refusal;

/// The client that is still to be answered.
pub(crate) enum Unanswered {
    /// Nothing of it was touched.
    Arrival(Arrival),
    /// Its content was, or may have been, read.
    Responder(Responder),
}

impl Unanswered {
    /// The arrival, if nothing of it was touched.
    pub(crate) fn arrival(&self) -> Option<&Arrival> {
        match self {
            Self::Arrival(arrival) => Some(arrival),
            Self::Responder(_) => None,
        }
    }

    /// Answers it with a refusal, whose reason the ingress learns.
    ///
    /// # Errors
    /// The client is gone.
    pub(crate) async fn refuse(
        self,
        reason: RefusalReason,
        head: ResponseHead,
        content: Bytes,
    ) -> Result<(), StreamError> {
        match self {
            Self::Arrival(arrival) => arrival.refuse(reason, head, content).await,
            Self::Responder(responder) => responder.refuse(reason, head, content).await,
        }
    }
}

/// An exchange that could not be forwarded, and why.
pub(crate) struct Failed {
    pub(crate) unanswered: Unanswered,
    pub(crate) refusal: Refusal,
}

impl Failed {
    /// One whose arrival was not touched.
    pub(crate) fn untouched(arrival: Arrival, refusal: Refusal) -> Self {
        Self {
            unanswered: Unanswered::Arrival(arrival),
            refusal,
        }
    }
}
