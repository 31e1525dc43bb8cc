//! By which index a datagram finds its peer: each session and each open handshake has one, which is random.

use std::collections::HashMap;

use aws_lc_rs::rand::fill;

/// A peer of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerId(pub(crate) u32);

/// The indices in use. Bounded by the peers: each has at most three sessions and one open handshake.
#[derive(Debug, Default)]
pub(crate) struct Indices {
    peers: HashMap<u32, PeerId>,
}

impl Indices {
    /// A new one. `None`: the system gives no random bytes.
    pub(crate) fn take(&mut self, peer: PeerId) -> Option<u32> {
        loop {
            let mut bytes = [0; 4];
            // Random, as a counter would tell observers how many sessions there are, and let them guess indices of others.
            fill(&mut bytes).ok()?;
            let index = u32::from_le_bytes(bytes);
            if let std::collections::hash_map::Entry::Vacant(free) = self.peers.entry(index) {
                free.insert(peer);
                return Some(index);
            }
        }
    }

    /// The peer that an index belongs to.
    pub(crate) fn peer(&self, index: u32) -> Option<PeerId> {
        self.peers.get(&index).copied()
    }

    /// They are in use no more.
    pub(crate) fn retire(&mut self, indices: impl IntoIterator<Item = u32>) {
        for index in indices {
            self.peers.remove(&index);
        }
    }

    /// How many are in use.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.peers.len()
    }
}
