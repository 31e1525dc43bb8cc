//! The ingress of `tcp` listeners that name no other: every connection is a CONNECT for the listener's target.

use hermes_config::model::HostPort;
use hermes_http::{Offered, RequestHead};
use hermes_net::Stream;
use hermes_proto::fields::Fields;
use http::uri::Authority;
use http::{Method, Version};

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

/// The CONNECT that a connection means.
pub(crate) fn connect(target: &HostPort) -> RequestHead {
    RequestHead {
        method: Method::CONNECT,
        scheme: None,
        authority: Authority::try_from(target.to_string()).ok(),
        path: None,
        protocol: None,
        fields: Fields::new(),
        version: Version::HTTP_11,
        origin_form: false,
    }
}
