//! Why no response came.

use hermes_http::{Reset, StreamError};
use hermes_packet::Broken;
use hermes_plug::refusal::Refusal;
use hermes_proto::proxy_status::ProxyError;
use hermes_rules::retry::Outcome;
use hermes_upstream::Active;
use http::StatusCode;

use crate::reach::Unreached;
use crate::reach::retry;
use crate::reach::verdict;

/// Why no response came.
pub(crate) struct NoResponse {
    pub(super) refusal: Refusal,
    /// The outcome for the retry policy; `None` if another attempt would end in the same way.
    pub(super) outcome: Option<Outcome>,
}

impl From<Unreached> for NoResponse {
    fn from(unreached: Unreached) -> Self {
        Self {
            refusal: unreached.refusal,
            outcome: unreached.outcome,
        }
    }
}

impl NoResponse {
    /// The exchange broke; `reused`: on a connection that had served others.
    pub(crate) fn of(error: &StreamError, reused: bool) -> Self {
        Self {
            refusal: Refusal::of_stream(error, ""),
            outcome: retry::of_stream(error, reused),
        }
    }

    /// As [`Self::of`], which also speaks against the endpoint.
    pub(crate) fn broken(active: &Active, error: &StreamError, reused: bool) -> Self {
        verdict::broke(active, error);
        Self::of(error, reused)
    }

    pub(crate) fn next_hop(self, endpoint: &str) -> Self {
        Self {
            refusal: self.refusal.next_hop(endpoint),
            ..self
        }
    }

    /// Why, in words.
    pub(crate) fn reason(&self) -> String {
        self.refusal.reason()
    }

    pub(super) fn last(refusal: Refusal) -> Self {
        Self {
            refusal,
            outcome: None,
        }
    }

    /// No response head came in time.
    pub(crate) fn timeout(refusal: Refusal) -> Self {
        Self {
            refusal,
            outcome: Some(Outcome::Timeout),
        }
    }

    /// Neither did the client send nor the next hop take any content for too long.
    pub(super) fn silent(time: &str) -> Self {
        let details = format!("the request's content stopped for {time}");
        let refusal = Refusal::new(ProxyError::ConnectionReadTimeout, details);
        Self::last(refusal.status(StatusCode::REQUEST_TIMEOUT))
    }

    pub(crate) fn unexpected_tunnel() -> Self {
        Self::last(Refusal::new(
            ProxyError::HttpProtocolError,
            "the next hop opened a tunnel that was not asked for",
        ))
    }

    pub(super) fn client_broke(broken: &Broken) -> Self {
        Self::last(match broken.reset {
            _ if broken.is_slow() => Refusal::new(ProxyError::HttpRequestError, broken.reason())
                .status(StatusCode::REQUEST_TIMEOUT),
            // The next hop takes no content.
            _ if broken.is_of_memory() => {
                Refusal::new(ProxyError::ConnectionWriteTimeout, broken.details())
            }
            Reset::Protocol | Reset::Internal => {
                Refusal::new(ProxyError::HttpRequestError, broken.details())
            }
            _ => Refusal::client_gone(broken.details()),
        })
    }
}
