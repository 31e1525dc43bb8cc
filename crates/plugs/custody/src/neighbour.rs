//! One neighbour: keys, address, and what goes into datagrams.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use hermes_proto::custody::{
    COOKIE, CustodyFrame, CustodyPacket, MAX_CUSTODY_DATAGRAM, ObjectId, ObjectPart, PACKET_HEADER,
};

use crate::epoch::Epoch;
use crate::noise::{Handshake, Initiation, Stamp, initiate};
use crate::receiver::{PROBE, Receiver};
use crate::room::Room;
use crate::sender::Sender;
use crate::signs::NeighbourSigns;
use crate::stamps::Stamps;
use crate::window::PIECE;
use hermes_noise::{PrivateKey, PublicKey, TAG};

/// Bytes of frames in a datagram.
const ROOM: usize = MAX_CUSTODY_DATAGRAM - PACKET_HEADER - TAG;

/// Room for any frame but DATA, in bytes.
const FRAME: usize = 70;

/// Room for the fields of DATA beside its bytes: a name, four numbers, a length and two bytes.
const FIELDS: usize = 17 + 4 * 8 + 2 + 2;

const _: () = assert!(ROOM >= FIELDS + PIECE as usize);

/// REQs in one datagram: a loss of it should not stop everything.
const ASKS: usize = 8;

/// Frames that are neither asked for nor answers.
#[doc(alias = "bound")]
const CONTROL: usize = 64;

/// How long a HELLO is repeated as it is; then a fresh one is made.
#[doc(alias = "bound")]
const HELLO_AGE: Duration = Duration::from_secs(10);

/// Bytes that go to an address that was not shown to be the neighbour's, for each byte that came from there.
#[doc(alias = "bound")]
pub const AMPLIFICATION: u64 = 3;

/// A handshake that was begun.
struct Hello {
    own: u32,
    initiation: Option<Initiation>,
    message: Bytes,
    begun: Instant,
    at: Instant,
}

/// Addresses that a HELLO is remembered to have come from: one that is forgotten is asked to prove itself by a challenge.
#[doc(alias = "bound")]
const ADDRESSES: usize = 4;

/// How long keys were silent before a RETRY ends them: the neighbour that has lost them answers nothing under them, and no one else can end
/// keys that are in use.
const SILENT: Duration = Duration::from_millis(200);

/// A HELLO that was answered.
struct Answered {
    hello: Bytes,
    answer: Bytes,
    stamp: Stamp,
    /// Where it came from, the latest last; a cookie has shown that someone receives there.
    from: VecDeque<SocketAddr>,
}

/// Keys that a HELLO asked for, until something comes under them.
#[derive(Default)]
struct PendingEpoch {
    epoch: Option<Epoch>,
    answered: Option<Answered>,
}

/// What the neighbour has asked for.
#[derive(Default)]
struct PendingEpochs {
    /// By its newest HELLO.
    newest: PendingEpoch,
    /// By a HELLO with an older stamp: someone has repeated it, or the neighbour's clock was set back. It takes no place from the newest.
    doubtful: PendingEpoch,
}

/// What the neighbour wants to see, so that a HELLO of this node is read.
#[derive(Default)]
struct PeerCookie {
    value: [u8; COOKIE],
    /// When it wanted to see it.
    at: Option<Instant>,
}

/// How many exchanges are open.
#[derive(Default)]
struct OpenExchanges {
    /// Those that this node has begun.
    asking: usize,
    /// Those that the neighbour has begun.
    answering: usize,
}

/// What an accepted HELLO leads to.
pub struct AcceptedHello {
    /// The HELLO's message.
    pub hello: Bytes,
    /// When it was made.
    pub stamp: Stamp,
    /// The keys.
    pub epoch: Epoch,
    /// The datagram that answers it.
    pub answer: Bytes,
}

/// Where a neighbour is.
#[derive(Debug, Clone, Copy)]
struct Path {
    address: SocketAddr,
    /// It was written by the operator, or the neighbour has shown that it receives there.
    validated: bool,
    /// Bytes from there and to there, until it is validated.
    heard: u64,
    said: u64,
    /// When something came from there last.
    heard_at: Option<Instant>,
    challenge: Option<[u8; 8]>,
}

/// What handshakes of this node are made with.
pub struct OwnKey<'a> {
    /// Its key.
    pub key: &'a PrivateKey,
    /// When they are made.
    pub stamps: &'a mut Stamps,
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
    public: PublicKey,
    path: Option<Path>,
    /// The keys in use.
    current: Option<Epoch>,
    /// Those that were asked for.
    pending: PendingEpochs,
    /// Those before, for what is still on its way.
    previous: Option<Epoch>,
    hello: Option<Hello>,
    cookie: PeerCookie,
    control: VecDeque<CustodyFrame>,
    open: OpenExchanges,
    /// What is offered to it.
    pub terms: HashMap<[u8; 16], Terms>,
    /// What is asked of it.
    pub receiver: Receiver,
    /// What is kept for it.
    pub sender: Sender,
}

impl Neighbour {
    /// One that is reached at this address, if it is known.
    pub fn new(public: PublicKey, address: Option<SocketAddr>, now: Instant) -> Self {
        Self {
            public,
            path: address.map(|address| Path::new(address, true)),
            current: None,
            pending: PendingEpochs::default(),
            previous: None,
            hello: None,
            cookie: PeerCookie::default(),
            control: VecDeque::new(),
            open: OpenExchanges::default(),
            terms: HashMap::new(),
            receiver: Receiver::new(now),
            sender: Sender::default(),
        }
    }

    /// It is at this address, as is said of it.
    pub fn lead(&mut self, address: SocketAddr) {
        if self.address() != Some(address) {
            self.path = Some(Path::new(address, true));
        }
    }

    /// Its key.
    pub fn key(&self) -> PublicKey {
        self.public
    }

    /// Something of it came from there to another process, which has keys with it.
    pub fn is_said_to_be_at(&mut self, from: SocketAddr, bytes: usize, now: Instant) {
        if self.path.is_none() {
            self.came_from(from, bytes, now);
        }
    }

    /// Where it is, once it has shown that it receives there.
    pub fn validated_address(&self) -> Option<SocketAddr> {
        let path = self.path.filter(|path| path.validated)?;
        Some(path.address)
    }

    /// Where it is, if that is known.
    pub fn address(&self) -> Option<SocketAddr> {
        self.path.map(|path| path.address)
    }

    /// How many exchanges it has begun, or else this node.
    pub fn count(&mut self, answers: bool) -> &mut usize {
        match answers {
            true => &mut self.open.answering,
            false => &mut self.open.asking,
        }
    }

    /// How it is.
    pub fn signs(&self, now: Instant) -> NeighbourSigns {
        let since = |at: Instant| now.saturating_duration_since(at);
        let unanswered = self.receiver.unanswered(now);
        let cookie = self.cookie.at.filter(|_| self.hello.is_some());
        NeighbourSigns {
            address: self.address(),
            heard: self.heard().map(since),
            unanswered,
            is_asked_to_prove: cookie.is_some(),
            round_trip: self.receiver.window().measured(),
            asking: self.open.asking,
            answering: self.open.answering,
        }
    }

    /// What this node will call the keys that it asks for.
    pub fn hello_epoch(&self) -> Option<u32> {
        self.hello.as_ref().map(|hello| hello.own)
    }

    /// Says something when it can be said.
    pub fn tell(&mut self, frame: CustodyFrame) {
        if self.control.len() < CONTROL {
            self.control.push_back(frame);
        }
    }

    /// The epochs that this node expects packets under.
    pub fn epochs(&self) -> impl Iterator<Item = u32> + '_ {
        let epochs = [
            &self.current,
            &self.pending.newest.epoch,
            &self.pending.doubtful.epoch,
            &self.previous,
        ];
        let hello = self.hello.as_ref().map(|hello| hello.own);
        epochs
            .into_iter()
            .flatten()
            .map(|epoch| epoch.own)
            .chain(hello)
    }

    /// The answer to a HELLO that was answered before.
    pub fn answer_again(&mut self, hello: &Bytes, from: SocketAddr) -> Option<Bytes> {
        let pending = [&mut self.pending.newest, &mut self.pending.doubtful];
        let mut known = pending
            .into_iter()
            .filter_map(|pending| pending.answered.as_mut());
        let known = known.find(|known| known.hello == *hello)?;
        known.came_from(from);
        Some(known.answer.clone())
    }

    /// Whether a HELLO was answered before.
    pub fn has_answered(&self, hello: &Bytes) -> bool {
        let pending = [&self.pending.newest, &self.pending.doubtful];
        let mut answered = pending
            .into_iter()
            .filter_map(|pending| pending.answered.as_ref());
        answered.any(|known| known.hello == *hello)
    }

    /// Whether a RETRY with this name of keys may be about what this node said.
    pub fn may_be_asked_again(&self, epoch: u32) -> bool {
        self.hello_epoch() == Some(epoch) || self.is_current(epoch)
    }

    /// It asks for keys, as was checked. That it has left the address where it was is not believed before it uses them: someone else may have
    /// repeated its words.
    pub fn handle_hello(&mut self, accepted: AcceptedHello, from: SocketAddr) {
        self.path.get_or_insert(Path::new(from, true));
        let latest = self.pending.newest.answered.as_ref();
        let is_newest = latest.is_none_or(|latest| latest.stamp < accepted.stamp);
        let AcceptedHello {
            hello,
            stamp,
            epoch,
            answer,
        } = accepted;
        let pending = match is_newest {
            true => &mut self.pending.newest,
            false => &mut self.pending.doubtful,
        };
        *pending = PendingEpoch {
            epoch: Some(epoch),
            answered: Some(Answered {
                hello,
                answer,
                stamp,
                from: VecDeque::from([from]),
            }),
        };
    }

    /// It wants to see a cookie; or it does not know the keys any more.
    pub fn handle_retry(&mut self, epoch: u32, cookie: [u8; COOKIE], now: Instant) {
        if let Some(hello) = &mut self.hello {
            // One for each that was sent, so that no one else can make us send more.
            if hello.own == epoch && self.cookie.value != cookie {
                self.cookie.value = cookie;
                self.cookie.at = Some(now);
                hello.at = now;
            }
        } else if self.is_current(epoch) && self.is_silent(now) {
            self.cookie.value = cookie;
            self.hello = None;
            self.previous = self.current.take();
        }
    }

    /// It answers a HELLO. Whether there are keys now.
    pub fn handle_answer(&mut self, epoch: u32, peer: u32, message: &[u8], now: Instant) -> bool {
        let Some(hello) = self.hello.as_mut().filter(|hello| hello.own == epoch) else {
            return false;
        };
        // Someone else's answer changes nothing: the neighbour's is still to come.
        let is_answer = hello
            .initiation
            .as_mut()
            .is_some_and(|initiation| initiation.read(message).is_ok());
        if !is_answer {
            return false;
        }

        self.cookie.at = None;
        let initiation = self.hello.take().and_then(|hello| hello.initiation);
        let Some(Ok(keys)) = initiation.map(Initiation::keys) else {
            return false;
        };
        self.previous = self.current.take();
        self.current = Some(Epoch::new(epoch, peer, keys, now));
        self.receiver.hurry(now);
        true
    }

    fn is_current(&self, epoch: u32) -> bool {
        let current = self.current.as_ref();
        current.is_some_and(|known| known.peer == epoch)
    }

    /// Whether nothing was heard for so long that it may have forgotten its keys.
    pub fn is_silent(&self, now: Instant) -> bool {
        let heard = self.heard();
        heard.is_none_or(|heard| now.saturating_duration_since(heard) >= SILENT)
    }

    /// When it was heard last, where it is now.
    pub fn heard(&self) -> Option<Instant> {
        self.path?.heard_at
    }

    /// Opens a packet from it.
    pub fn open(
        &mut self,
        packet: (u32, u64, &Bytes),
        from: SocketAddr,
        now: Instant,
    ) -> Option<Bytes> {
        let plain = self.unseal(packet)?;
        self.came_from(from, packet.2.len(), now);
        Some(plain)
    }

    fn unseal(&mut self, (epoch, number, sealed): (u32, u64, &Bytes)) -> Option<Bytes> {
        let is_newest = self.pending.newest.is_of(epoch);
        if is_newest || self.pending.doubtful.is_of(epoch) {
            let pending = match is_newest {
                true => &mut self.pending.newest,
                false => &mut self.pending.doubtful,
            };
            let plain = pending.epoch.as_mut()?.open(number, sealed)?;
            // Something came under the new keys: the neighbour has them.
            self.previous = self.current.take();
            self.current = pending.epoch.take();
            self.hello = None;
            if !is_newest {
                // Its clock was set back: from now on the older stamp is its newest.
                self.pending.newest = std::mem::take(&mut self.pending.doubtful);
            }
            return Some(plain);
        }

        let known = [self.current.as_mut(), self.previous.as_mut()];
        let known = known.into_iter().flatten().find(|known| known.own == epoch);
        known?.open(number, sealed)
    }

    /// It repeats what was asked of its new address.
    pub fn handle_response(&mut self, token: [u8; 8]) {
        if let Some(path) = &mut self.path {
            path.validated |= path.challenge == Some(token);
        }
    }

    /// It may be in reach now: what is due soon is due at once.
    pub fn hurry(&mut self, now: Instant) {
        if let Some(hello) = &mut self.hello {
            hello.at = now;
        }
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

        let datagram = self
            .poll_handshake(own, draw, now)
            .or_else(|| self.poll_frames(draw, room, now))?;
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
        let hello = self.hello.as_ref().map(|hello| hello.at);
        let hello = hello.filter(|_| self.asks_for_keys(now));
        let asks = self.receiver.timeout(now);
        let asks = asks.filter(|_| self.current.is_some());
        hello.into_iter().chain(asks).min()
    }

    fn poll_handshake(
        &mut self,
        own: OwnKey<'_>,
        draw: &mut dyn FnMut() -> u64,
        now: Instant,
    ) -> Option<Bytes> {
        if !self.asks_for_keys(now) {
            return None;
        }

        let stale = self
            .hello
            .as_ref()
            .is_none_or(|hello| now > hello.begun + HELLO_AGE);
        if stale {
            let stamp = own.stamps.next(now);
            let (initiation, message) = initiate(own.key, &self.public, stamp).ok()?;
            self.hello = Some(Hello {
                own: draw() as u32,
                initiation: Some(initiation),
                message,
                begun: now,
                at: now,
            });
        }

        let hello = self.hello.as_mut().filter(|hello| hello.at <= now)?;
        hello.at = now + PROBE.mul_f64(0.8 + 0.4 * fraction(draw()));
        let packet = CustodyPacket::Hello {
            epoch: hello.own,
            cookie: self.cookie.value,
            message: hello.message.clone(),
        };
        Some(packet.encode())
    }

    fn asks_for_keys(&self, now: Instant) -> bool {
        let is_needed = self.current.as_ref().is_none_or(|keys| keys.is_old(now));
        is_needed && self.has_something_to_say()
    }

    fn has_something_to_say(&self) -> bool {
        self.receiver.has_work() || self.sender.has_replies() || !self.control.is_empty()
    }

    fn poll_frames(
        &mut self,
        draw: &mut dyn FnMut() -> u64,
        room: Room,
        now: Instant,
    ) -> Option<Bytes> {
        self.current.as_ref()?;
        let mut frames = BytesMut::with_capacity(ROOM);
        while ROOM - frames.len() >= FRAME {
            let Some(frame) = self.control.pop_front() else {
                break;
            };
            frame.encode(&mut frames);
        }

        self.fill_asks(&mut frames, draw, room, now);
        self.fill_replies(&mut frames);
        if frames.is_empty() {
            return None;
        }
        self.current.as_mut()?.seal(&frames)
    }

    fn fill_asks(
        &mut self,
        frames: &mut BytesMut,
        draw: &mut dyn FnMut() -> u64,
        room: Room,
        now: Instant,
    ) {
        for _ in 0..ASKS {
            if ROOM - frames.len() < 2 * FRAME {
                return;
            }
            let jitter = fraction(draw());
            let Some(ask) = self.receiver.poll_ask(room, now, jitter) else {
                return;
            };
            if let CustodyFrame::Req { object, .. } = &ask {
                self.fill_offer(frames, *object);
            }
            ask.encode(frames);
        }
    }

    /// The first words about an exchange: that there is a request, and the request itself, if it fits.
    fn fill_offer(&self, frames: &mut BytesMut, response: ObjectId) {
        let known = self.receiver.get(response);
        if response.part != ObjectPart::Response || known.is_none_or(|want| want.acknowledged) {
            return;
        }
        let object = ObjectId {
            part: ObjectPart::Request,
            ..response
        };
        let extent = self.sender.extent(object);
        let terms = self.terms.get(&response.exchange);
        let Some((extent, terms)) = extent.zip(terms) else {
            return;
        };

        let offer = CustodyFrame::Offer {
            exchange: response.exchange,
            keep: terms.keep,
            once: terms.once,
            extent,
        };
        offer.encode(frames);
        let left = ROOM.saturating_sub(frames.len() + 2 * FRAME);
        if let Some(inline) = self.sender.inline(object, left) {
            inline.encode(frames);
        }
    }

    fn fill_replies(&mut self, frames: &mut BytesMut) {
        while let Some(size) = self.sender.next_size() {
            let left = ROOM.saturating_sub(frames.len());
            // What does not fit goes into the next datagram, whole.
            if left < FRAME + size && !frames.is_empty() {
                return;
            }
            let left = left.saturating_sub(FIELDS);
            match self.sender.poll_reply(left) {
                Some(frame) => frame.encode(frames),
                None => return,
            }
        }
    }

    fn came_from(&mut self, from: SocketAddr, bytes: usize, now: Instant) {
        if self.address() != Some(from) {
            let mut path = Path::new(from, false);
            // Without random bytes no address is validated, and little is said to it.
            path.challenge = drawn();
            self.path = Some(path);
        }
        let is_answered =
            self.pending.newest.came_from(from) || self.pending.doubtful.came_from(from);
        let Some(path) = &mut self.path else { return };
        path.heard += bytes as u64;
        path.heard_at = Some(now);
        path.validated |= is_answered;
        if path.validated {
            return;
        }

        // Once for whatever comes from there: it, or its answer, may be lost.
        let challenge = path.challenge.map(CustodyFrame::Challenge);
        let new = challenge.filter(|challenge| !self.control.contains(challenge));
        if let Some(challenge) = new {
            self.tell(challenge);
        }
    }
}

impl Path {
    fn new(address: SocketAddr, validated: bool) -> Self {
        Self {
            address,
            validated,
            heard: 0,
            said: 0,
            heard_at: None,
            challenge: None,
        }
    }

    fn may_say(&self, bytes: usize) -> bool {
        self.validated || self.said + bytes as u64 <= AMPLIFICATION * self.heard
    }
}

impl PendingEpoch {
    fn is_of(&self, epoch: u32) -> bool {
        self.epoch.as_ref().is_some_and(|known| known.own == epoch)
    }

    fn came_from(&self, from: SocketAddr) -> bool {
        let answered = self.answered.as_ref();
        answered.is_some_and(|answered| answered.from.contains(&from))
    }
}

impl Answered {
    fn came_from(&mut self, from: SocketAddr) {
        self.from.retain(|known| *known != from);
        if self.from.len() >= ADDRESSES {
            self.from.pop_front();
        }
        self.from.push_back(from);
    }
}

impl AcceptedHello {
    /// The keys that a HELLO asked for, which this node calls `own` and the neighbour `peer`, and the answer.
    pub fn new((own, peer): (u32, u32), hello: Bytes, handshake: Handshake, now: Instant) -> Self {
        let packet = CustodyPacket::Answer {
            epoch: peer,
            own,
            message: handshake.answer,
        };
        Self {
            hello,
            stamp: handshake.stamp,
            epoch: Epoch::new(own, peer, handshake.keys, now),
            answer: packet.encode(),
        }
    }
}

/// A token that no one can guess, if there is one.
fn drawn() -> Option<[u8; 8]> {
    let mut token = [0; 8];
    let drawn = aws_lc_rs::rand::fill(&mut token);
    drawn.ok().map(|()| token)
}

/// A number from 0 to 1.
fn fraction(drawn: u64) -> f64 {
    (drawn >> 11) as f64 / (1_u64 << 53) as f64
}
