//! Requests as plugs get them.

use hermes_admit::routed::Routed;
use hermes_http::RequestHead;
use hermes_plug::target::Target;
use hermes_plug::{HandlerRequest, Onward, RequestContent, TunnelRequest, Waits};

/// The request to a handler for an exchange.
pub(crate) fn message(
    routed: &Routed,
    head: RequestHead,
    content: RequestContent,
    onward: Option<Onward>,
) -> HandlerRequest {
    HandlerRequest {
        head,
        content,
        target: routed.target.clone(),
        user: routed.user.clone(),
        source: routed.source.clone(),
        listener: routed.listener.name.clone(),
        onward,
        opener: routed.opener(),
        waits: Waits::new(routed.exchange.clone(), &routed.snapshot.node.name),
    }
}

/// The request for a tunnel that a plug gets, with this head.
pub(crate) fn tunnel(routed: &Routed, head: RequestHead, target: &Target) -> TunnelRequest {
    TunnelRequest {
        head,
        target: target.clone(),
        user: routed.user.clone(),
        source: routed.source.clone(),
        listener: routed.listener.name.clone(),
        bounds: routed.datagram_bounds().bounds,
        opener: routed.opener(),
    }
}
