//! The way on of a request that a handler stands in.

use std::sync::Arc;

use hermes_http::{Incoming, RequestHead, ResponseHead};
use hermes_proto::proxy_status::ProxyError;

use crate::handler::OpeningAnswer;
use crate::refusal::Refusal;

/// The way on of a request from a handler that `through: [NAME]` puts between it and the next hop of its route.
#[derive(Clone)]
pub struct Onward {
    upstream: Arc<str>,
    /// `None` for a carrier, which is itself the way on.
    sends: Option<Arc<dyn Sends>>,
}

/// Sends requests to the next hop. The node implements it.
pub trait Sends: Send + Sync {
    /// As [`Onward::send`].
    fn send(&self, head: RequestHead, content: Incoming) -> OpeningAnswer<'_>;
}

impl Onward {
    /// To this upstream, by these means.
    pub fn new(upstream: Arc<str>, sends: Arc<dyn Sends>) -> Self {
        Self {
            upstream,
            sends: Some(sends),
        }
    }

    /// To this upstream, by the plug that gets it.
    pub fn by_carrier(upstream: Arc<str>) -> Self {
        Self {
            upstream,
            sends: None,
        }
    }

    /// The upstream that the route leads to; `(target)` where that is the origin that the request names.
    pub fn upstream(&self) -> &Arc<str> {
        &self.upstream
    }

    /// Sends a request to the next hop, or to the next handler on the way there, and gives the answer; a failure on the way is an answer
    /// too, with `Proxy-Status`. It was decided on already, so neither policy nor filters are asked again; it has a record of its own.
    /// Dropping the answer's content ends it. May be called more than once, or never.
    ///
    /// # Errors
    /// The plug is itself the way on, or the node ends.
    pub async fn send(
        &self,
        head: RequestHead,
        content: Incoming,
    ) -> Result<(ResponseHead, Incoming), Refusal> {
        match &self.sends {
            Some(sends) => sends.send(head, content).await,
            None => {
                let details = "the plug that carries a request has no other way on";
                Err(Refusal::new(ProxyError::ProxyInternalError, details))
            }
        }
    }
}
