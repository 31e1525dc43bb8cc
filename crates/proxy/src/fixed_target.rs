//! The ingress of `tcp` listeners that name no other: every connection is a CONNECT for the listener's target.

use hermes_http::Offered;
use hermes_net::Stream;

use crate::plug::opening_head::connect;
use crate::plug::{Gate, Ingress, Serving};

/// Every connection is a CONNECT for the listener's target.
pub(crate) struct FixedTarget;

impl Ingress for FixedTarget {
    fn connection(&self, stream: Stream, gate: Gate) -> Serving<'_> {
        Box::pin(async move {
            match gate.target().map(connect) {
                Some(head) => gate.hand_in(Offered::connection(head, stream)).await,
                None => stream.abort(),
            }
        })
    }
}
