//! The stand-in for SOCKS in a program that does not speak it: it closes connections.

use hermes_net::Stream;
use hermes_plug::{Gate, Ingress, Serving};

/// No SOCKS.
pub(crate) struct NoSocks;

impl Ingress for NoSocks {
    fn connection(&self, stream: Stream, _: Gate) -> Serving<'_> {
        tracing::warn!("this node was started without SOCKS: a connection is closed");
        Box::pin(async move { stream.abort() })
    }
}
