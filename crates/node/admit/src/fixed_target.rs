//! The ingress of `tcp` listeners that name no other: every connection is a CONNECT for the listener's target.

use std::future::ready;

use hermes_http::Offered;
use hermes_net::Stream;
use hermes_plug::opening_head::connect;
use hermes_plug::{Gate, Ingress, Serving};

/// Every connection is a CONNECT for the listener's target.
pub(crate) struct FixedTarget;

impl Ingress for FixedTarget {
    fn connection(&self, stream: Stream, gate: Gate) -> Serving<'_> {
        let Some(head) = gate.target().map(connect) else {
            stream.abort();
            return Box::pin(ready(()));
        };

        // Before the future, which else has room for head and stream for as long as the connection lasts.
        let offered = Offered::connection(head, stream);
        Box::pin(async move { gate.hand_in(offered).await })
    }
}
