//! Other processes that have the node's key and its socket, as a process and its successor have: each has its own keys with a neighbour, and its
//! own exchanges.
//!
//! A neighbour knows one node, and sends everything under the newest keys. So a datagram goes to the process that has its keys, and its
//! frames go on, opened, to the process that has their exchange.

use std::net::SocketAddr;
use std::time::Instant;

use bytes::{BufMut, Bytes, BytesMut};
use hermes_noise::PublicKey;
use hermes_proto::custody::{CustodyFrame, CustodyPacket, decode_frames};

use super::{Came, Engine, ExchangeKey, NeighbourId};

/// The first byte of a message with opened frames. No datagram of custody begins with it.
const OPENED: u8 = 0;

/// Bytes of a key.
const KEY: usize = 32;

/// Which process takes a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatagramProcess {
    /// This one.
    Own,
    /// The one that has keys of this name.
    OfKeys(u32),
    /// The one that takes those who come.
    Newest,
}

/// Where a neighbour is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Whereabouts {
    /// Its key.
    pub key: PublicKey,
    /// Its address, at which it has shown that it receives.
    pub address: SocketAddr,
    /// It was heard there lately.
    pub is_heard: bool,
}

/// Frames of a neighbour for an exchange that this process does not have.
#[derive(Debug)]
pub struct ForeignFrames {
    key: ExchangeKey,
    frames: Vec<CustodyFrame>,
    /// Their bytes.
    length: usize,
    came: Came,
}

impl Engine {
    /// Whether other processes may have the node's socket, now or later: then frames of exchanges that this process does not have wait
    /// for [`poll_foreign`](Self::poll_foreign).
    pub fn set_shared(&mut self, is_shared: bool) {
        self.keys.is_shared = is_shared;
    }

    /// Which process takes a datagram that came by the socket.
    pub fn process_of(&self, datagram: &Bytes) -> DatagramProcess {
        let epoch = match CustodyPacket::decode(datagram) {
            Ok(CustodyPacket::Hello { message, .. }) => {
                let mut neighbours = self.neighbours.iter();
                // A HELLO that was answered here has keys here: another process would make a second pair for it.
                return match neighbours.any(|known| known.keys.has_answered(&message)) {
                    true => DatagramProcess::Own,
                    false => DatagramProcess::Newest,
                };
            }
            Ok(CustodyPacket::Retry { epoch, .. }) => {
                let mut neighbours = self.neighbours.iter();
                if neighbours.any(|known| known.keys.may_be_asked_again(epoch)) {
                    return DatagramProcess::Own;
                }
                epoch
            }
            Ok(CustodyPacket::Answer { epoch, .. } | CustodyPacket::Sealed { epoch, .. }) => epoch,
            Err(_) => return DatagramProcess::Own,
        };
        match self.of_epoch(epoch) {
            Some(_) => DatagramProcess::Own,
            None => DatagramProcess::OfKeys(epoch),
        }
    }

    /// The next frames of an exchange that this process does not have.
    pub fn poll_foreign(&mut self) -> Option<ForeignFrames> {
        self.keys.foreign.pop_front()
    }

    /// Frames that another process has opened; `None` if the message is another, or of no neighbour.
    pub fn foreign(&self, bytes: &[u8], came: Came) -> Option<ForeignFrames> {
        let (kind, rest) = bytes.split_first()?;
        let (key, rest) = rest.split_first_chunk::<KEY>()?;
        let id = *self.keys.known.get(&PublicKey(*key))?;
        let frames = decode_frames(&Bytes::copy_from_slice(rest)).ok()?;
        let exchange = frames.first().and_then(exchange)?;
        let key = ExchangeKey {
            neighbour: id,
            exchange,
        };
        (*kind == OPENED).then_some(ForeignFrames {
            key,
            frames,
            length: rest.len(),
            came,
        })
    }

    /// Whether this process has the exchange.
    pub fn has(&self, foreign: &ForeignFrames) -> bool {
        self.is_own(&foreign.key)
    }

    /// Handles frames of another process, as if they had come by the socket.
    pub fn handle_foreign(&mut self, foreign: ForeignFrames) {
        let ForeignFrames {
            key,
            frames,
            length,
            came,
        } = foreign;
        self.neighbours[key.neighbour.0].is_said_to_be_at(came.from, length, came.now);
        self.handle_frames(key.neighbour, frames, came);
    }

    /// The message that takes frames to another process.
    pub fn encode_foreign(&self, foreign: &ForeignFrames) -> Bytes {
        let mut message = BytesMut::new();
        message.put_u8(OPENED);
        message.put_slice(&self.neighbours[foreign.key.neighbour.0].keys.public().0);
        for frame in &foreign.frames {
            frame.encode(&mut message);
        }
        message.freeze()
    }

    /// Where neighbours are, as far as that is known.
    pub fn whereabouts(&self, now: Instant) -> Vec<Whereabouts> {
        let known = self.neighbours.iter();
        let known = known.filter_map(|known| {
            Some(Whereabouts {
                key: known.keys.public(),
                address: known.validated_address()?,
                is_heard: !known.is_silent(now),
            })
        });
        known.collect()
    }

    /// Takes the address of a neighbour from another process, at which the neighbour has shown that process that it receives. An address
    /// where this process hears the neighbour itself counts more.
    pub fn handle_whereabouts(&mut self, told: &Whereabouts, now: Instant) {
        let Some(id) = self.keys.known.get(&told.key) else {
            return;
        };
        let neighbour = &mut self.neighbours[id.0];
        let is_better = told.is_heard && neighbour.is_silent(now);
        let address = neighbour.address();
        if is_better || address.is_none_or(|known| known == told.address) {
            neighbour.lead(told.address);
        }
    }

    /// The frames of a neighbour that are for this process. The others wait for [`poll_foreign`](Self::poll_foreign).
    pub(super) fn without_foreign(
        &mut self,
        id: NeighbourId,
        frames: Vec<CustodyFrame>,
        came: Came,
    ) -> Vec<CustodyFrame> {
        if !self.keys.is_shared {
            return frames;
        }
        let mut own = Vec::new();
        for frame in frames {
            let key = exchange(&frame).map(|exchange| ExchangeKey {
                neighbour: id,
                exchange,
            });
            // An exchange that no process has comes back to this one, and is begun here.
            match key.filter(|key| !self.is_own(key)) {
                None => own.push(frame),
                Some(key) => self.put_aside(key, frame, came),
            }
        }
        own
    }

    fn is_own(&self, key: &ExchangeKey) -> bool {
        self.exchanges.contains_key(key) || self.over.has(key)
    }

    fn put_aside(&mut self, key: ExchangeKey, frame: CustodyFrame, came: Came) {
        // Drained after each datagram (`crate::company`): the list is as long as the frames of one datagram.
        match self.keys.foreign.iter_mut().find(|known| known.key == key) {
            Some(known) => known.frames.push(frame),
            None => self.keys.foreign.push_back(ForeignFrames {
                key,
                frames: vec![frame],
                length: 0,
                came,
            }),
        }
    }
}

impl Whereabouts {
    /// The message to another process, beside the address.
    pub fn encode(&self) -> [u8; KEY + 1] {
        let mut bytes = [0; KEY + 1];
        bytes[..KEY].copy_from_slice(&self.key.0);
        bytes[KEY] = u8::from(self.is_heard);
        bytes
    }

    /// Decodes that message; `None` if it is malformed.
    pub fn decode(bytes: &[u8], address: SocketAddr) -> Option<Self> {
        let (key, rest) = bytes.split_first_chunk::<KEY>()?;
        let [is_heard] = rest else { return None };
        Some(Self {
            key: PublicKey(*key),
            address,
            is_heard: *is_heard != 0,
        })
    }
}

impl ForeignFrames {
    /// The exchange.
    pub fn exchange(&self) -> [u8; 16] {
        self.key.exchange
    }

    /// Where it came from.
    pub fn from(&self) -> SocketAddr {
        self.came.from
    }
}

/// The exchange that a frame is about.
fn exchange(frame: &CustodyFrame) -> Option<[u8; 16]> {
    match frame {
        CustodyFrame::Req { object, .. }
        | CustodyFrame::Data { object, .. }
        | CustodyFrame::Status { object, .. }
        | CustodyFrame::Err { object, .. }
        | CustodyFrame::Fin { object, .. } => Some(object.exchange),
        CustodyFrame::Offer { exchange, .. } => Some(*exchange),
        CustodyFrame::Challenge(_) | CustodyFrame::Response(_) => None,
    }
}
