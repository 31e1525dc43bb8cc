//! The signs of life of neighbours, for logs and status.

use std::net::SocketAddr;
use std::time::Instant;

use hermes_noise::PublicKey;

use super::{Engine, NeighbourId};
use crate::signs::NeighbourSigns;

impl Engine {
    /// The signs of life of a neighbour.
    pub fn signs(&self, id: NeighbourId, now: Instant) -> Option<NeighbourSigns> {
        self.neighbours.get(id.0).map(|known| known.signs(now))
    }

    /// The source and the key of the last HELLO with an unknown key since the last call.
    pub fn take_unknown(&mut self) -> Option<(SocketAddr, PublicKey)> {
        self.strangers.unknown.take()
    }
}
