//! Packets that wait to be written.

use std::collections::VecDeque;

use crate::MAX_OUTGOING;

/// At most [`MAX_OUTGOING`] packets.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    packets: VecDeque<Vec<u8>>,
}

impl Outgoing {
    /// Whether one more fits.
    pub(crate) fn has_room(&self) -> bool {
        self.packets.len() < MAX_OUTGOING
    }

    /// Adds the pieces of one packet, unless there are too many. Returns whether it did.
    pub(crate) fn push_all(&mut self, pieces: Vec<Vec<u8>>) -> bool {
        let has_room = self.packets.len() + pieces.len() <= MAX_OUTGOING;
        if has_room {
            self.packets.extend(pieces);
        }
        has_room
    }

    /// Whether no packet waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Adds one, unless there are too many. Returns whether it did.
    pub(crate) fn push(&mut self, packet: Vec<u8>) -> bool {
        let has_room = self.has_room();
        if has_room {
            self.packets.push_back(packet);
        }
        has_room
    }

    /// Takes the next one.
    pub(crate) fn pop(&mut self) -> Option<Vec<u8>> {
        self.packets.pop_front()
    }
}
