//! One neighbour: its keys, its network path, the objects that are asked of it, and those that are kept for it.

mod datagrams;
mod keys;
mod path;

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hermes_noise::PublicKey;
use hermes_proto::custody::{COOKIE, CustodyFrame, MAX_CUSTODY_DATAGRAM};

use crate::receiver::Receiver;
use crate::room::Room;
use crate::sender::Sender;
use crate::signs::NeighbourSigns;
use keys::NeighbourKeys;
pub use keys::{AcceptedHello, OwnKey};
use path::Path;

/// Frames that are neither asked for nor answers.
#[doc(alias = "bound")]
const CONTROL: usize = 64;

/// How long keys were silent before a RETRY ends them: the neighbour that has lost them answers nothing under them, and a stranger cannot end
/// keys that are in use.
const SILENT: Duration = Duration::from_millis(200);

/// How many exchanges are open.
#[derive(Default)]
struct OpenExchanges {
    /// Those that this node has begun.
    asking: usize,
    /// Those that the neighbour has begun.
    answering: usize,
}

/// How an exchange is offered.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// How long it is to be kept, in seconds.
    pub keep: u32,
    /// Whether it may be acted on once only.
    pub once: bool,
}

/// One neighbour.
pub struct Neighbour {
    /// The keys that this node shares with it.
    pub keys: NeighbourKeys,
    path: Option<Path>,
    control: VecDeque<CustodyFrame>,
    open: OpenExchanges,
    /// The terms of exchanges that are offered to it.
    pub terms: HashMap<[u8; 16], Terms>,
    /// The objects that are asked of it.
    pub receiver: Receiver,
    /// The objects that are kept for it.
    pub sender: Sender,
}

impl Neighbour {
    /// A neighbour without shared keys, at this address, if it is known.
    pub fn new(public: PublicKey, address: Option<SocketAddr>, now: Instant) -> Self {
        Self {
            keys: NeighbourKeys::new(public),
            path: address.map(|address| Path::new(address, true)),
            control: VecDeque::new(),
            open: OpenExchanges::default(),
            terms: HashMap::new(),
            receiver: Receiver::new(now),
            sender: Sender::default(),
        }
    }

    /// Moves it to this address, which the operator or another process has named: there it need not show any more that it receives.
    pub fn lead(&mut self, address: SocketAddr) {
        match &mut self.path {
            Some(path) if path.address == address => path.validated = true,
            _ => self.path = Some(Path::new(address, true)),
        }
    }

    /// Another process of this node, which has keys with the neighbour, has heard it at this address.
    pub fn is_said_to_be_at(&mut self, from: SocketAddr, bytes: usize, now: Instant) {
        match &mut self.path {
            None => self.came_from(from, bytes, now),
            // A HELLO has to fit into what may be said there before it is validated: without these bytes, it might never.
            Some(path) if path.address == from => path.heard += bytes as u64,
            Some(_) => {}
        }
    }

    /// Its address, once it has shown that it receives there.
    pub fn validated_address(&self) -> Option<SocketAddr> {
        let path = self.path.filter(|path| path.validated)?;
        Some(path.address)
    }

    /// Its address, if that is known.
    pub fn address(&self) -> Option<SocketAddr> {
        self.path.map(|path| path.address)
    }

    /// The number of open exchanges that the neighbour has begun, or else this node.
    pub fn count(&mut self, answers: bool) -> &mut usize {
        match answers {
            true => &mut self.open.answering,
            false => &mut self.open.asking,
        }
    }

    /// Its signs of life.
    pub fn signs(&self, now: Instant) -> NeighbourSigns {
        let since = |at: Instant| now.saturating_duration_since(at);
        let unanswered = self.receiver.unanswered(now);
        NeighbourSigns {
            address: self.address(),
            heard: self.heard().map(since),
            unanswered,
            is_asked_to_prove: self.keys.is_asked_to_prove(),
            round_trip: self.receiver.window().measured(),
            asking: self.open.asking,
            answering: self.open.answering,
        }
    }

    /// Queues a frame that is neither a question nor an answer.
    pub fn tell(&mut self, frame: CustodyFrame) {
        // Beyond the bound it is dropped: each of these frames is sent again when it is asked for again.
        if self.control.len() < CONTROL {
            self.control.push_back(frame);
        }
    }

    /// Whether nothing was heard for so long that it may have forgotten its keys.
    pub fn is_silent(&self, now: Instant) -> bool {
        let heard = self.heard();
        heard.is_none_or(|heard| now.saturating_duration_since(heard) >= SILENT)
    }

    /// When a packet from its present address was opened last.
    pub fn heard(&self) -> Option<Instant> {
        self.path?.heard_at
    }

    /// The neighbour asks for keys, as was checked. A HELLO moves it to no other address: someone else may have repeated it from there.
    pub fn handle_hello(&mut self, accepted: AcceptedHello, from: SocketAddr) {
        self.path.get_or_insert(Path::new(from, true));
        self.keys.handle_hello(accepted, from);
    }

    /// The neighbour asks for a cookie, or has lost the keys in use.
    pub fn handle_retry(&mut self, epoch: u32, cookie: [u8; COOKIE], now: Instant) {
        let is_silent = self.is_silent(now);
        self.keys.handle_retry(epoch, cookie, is_silent, now);
    }

    /// The neighbour answers a HELLO. Whether there are new keys.
    pub fn handle_answer(&mut self, epoch: u32, peer: u32, message: &[u8], now: Instant) -> bool {
        let has_keys = self.keys.handle_answer(epoch, peer, message, now);
        if has_keys {
            self.receiver.hurry(now);
        }
        has_keys
    }

    /// Opens a packet from it.
    pub fn open(
        &mut self,
        packet: (u32, u64, &Bytes),
        from: SocketAddr,
        now: Instant,
    ) -> Option<Bytes> {
        // Only a packet that opens counts as heard from there: an address is easily forged.
        let plain = self.keys.unseal(packet)?;
        self.came_from(from, packet.2.len(), now);
        Some(plain)
    }

    /// The neighbour repeats the token of a challenge: it receives at its new address.
    pub fn handle_response(&mut self, token: [u8; 8]) {
        if let Some(path) = &mut self.path {
            path.validated |= path.challenge == Some(token);
        }
    }

    /// Asks at once, as the neighbour may be in reach now.
    pub fn hurry(&mut self, now: Instant) {
        self.keys.hurry(now);
        self.receiver.hurry(now);
    }

    /// The next datagram for it, and where it goes.
    pub fn poll_transmit(
        &mut self,
        own: OwnKey<'_>,
        draw: &mut dyn FnMut() -> u64,
        room: Room,
        now: Instant,
    ) -> Option<(SocketAddr, Bytes)> {
        let path = self.path?;
        if !path.may_say(MAX_CUSTODY_DATAGRAM) {
            return None;
        }

        // Keys before frames: where they are old, a HELLO goes out beside the packets under them.
        let hello = match self.asks_for_keys(now) {
            true => self.keys.poll_hello(own, draw, now),
            false => None,
        };
        let datagram = hello.or_else(|| self.poll_frames(draw, room, now))?;
        if let Some(path) = &mut self.path {
            path.said += datagram.len() as u64;
        }
        Some((path.address, datagram))
    }

    /// When [`poll_transmit`](Self::poll_transmit) has something to say at the latest. Where nothing may be said to an address before more
    /// comes from there, time changes nothing.
    pub fn timeout(&self, now: Instant) -> Option<Instant> {
        self.path
            .filter(|path| path.may_say(MAX_CUSTODY_DATAGRAM))?;
        let hello = self.keys.hello_due();
        let hello = hello.filter(|_| self.asks_for_keys(now));
        let asks = self.receiver.timeout(now);
        let asks = asks.filter(|_| self.keys.current().is_some());
        hello.into_iter().chain(asks).min()
    }

    fn asks_for_keys(&self, now: Instant) -> bool {
        // Old keys are not renewed for their own sake: an idle neighbour hears nothing.
        self.keys.is_old(now) && self.has_something_to_say()
    }

    fn has_something_to_say(&self) -> bool {
        self.receiver.has_work() || self.sender.has_replies() || !self.control.is_empty()
    }

    fn came_from(&mut self, from: SocketAddr, bytes: usize, now: Instant) {
        // A packet that opens from another address moves the neighbour there at once; little goes there before it is validated.
        if self.address() != Some(from) {
            let mut path = Path::new(from, false);
            // Without random bytes no address is validated, and little is said to it.
            path.challenge = path::drawn();
            self.path = Some(path);
        }
        let is_answered = self.keys.has_answered_at(from);
        let Some(path) = &mut self.path else { return };
        path.heard += bytes as u64;
        path.heard_at = Some(now);
        path.validated |= is_answered;
        if path.validated {
            return;
        }

        // Again for each packet, as it or its answer may be lost, and once a datagram: it stands in the queue once.
        let challenge = path.challenge.map(CustodyFrame::Challenge);
        let new = challenge.filter(|challenge| !self.control.contains(challenge));
        if let Some(challenge) = new {
            self.tell(challenge);
        }
    }
}
