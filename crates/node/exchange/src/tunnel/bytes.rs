//! A tunnel of bytes that pass as they are.

use std::sync::Arc;

use hermes_admit::reevaluate::TunnelGuard;
use hermes_admit::routed::Routed;
use hermes_http::Duplex;
use hermes_packet::Broken;
use hermes_upstream::{Active, Upstream};

use crate::carried::{Carry, TunnelEnd};
use crate::pump;
use crate::reach::bulk;

/// The four ends of a tunnel of bytes, and its guards.
pub(crate) struct ByteTunnel {
    pub(crate) client: Duplex,
    pub(crate) target: Duplex,
    pub(crate) guard: TunnelGuard,
    /// Counts it at its upstream.
    pub(crate) _active: Active,
    /// Learns from its size how to connect the next.
    pub(crate) learner: Option<Arc<Upstream>>,
}

impl Carry for ByteTunnel {
    fn guard(&self) -> &TunnelGuard {
        &self.guard
    }

    fn carry(self: Box<Self>, routed: &Routed) -> TunnelEnd<'_> {
        Box::pin(self.pump(routed))
    }
}

impl ByteTunnel {
    async fn pump(mut self: Box<Self>, routed: &Routed) -> String {
        let counters = routed.exchange.counters();
        let Self {
            client,
            target,
            guard,
            ..
        } = &mut *self;
        let carried = pump::tunnel(client, target, counters, guard).await;
        if let Some(upstream) = &self.learner {
            bulk::ended(routed, upstream);
        }
        end(carried)
    }
}

/// The reason for which a tunnel of bytes ended.
pub(super) fn end(carried: Result<(), Broken>) -> String {
    carried.map_or_else(|broken| broken.reason(), |()| "done".to_owned())
}
