//! Which neighbour a packet is from: the epochs that this node gave out.

use std::collections::HashMap;

use super::{Engine, NeighbourId};

/// Epochs that one neighbour may be known by: two in use, two asked for, and one of our own that is asked for.
const EPOCHS: usize = 5;

/// Neighbours by what this node calls their keys. Those of keys that are gone stay until there are many of them.
#[derive(Debug, Default)]
pub(super) struct KnownEpochs(HashMap<u32, NeighbourId>);

impl Engine {
    /// The neighbour that this node has given such an epoch.
    pub(super) fn of_epoch(&self, epoch: u32) -> Option<NeighbourId> {
        let id = *self.keys.epochs.0.get(&epoch)?;
        self.has_epoch(id, epoch).then_some(id)
    }

    /// A neighbour is known by this epoch from now on.
    pub(super) fn note_epoch(&mut self, epoch: u32, id: NeighbourId) {
        // Epochs of keys that are gone are swept once they are as many as those in use: a constant cost for each handshake.
        if self.keys.epochs.0.len() >= 2 * EPOCHS * (self.neighbours.len() + 1) {
            let mut known = std::mem::take(&mut self.keys.epochs.0);
            known.retain(|epoch, id| self.has_epoch(*id, *epoch));
            self.keys.epochs.0 = known;
        }
        self.keys.epochs.0.insert(epoch, id);
    }

    fn has_epoch(&self, id: NeighbourId, epoch: u32) -> bool {
        let neighbour = &self.neighbours[id.0];
        neighbour.keys.epochs().any(|own| own == epoch)
    }
}
