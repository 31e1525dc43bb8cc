//! Datagrams of the node: those that have come are decoded and handed to their neighbour; those that are due are taken by turns.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hermes_proto::custody::{CustodyFrame, CustodyPacket, ObjectPart, decode_frames};

use super::strangers::Unknown;
use super::{Came, Engine, Identity, NeighbourId};
use crate::neighbour::OwnKey;
use crate::noise::may_be_hello;

impl Engine {
    /// Handles a datagram that has just come.
    pub fn handle_datagram(&mut self, datagram: &Bytes, from: SocketAddr, now: Instant) {
        let came = Came {
            from,
            waited: Duration::ZERO,
            now,
        };
        self.handle_late_datagram(datagram, came);
    }

    /// Handles a datagram that may have waited in this machine.
    pub fn handle_late_datagram(&mut self, datagram: &Bytes, came: Came) {
        let Came { from, now, .. } = came;
        let Ok(packet) = CustodyPacket::decode(datagram) else {
            self.strangers.refused().malformed += 1;
            return;
        };
        match packet {
            CustodyPacket::Hello {
                epoch,
                cookie,
                message,
            } => {
                // A cookie comes before any cryptography, and costs no memory: a flood from forged addresses ends here.
                if !self.strangers.is_good(from, &cookie, now) {
                    let length = datagram.len();
                    self.strangers.retry(Unknown { epoch, length }, from, now);
                } else if may_be_hello(&message) {
                    self.handle_hello(epoch, &message, from, now);
                }
            }
            CustodyPacket::Retry { epoch, cookie } => {
                let known = self.neighbours.iter_mut();
                let mut known = known.filter(|known| known.address() == Some(from));
                known
                    .by_ref()
                    .for_each(|known| known.handle_retry(epoch, cookie, now));
            }
            CustodyPacket::Answer {
                epoch,
                own,
                message,
            } => {
                // Reading an answer costs a Diffie-Hellman, so strangers that guess an epoch share the budget of handshakes.
                if let Some(id) = self.of_epoch(epoch)
                    && self.admits(from, now)
                {
                    self.neighbours[id.0].handle_answer(epoch, own, &message, now);
                }
            }
            CustodyPacket::Sealed {
                epoch,
                number,
                sealed,
            } => match self.of_epoch(epoch) {
                Some(id) => self.handle_sealed(id, (epoch, number, &sealed), came),
                None => {
                    let length = datagram.len();
                    self.strangers.retry(Unknown { epoch, length }, from, now);
                }
            },
        }
    }

    fn handle_sealed(&mut self, id: NeighbourId, packet: (u32, u64, &Bytes), came: Came) {
        let Some(plain) = self.neighbours[id.0].open(packet, came.from, came.now) else {
            return;
        };
        let frames = decode_frames(&plain).unwrap_or_default();
        let frames = self.without_foreign(id, frames, came);
        self.handle_frames(id, frames, came);
    }

    pub(super) fn handle_frames(&mut self, id: NeighbourId, frames: Vec<CustodyFrame>, came: Came) {
        let offered: Vec<_> = frames.iter().filter_map(offered).collect();
        for frame in frames {
            if let CustodyFrame::Req { object, .. } = &frame
                && object.part == ObjectPart::Response
                && !offered.contains(&object.exchange)
            {
                self.confirm(id, object.exchange);
            }
            self.handle_frame(id, frame, came);
        }
    }

    /// The next datagram to send.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<(SocketAddr, Bytes)> {
        if let Some(due) = self.strangers.poll_answer() {
            return Some(due);
        }

        // By turns: neither can those who are not known stop the neighbours, nor the other way round.
        self.turns.is_strangers = !self.turns.is_strangers;
        if self.turns.is_strangers
            && let Some(due) = self.strangers.poll_retry()
        {
            return Some(due);
        }
        self.poll_neighbours(now)
            .or_else(|| self.strangers.poll_retry())
    }

    /// The next datagram for a neighbour.
    fn poll_neighbours(&mut self, now: Instant) -> Option<(SocketAddr, Bytes)> {
        let room = self.room_beside(self.held());
        let count = self.neighbours.len();
        let Identity {
            key,
            stamps,
            random,
        } = &mut self.identity;
        let mut draw = || {
            // xorshift64*, for jitter and names of epochs: nothing secret is drawn from it.
            *random ^= *random >> 12;
            *random ^= *random << 25;
            *random ^= *random >> 27;
            random.wrapping_mul(0x2545_f491_4f6c_dd1d)
        };

        for step in 1..=count {
            let index = (self.turns.neighbour + step) % count;
            let neighbour = &mut self.neighbours[index];
            let own = OwnKey {
                key,
                stamps: &mut *stamps,
            };
            let due = neighbour.poll_transmit(own, &mut draw, room, now);
            if due.is_some() {
                self.turns.neighbour = index;
                if let Some(epoch) = neighbour.keys.hello_epoch() {
                    self.note_epoch(epoch, NeighbourId(index));
                }
                return due;
            }
        }
        None
    }
}

/// The exchange that an OFFER is about.
fn offered(frame: &CustodyFrame) -> Option<[u8; 16]> {
    match frame {
        CustodyFrame::Offer { exchange, .. } => Some(*exchange),
        _ => None,
    }
}
