//! A tunnel that is open on both sides and still to be carried.
//!
//! Opening and carrying are two steps: the future that opened a tunnel is freed before the tunnel waits, as most do most of the time.

use std::pin::Pin;
use std::sync::Arc;

use hermes_admit::reevaluate::TunnelGuard;
use hermes_admit::routed::Routed;
use hermes_net::memory::Charge;
use hermes_packet::DatagramChanges;
use hermes_packet::tun::FlowStack;

use crate::beyond::Beyond;

/// A tunnel on its way to its end; gives the reason for which it ended.
pub(crate) type TunnelEnd<'a> = Pin<Box<dyn Future<Output = String> + Send + 'a>>;

/// A tunnel that is open on both sides. Each kind of content has one of its own.
pub(crate) trait Carry: Send {
    /// Its entry in the table of open tunnels. That of a tunnel that was taken over is of the exchange that opened it.
    fn guard(&self) -> &TunnelGuard;

    /// The stack that ends its packets in this process, if one does.
    fn stack(&self) -> Option<&Arc<FlowStack>> {
        None
    }

    /// Whether it keeps a head of its own, which stays charged to its user.
    fn keeps_head(&self) -> bool {
        false
    }

    /// Has its datagrams changed on their way. Without datagrams there are no such changes.
    fn change_datagrams(&mut self, _: Box<Changes>) {}

    /// Carries it to its end.
    fn carry(self: Box<Self>, routed: &Routed) -> TunnelEnd<'_>;
}

/// Changes of the datagrams of one tunnel.
#[derive(Default)]
pub(crate) struct Changes {
    /// Of the datagrams from the client, in the order of the route.
    pub(crate) to_target: DatagramChanges,
    /// Of the datagrams from the target, in the reverse order.
    pub(crate) to_client: DatagramChanges,
    /// The memory of the transforms.
    pub(crate) charges: Vec<Charge>,
    /// The functions that nodes have asked each other for.
    pub(crate) beyond: Option<Box<Beyond>>,
}

/// The part of an exchange that is left once it was forwarded.
pub(crate) enum Carried {
    /// A tunnel that is to be carried.
    Tunnel(Box<dyn Carry>),
    /// Nothing: the reason for which it is over.
    Over(String),
}

impl Carried {
    /// A tunnel that is to be carried.
    pub(crate) fn tunnel(tunnel: impl Carry + 'static) -> Self {
        Self::Tunnel(Box::new(tunnel))
    }

    /// Carries the exchange to its end; returns the reason for which it ended.
    pub(crate) async fn carry(self, routed: &Routed) -> String {
        match self {
            Self::Tunnel(tunnel) => tunnel.carry(routed).await,
            Self::Over(reason) => reason,
        }
    }
}
