//! Packets that wait for a session.

use std::collections::VecDeque;

/// Packets that wait for the keys of a peer; the oldest are dropped.
#[doc(alias = "bound")]
const MOST_PACKETS: usize = 64;

/// Bytes that wait for the keys of a peer.
#[doc(alias = "bound")]
const MOST_BYTES: usize = 128 * 1024;

/// Packets, in their order.
#[derive(Debug, Default)]
pub(crate) struct WaitingPackets {
    packets: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl WaitingPackets {
    /// Lets one wait; says how many are lost by that.
    pub(crate) fn push(&mut self, packet: &[u8]) -> u64 {
        // Alone too large: otherwise it would empty the queue and then be dropped itself.
        if packet.len() > MOST_BYTES {
            return 1;
        }
        self.packets.push_back(packet.to_vec());
        self.bytes += packet.len();

        let mut lost = 0;
        // The oldest go first: what waits longest is repeated by its sender by now.
        while self.packets.len() > MOST_PACKETS || self.bytes > MOST_BYTES {
            drop(self.pop());
            lost += 1;
        }
        lost
    }

    /// The oldest.
    pub(crate) fn pop(&mut self) -> Option<Vec<u8>> {
        let packet = self.packets.pop_front()?;
        self.bytes -= packet.len();
        Some(packet)
    }

    /// Drops all waiting packets; returns their number.
    pub(crate) fn clear(&mut self) -> u64 {
        let lost = self.packets.len() as u64;
        *self = Self::default();
        lost
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_dropped_first_and_counted() {
        let mut waiting = WaitingPackets::default();
        let lost: u64 = (0..=MOST_PACKETS as u8).map(|at| waiting.push(&[at])).sum();
        assert_eq!(lost, 1);
        assert_eq!(waiting.pop(), Some(vec![1]));
        assert_eq!(waiting.push(&vec![0; MOST_BYTES]), MOST_PACKETS as u64 - 1);
        assert_eq!(waiting.push(&vec![0; MOST_BYTES + 1]), 1);
        assert_eq!(waiting.clear(), 1);
        assert!(waiting.is_empty());
    }
}
