//! The stand-in for a carrier that the program does not have: it refuses requests, and closes connections.

use hermes_net::Stream;
use hermes_plug::refusal::Refusal;
use hermes_plug::{Gate, Handler, HandlerRequest, Handling, Ingress, Serving};
use hermes_proto::proxy_status::ProxyError;

/// No carrier of this name.
pub(crate) struct NoCarrier(pub(crate) &'static str);

impl Handler for NoCarrier {
    fn handle(&self, _: HandlerRequest) -> Handling<'_> {
        let details = format!("this node was started without the carrier `{}`", self.0);
        let refusal = Refusal::new(ProxyError::ProxyConfigurationError, details);
        Box::pin(std::future::ready(Err(refusal)))
    }
}

impl Ingress for NoCarrier {
    fn connection(&self, stream: Stream, _: Gate) -> Serving<'_> {
        Box::pin(async move { stream.abort() })
    }

    fn takes_datagrams(&self) -> bool {
        true
    }
}
