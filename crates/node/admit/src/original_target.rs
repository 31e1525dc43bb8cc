//! The ingress of `capture` listeners: every connection is a CONNECT for the address that its client meant.

use std::future::ready;

use hermes_config::model::HostPort;
use hermes_http::Offered;
use hermes_net::Stream;
use hermes_plug::opening_head::connect;
use hermes_plug::{Gate, Ingress, Serving};

/// Every connection is a CONNECT for its own address at this end, which is that of the server.
pub(crate) struct OriginalTarget;

impl Ingress for OriginalTarget {
    fn connection(&self, stream: Stream, gate: Gate) -> Serving<'_> {
        let Some(address) = stream.info().local else {
            stream.abort();
            return Box::pin(ready(()));
        };
        let target = HostPort {
            host: address.ip().to_string(),
            port: address.port(),
        };

        // Before the future, which else has room for head and stream for as long as the connection lasts.
        let offered = Offered::connection(connect(&target), stream);
        Box::pin(async move { gate.hand_in(offered).await })
    }
}
