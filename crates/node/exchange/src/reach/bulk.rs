//! Tunnels that are likely to be bulk go on connections of their own.

use std::sync::Arc;

use hermes_admit::next::Next;
use hermes_admit::routed::Routed;
use hermes_http::Kind;
use hermes_upstream::{TunnelSizes, Upstream};

/// The upstream that learns from the size of this tunnel, which leaves in this form; `None` if its connection does not depend on it.
pub(crate) fn learner(next: &Next, form: Kind) -> Option<&Arc<Upstream>> {
    // Bytes that are read on their way gain nothing by a connection that the kernel could carry.
    let is_plain = form == Kind::Connect && next.through.own.is_empty();
    next.upstream()
        .filter(|upstream| is_plain && upstream.bulk_goes_alone().is_some())
}

/// Whether an exchange, which leaves in this form, is a tunnel that is likely to be bulk.
pub(crate) fn is_expected(routed: &Routed, next: &Next, form: Kind) -> bool {
    let Some(upstream) = learner(next, form) else {
        return false;
    };

    let target = (routed.target.host(), routed.target.port());
    let is_bulk = |sizes: &TunnelSizes| sizes.expects_bulk(&routed.route.name, target);
    upstream.bulk_goes_alone().is_some_and(is_bulk) && upstream.has_spare_connections()
}

/// A tunnel to this upstream has ended.
pub(crate) fn ended(routed: &Routed, upstream: &Upstream) {
    let Some(sizes) = upstream.bulk_goes_alone() else {
        return;
    };

    let target = (routed.target.host(), routed.target.port());
    let moved = routed.exchange.counters().moved();
    sizes.ended(&routed.route.name, target, moved);
}
