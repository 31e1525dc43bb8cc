//! The keys that two neighbours share for a while.

use std::time::{Duration, Instant};

use bytes::Bytes;
use hermes_proto::custody::{CustodyPacket, ReplayWindow};

use crate::noise::Keys;

/// How long keys are used before new ones are asked for.
#[doc(alias = "bound")]
const LIFE: Duration = Duration::from_secs(3600);

/// Packets under the same keys before new ones are asked for: far below the bound of AES-GCM.
#[doc(alias = "bound")]
const PACKETS: u64 = 1 << 30;

/// Keys, their name on each side, and the numbers of packets.
pub struct Epoch {
    /// The name that this node gave them.
    pub own: u32,
    /// The name that the neighbour gave them.
    pub peer: u32,
    keys: Keys,
    next: u64,
    replay: ReplayWindow,
    born: Instant,
}

impl Epoch {
    /// New ones.
    pub fn new(own: u32, peer: u32, keys: Keys, now: Instant) -> Self {
        Self {
            own,
            peer,
            keys,
            next: 0,
            replay: ReplayWindow::default(),
            born: now,
        }
    }

    /// Whether others should take their place.
    pub fn is_old(&self, now: Instant) -> bool {
        now > self.born + LIFE || self.next > PACKETS
    }

    /// Opens a packet; `None` if it is not from the neighbour, or came before.
    pub fn open(&mut self, number: u64, sealed: &[u8]) -> Option<Bytes> {
        if !self.replay.is_new(number) {
            return None;
        }
        let plain = self.keys.open(number, sealed).ok()?;
        self.replay.mark(number).then_some(plain)
    }

    /// Seals frames under the next number; `None` if they are more than a packet holds.
    pub fn seal(&mut self, plain: &[u8]) -> Option<Bytes> {
        let number = self.next;
        let sealed = self.keys.seal(number, plain).ok()?;
        self.next += 1;
        let packet = CustodyPacket::Sealed {
            epoch: self.peer,
            number,
            sealed,
        };
        Some(packet.encode())
    }
}
