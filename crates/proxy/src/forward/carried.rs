//! A tunnel that is open on both sides and still to be carried.
//!
//! Opening and carrying are two steps, so that what opened a tunnel is gone while it waits, which most tunnels do most of the time.

use std::sync::Arc;

use hermes_http::{Incoming, Outgoing};
use hermes_packet::tun::FlowStack;
use hermes_upstream::{Active, Upstream};

use super::bridges::Bridges;
use super::bulk;
use super::datagram_path::Path;
use super::datagrams;
use super::movable::{self, Progress};
use super::outlive::far::FarTunnel;
use super::outlive::near::NearTunnel;
use super::packets::PacketTunnel;
use super::pump;
use crate::arrival::End;
use crate::reevaluate::TunnelGuard;
use crate::routed::Routed;

/// What is left to be done for a tunnel.
pub(crate) enum Carried {
    /// Its bytes are to be carried.
    Bytes(Box<ByteTunnel>),
    /// Its bytes are to be carried, and changed.
    Bridged(Box<ByteTunnel>, Box<Bridges>),
    /// Its bytes are, and outlive the path to the target; this is the near end.
    Near(Box<NearTunnel>),
    /// This is the far end.
    Far(Box<FarTunnel>),
    /// Its datagrams are.
    Datagrams(Box<(End, Path, TunnelGuard)>),
    /// Its packets are, to a device or a stack.
    Packets(Box<PacketTunnel>),
    /// Nothing; why it is over.
    Over(String),
}

/// The four ends of a tunnel of bytes, and what it holds.
pub(crate) struct ByteTunnel {
    pub(super) client: (Incoming, Outgoing),
    pub(super) target: (Incoming, Outgoing),
    pub(super) guard: TunnelGuard,
    /// Counts it at its upstream.
    pub(super) active: Active,
    /// What learns from its size how to connect the next.
    pub(super) learner: Option<Arc<Upstream>>,
    /// What lets it move, where it can.
    pub(super) progress: Option<Box<Progress>>,
}

impl Carried {
    /// A tunnel of bytes, with what changes them on their way if anything does.
    pub(super) fn of(bytes: ByteTunnel, bridges: Option<Box<Bridges>>) -> Self {
        match bridges {
            Some(bridges) => Self::Bridged(Box::new(bytes), bridges),
            None => Self::Bytes(Box::new(bytes)),
        }
    }

    /// What ends its packets in this process, if that does.
    pub(crate) fn stack(&self) -> Option<Arc<FlowStack>> {
        match self {
            Self::Packets(tunnel) => tunnel.tunnel.stack().cloned(),
            _ => None,
        }
    }

    /// Carries it to its end; returns why it ended.
    pub(crate) async fn carry(self, routed: &Routed) -> String {
        match self {
            Self::Bytes(bytes) => Box::pin(bytes.carry(routed)).await,
            Self::Bridged(mut bytes, mut bridges) => {
                let counters = routed.exchange.counters();
                let carried = Box::pin(bridges.carry(&mut bytes, counters)).await;
                carried.map_or_else(|broken| broken.reason(), |()| "done".to_owned())
            }
            Self::Near(tunnel) => {
                let carried = Box::pin(tunnel.carry(&routed.exchange)).await;
                carried.map_or_else(|broken| broken.reason(), |()| "done".to_owned())
            }
            Self::Far(tunnel) => Box::pin(tunnel.carry(&routed.exchange)).await,
            Self::Datagrams(ends) => Box::pin(datagrams::carry(routed, ends)).await,
            Self::Packets(tunnel) => Box::pin(tunnel.carry(routed)).await,
            Self::Over(reason) => reason,
        }
    }
}

impl ByteTunnel {
    async fn carry(mut self: Box<Self>, routed: &Routed) -> String {
        if let Some(progress) = self.progress.take() {
            let carried = Box::pin(movable::carry(&mut self, *progress, &routed.exchange)).await;
            return carried.map_or_else(|broken| broken.reason(), |()| "done".to_owned());
        }

        let Self {
            client,
            target,
            guard,
            active: _held,
            learner,
            ..
        } = &mut *self;

        let carried = pump::tunnel(client, target, routed.exchange.counters(), guard).await;
        if let Some(upstream) = learner {
            bulk::ended(routed, upstream);
        }
        carried.map_or_else(|broken| broken.reason(), |()| "done".to_owned())
    }
}
