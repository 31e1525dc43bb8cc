//! All that a packet of a tunnel has to pass where the tunnel ends.

use std::time::Instant;

use super::gate::{ArrivedPacket, PacketGate};
use super::node_pools::PoolEntry;
use super::surroundings::Surroundings;

/// The gate that every packet of a tunnel has to pass.
#[derive(Debug, Default)]
pub(super) struct TunnelGate {
    /// Destinations that packets never reach; `None` for the tunnel of a listener's device.
    pub(super) surroundings: Option<Box<Surroundings>>,
    /// The policy, where there is one.
    pub(super) packets: Option<Box<PacketGate>>,
}

impl TunnelGate {
    /// Whether a packet passes. `pool` is that of its device.
    pub(super) fn passes(
        &mut self,
        pool: Option<&PoolEntry>,
        arrived: ArrivedPacket<'_>,
        now: Instant,
    ) -> bool {
        let surroundings = self.surroundings.as_mut();
        let reaches = surroundings.is_none_or(|around| around.passes(pool, &arrived));
        // The packet belongs to a flow, and a rule may deny it, in any case.
        match self.packets.as_mut() {
            Some(gate) => gate.passes(arrived, reaches, now) && reaches,
            None => reaches,
        }
    }
}
