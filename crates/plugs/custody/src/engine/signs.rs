//! What is to be seen of a neighbour.

use std::net::SocketAddr;
use std::time::Instant;

use hermes_noise::PublicKey;

use super::{Engine, NeighbourId};
use crate::signs::NeighbourSigns;

impl Engine {
    /// How a neighbour is.
    pub fn signs(&self, id: NeighbourId, now: Instant) -> Option<NeighbourSigns> {
        self.neighbours.get(id.0).map(|known| known.signs(now))
    }

    /// Where a HELLO came from whose key is no neighbour's, the last one since this was asked, and the key.
    pub fn take_unknown(&mut self) -> Option<(SocketAddr, PublicKey)> {
        self.strangers.unknown.take()
    }
}
