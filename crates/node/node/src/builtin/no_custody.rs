//! What stands for custody in a program that has none: requests are refused, and sockets are closed.

use hermes_net::Stream;
use hermes_plug::refusal::Refusal;
use hermes_plug::{Gate, Handler, HandlerRequest, Handling, Ingress, Serving};
use hermes_proto::proxy_status::ProxyError;

/// There is no custody.
pub(crate) struct NoCustody;

impl Handler for NoCustody {
    fn handle(&self, _: HandlerRequest) -> Handling<'_> {
        let details = "this program has no custody";
        let refusal = Refusal::new(ProxyError::ProxyConfigurationError, details);
        Box::pin(std::future::ready(Err(refusal)))
    }
}

impl Ingress for NoCustody {
    fn connection(&self, stream: Stream, _: Gate) -> Serving<'_> {
        Box::pin(async move { stream.abort() })
    }

    fn takes_datagrams(&self) -> bool {
        true
    }
}
