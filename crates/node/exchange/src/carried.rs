//! A tunnel that is open on both sides and still to be carried.
//!
//! Opening and carrying are two steps, so that what opened a tunnel is gone while it waits, which most tunnels do most of the time.

use std::sync::Arc;

use hermes_admit::reevaluate::{TunnelGuard, TunnelState};
use hermes_admit::routed::Routed;
use hermes_http::{Incoming, Outgoing};
use hermes_packet::Broken;
use hermes_packet::tun::FlowStack;
use hermes_plug::arrival::End;
use hermes_upstream::{Active, Upstream};

use super::datagrams;
use super::packets::PacketTunnel;
use super::pump;
use crate::reach::bulk;
use crate::reach::datagram_path::Path;
use crate::tunnel::bridges::Bridges;
use crate::tunnel::outlive::far::FarTunnel;
use crate::tunnel::outlive::near::NearTunnel;

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
    pub(crate) client: (Incoming, Outgoing),
    pub(crate) target: (Incoming, Outgoing),
    pub(crate) guard: TunnelGuard,
    /// Counts it at its upstream.
    pub(crate) _active: Active,
    /// What learns from its size how to connect the next.
    pub(crate) learner: Option<Arc<Upstream>>,
}

impl Carried {
    /// A tunnel of bytes, with what changes them on their way if anything does.
    pub(crate) fn of(bytes: ByteTunnel, bridges: Option<Box<Bridges>>) -> Self {
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

    /// Its state in the table of open tunnels. That of a tunnel that was taken over is of the exchange that opened it.
    pub(crate) fn state(&self) -> Option<&Arc<TunnelState>> {
        let guard = match self {
            Self::Bytes(bytes) | Self::Bridged(bytes, _) => &bytes.guard,
            Self::Near(tunnel) => tunnel.guard(),
            Self::Far(tunnel) => tunnel.guard(),
            Self::Datagrams(ends) => &ends.2,
            Self::Packets(tunnel) => &tunnel.guard,
            Self::Over(_) => return None,
        };
        Some(guard.state())
    }

    /// Carries it to its end; returns why it ended.
    pub(crate) async fn carry(self, routed: &Routed) -> String {
        match self {
            Self::Bytes(bytes) => {
                let carried = bytes.carry(routed).await;
                carried.map_or_else(|broken| broken.reason(), |()| "done".to_owned())
            }
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
    async fn carry(mut self: Box<Self>, routed: &Routed) -> Result<(), Broken> {
        let carried = Box::pin(self.pump(routed)).await;
        if let Some(upstream) = &self.learner {
            bulk::ended(routed, upstream);
        }
        carried
    }

    fn pump(&mut self, routed: &Routed) -> impl Future<Output = Result<(), Broken>> {
        let counters = routed.exchange.counters();
        pump::tunnel(
            &mut self.client,
            &mut self.target,
            counters,
            &mut self.guard,
        )
    }
}
