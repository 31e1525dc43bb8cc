//! All neighbours of a node: datagrams and time go in, datagrams and events come out.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hermes_proto::custody::{
    CustodyFrame, CustodyPacket, ErrCode, FinCode, ObjectId, ObjectPart, decode_frames,
};

use crate::cookie::Cookies;
use crate::neighbour::{Neighbour, Terms, answer};
use crate::noise::{NodeKey, PublicKey, respond};
use crate::receiver::{Arrived, Taken};
use crate::sender::Asking;

/// Exchanges that one neighbour may have open in each direction.
#[doc(alias = "bound")]
const EXCHANGES: usize = 1024;

/// Exchanges that are over and remembered, so that a late OFFER does not begin them again.
#[doc(alias = "bound")]
const REMEMBERED: usize = 16 * 1024;

/// Answers to strangers that wait to be sent.
#[doc(alias = "bound")]
const STRANGERS: usize = 64;

/// Bytes of all objects that are held for readers, and as many for neighbours.
#[doc(alias = "bound")]
pub const HELD: u64 = 64 * 1024 * 1024;

/// Which neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NeighbourId(usize);

/// An exchange with a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExchangeKey {
    /// The neighbour.
    pub neighbour: NeighbourId,
    /// Its name.
    pub exchange: [u8; 16],
}

/// What has happened to an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A neighbour asks for a response.
    Asked(ExchangeKey),
    /// There is something to read, or it has ended.
    Readable(ExchangeKey),
    /// There is room to write.
    Writable(ExchangeKey),
    /// The neighbour does not want the response any more, or has all of it; or its time is over.
    Over(ExchangeKey),
}

/// What a reader finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading {
    /// Bytes, at least one.
    Bytes(Bytes),
    /// The end of it.
    End,
    /// Nothing yet: an event will say when.
    Waiting,
    /// It will not be whole.
    Broken(ErrCode),
}

/// Whose an exchange is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    /// This node asks.
    Asking {
        /// It may be offered again to a neighbour that has forgotten it.
        repeatable: bool,
    },
    /// The neighbour asks.
    Answering,
    /// The neighbour asks for what may be done once only, and may not know yet that this node has it.
    Unconfirmed,
}

impl Side {
    /// Whether the neighbour asks.
    fn answers(self) -> bool {
        matches!(self, Self::Answering | Self::Unconfirmed)
    }
}

#[derive(Debug)]
struct KeptExchange {
    side: Side,
    until: Instant,
}

/// The machine of a node. It knows no sockets and no clock.
pub struct Engine {
    key: NodeKey,
    neighbours: Vec<Neighbour>,
    by_key: HashMap<PublicKey, NeighbourId>,
    exchanges: BTreeMap<ExchangeKey, KeptExchange>,
    over: Remembered,
    cookies: Cookies,
    strangers: VecDeque<(SocketAddr, Bytes)>,
    events: VecDeque<Event>,
    /// Exchanges whose writers wait for room.
    writers: BTreeSet<ExchangeKey>,
    /// The neighbour that was served last.
    turn: usize,
    random: u64,
}

/// Exchanges that are over.
#[derive(Debug, Default)]
struct Remembered {
    order: VecDeque<ExchangeKey>,
    known: HashSet<ExchangeKey>,
}

impl Engine {
    /// Without neighbours; `seed` is what jitter is drawn from.
    pub fn new(key: NodeKey, seed: u64, now: Instant) -> Self {
        Self {
            key,
            neighbours: Vec::new(),
            by_key: HashMap::new(),
            exchanges: BTreeMap::new(),
            over: Remembered::default(),
            cookies: Cookies::new(now),
            strangers: VecDeque::new(),
            events: VecDeque::new(),
            writers: BTreeSet::new(),
            turn: 0,
            random: seed | 1,
        }
    }

    /// Adds a neighbour, or gives the one that has this key.
    pub fn add_neighbour(
        &mut self,
        public: PublicKey,
        address: Option<SocketAddr>,
        now: Instant,
    ) -> NeighbourId {
        if let Some(known) = self.by_key.get(&public) {
            return *known;
        }
        let id = NeighbourId(self.neighbours.len());
        self.neighbours.push(Neighbour::new(public, address, now));
        self.by_key.insert(public, id);
        id
    }

    /// Where a neighbour is, if that is known.
    pub fn address(&self, id: NeighbourId) -> Option<SocketAddr> {
        self.neighbours.get(id.0)?.address()
    }

    /// Whether no exchange is open.
    pub fn is_idle(&self) -> bool {
        self.exchanges.is_empty()
    }

    /// Begins an exchange with a neighbour; it is given up after `keep`. The request is [written](Self::write), then the
    /// response is [read](Self::read). False if there are too many.
    pub fn open(
        &mut self,
        key: ExchangeKey,
        keep: Duration,
        repeatable: bool,
        now: Instant,
    ) -> bool {
        if self.count(key.neighbour) >= EXCHANGES || self.exchanges.contains_key(&key) {
            return false;
        }
        let neighbour = &mut self.neighbours[key.neighbour.0];
        let terms = Terms {
            keep: u32::try_from(keep.as_secs()).unwrap_or(u32::MAX),
            once: !repeatable,
        };
        neighbour.terms.insert(key.exchange, terms);
        neighbour.sender.offer(object(key, ObjectPart::Request));
        neighbour
            .receiver
            .want(object(key, ObjectPart::Response), false, now);
        let exchange = KeptExchange {
            side: Side::Asking { repeatable },
            until: now + keep,
        };
        self.exchanges.insert(key, exchange);
        true
    }

    /// Bytes that may be written now; an event says when it was 0 and is more.
    pub fn room(&mut self, key: ExchangeKey) -> usize {
        let held: usize = self
            .neighbours
            .iter()
            .map(|known| known.sender.held())
            .sum();
        let free = (HELD as usize).saturating_sub(held);
        let Some(written) = self.written(key) else {
            return 0;
        };
        let sender = &self.neighbours[key.neighbour.0].sender;
        let room = sender.room(written, free);
        if room == 0 {
            self.writers.insert(key);
        }
        room
    }

    /// Writes the next bytes of what this node gives: the request if it asks, else the response.
    pub fn write(&mut self, key: ExchangeKey, bytes: Bytes) {
        if let Some(written) = self.written(key) {
            self.neighbours[key.neighbour.0]
                .sender
                .write(written, bytes);
        }
    }

    /// That was all of it.
    pub fn finish(&mut self, key: ExchangeKey) {
        if let Some(written) = self.written(key) {
            self.neighbours[key.neighbour.0].sender.finish(written);
        }
    }

    /// It will not be whole.
    pub fn break_off(&mut self, key: ExchangeKey, code: ErrCode) {
        if let Some(written) = self.written(key) {
            self.neighbours[key.neighbour.0]
                .sender
                .break_off(written, code);
        }
    }

    /// Reads the next bytes of what the neighbour gives.
    pub fn read(&mut self, key: ExchangeKey, most: usize) -> Reading {
        let Some(object) = self.read_object(key) else {
            return Reading::Broken(ErrCode::Expired);
        };
        let receiver = &mut self.neighbours[key.neighbour.0].receiver;
        let bytes = receiver.read(object, most);
        if !bytes.is_empty() {
            return Reading::Bytes(bytes);
        }
        match receiver.get(object) {
            None => Reading::Broken(ErrCode::Expired),
            Some(want) => match want.broken() {
                Some(code) => Reading::Broken(code),
                None if want.spool().is_whole() => Reading::End,
                None => Reading::Waiting,
            },
        }
    }

    /// This node is done with an exchange that it began.
    pub fn close(&mut self, key: ExchangeKey, now: Instant) {
        let Some(exchange) = self.exchanges.get(&key) else {
            return;
        };
        // What answers a neighbour is kept until the neighbour has it.
        if exchange.side.answers() {
            return;
        }
        self.end(key, now);
    }

    /// A datagram has come.
    pub fn handle_datagram(&mut self, datagram: &Bytes, from: SocketAddr, now: Instant) {
        let Ok(packet) = CustodyPacket::decode(datagram) else {
            return;
        };
        match packet {
            CustodyPacket::Hello {
                epoch,
                cookie,
                message,
            } => {
                if self.cookies.is_good(from, &cookie, now) {
                    self.handle_hello(epoch, &message, from, now);
                } else {
                    self.retry(epoch, from, now);
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
                if let Some(id) = self.of_epoch(epoch) {
                    self.neighbours[id.0].handle_answer(epoch, own, &message, now);
                }
            }
            CustodyPacket::Sealed {
                epoch,
                number,
                sealed,
            } => match self.of_epoch(epoch) {
                Some(id) => self.handle_sealed(id, (epoch, number, &sealed), from, now),
                None => self.retry(epoch, from, now),
            },
        }
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        let late = self
            .exchanges
            .iter()
            .filter(|(_, known)| known.until <= now);
        let late: Vec<_> = late.map(|(key, _)| *key).collect();
        for key in late {
            self.events.push_back(Event::Readable(key));
            self.events.push_back(Event::Over(key));
            self.end(key, now);
        }
    }

    /// Neighbours that were out of reach may be in reach now: those from which something is wanted are asked at once.
    pub fn hurry(&mut self, now: Instant) {
        for neighbour in &mut self.neighbours {
            neighbour.hurry(now);
        }
    }

    /// The next datagram to send.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<(SocketAddr, Bytes)> {
        if let Some(due) = self.strangers.pop_front() {
            return Some(due);
        }

        let held: u64 = self
            .neighbours
            .iter()
            .map(|known| known.receiver.held())
            .sum();
        let room = HELD.saturating_sub(held);
        let count = self.neighbours.len();
        let mut random = self.random;
        let mut draw = || {
            // xorshift64*, for jitter and names of epochs; nothing secret is drawn from it.
            random ^= random >> 12;
            random ^= random << 25;
            random ^= random >> 27;
            random.wrapping_mul(0x2545_f491_4f6c_dd1d)
        };

        let mut due = None;
        for step in 1..=count {
            let index = (self.turn + step) % count;
            let neighbour = &mut self.neighbours[index];
            due = neighbour.poll_transmit(&self.key, &mut draw, room, now);
            if due.is_some() {
                self.turn = index;
                break;
            }
        }
        self.random = random;
        due
    }

    /// When there is something to do at the latest.
    pub fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        let asks = self
            .neighbours
            .iter()
            .filter_map(|known| known.timeout(now));
        let ends = self.exchanges.values().map(|known| known.until);
        asks.chain(ends).min()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn handle_hello(&mut self, epoch: u32, message: &Bytes, from: SocketAddr, now: Instant) {
        let Ok((public, reply, keys)) = respond(&self.key, message) else {
            return;
        };
        let Some(id) = self.by_key.get(&public).copied() else {
            return;
        };
        let mut own = [0; 4];
        if aws_lc_rs::rand::fill(&mut own).is_err() {
            return;
        }
        let made = answer(u32::from_be_bytes(own), epoch, (reply, keys), now);
        self.neighbours[id.0].handle_hello(message, from, made);
    }

    /// Says what to say to be heard. It is shorter than what it answers.
    fn retry(&mut self, epoch: u32, to: SocketAddr, now: Instant) {
        if self.strangers.len() < STRANGERS {
            let cookie = self.cookies.make(to, now);
            let packet = CustodyPacket::Retry { epoch, cookie };
            self.strangers.push_back((to, packet.encode()));
        }
    }

    fn of_epoch(&self, epoch: u32) -> Option<NeighbourId> {
        let mut known = self.neighbours.iter();
        let known = known.position(|known| known.epochs().any(|own| own == epoch));
        known.map(NeighbourId)
    }

    fn handle_sealed(
        &mut self,
        id: NeighbourId,
        packet: (u32, u64, &Bytes),
        from: SocketAddr,
        now: Instant,
    ) {
        let Some(plain) = self.neighbours[id.0].open(packet, from) else {
            return;
        };
        let frames = decode_frames(&plain).unwrap_or_default();
        let offered: Vec<_> = frames.iter().filter_map(offered).collect();
        for frame in frames {
            if let CustodyFrame::Req { object, .. } = &frame
                && object.part == ObjectPart::Response
                && !offered.contains(&object.exchange)
            {
                self.confirm(id, object.exchange);
            }
            self.handle_frame(id, frame, now);
        }
        self.wake_writers();
    }

    fn handle_frame(&mut self, id: NeighbourId, frame: CustodyFrame, now: Instant) {
        let neighbour = &mut self.neighbours[id.0];
        match frame {
            CustodyFrame::Req {
                object,
                serial,
                taken,
                limit,
                ranges,
            } => {
                let asking = Asking {
                    object,
                    serial,
                    taken,
                    limit,
                    ranges,
                };
                neighbour.sender.handle_req(&asking);
            }
            CustodyFrame::Data {
                object,
                serial,
                extent,
                prompt,
                offset,
                bytes,
            } => {
                let data = Arrived {
                    object,
                    serial,
                    extent,
                    prompt,
                    offset,
                    bytes,
                };
                let taken = neighbour.receiver.handle_data(data, now);
                self.tell(id, object, taken);
            }
            CustodyFrame::Status {
                object,
                serial,
                extent,
            } => {
                let taken = neighbour
                    .receiver
                    .handle_status(object, serial, extent, now);
                self.tell(id, object, taken);
            }
            CustodyFrame::Err { object, code } => self.handle_err(id, object, code, now),
            CustodyFrame::Fin { object, code } => self.handle_fin(id, object, code, now),
            CustodyFrame::Offer {
                exchange,
                keep,
                once,
                ..
            } => self.handle_offer(id, exchange, (keep, once), now),
            CustodyFrame::Challenge(token) => neighbour.tell(CustodyFrame::Response(token)),
            CustodyFrame::Response(token) => neighbour.handle_response(token),
        }
    }

    fn handle_offer(
        &mut self,
        id: NeighbourId,
        exchange: [u8; 16],
        (keep, once): (u32, bool),
        now: Instant,
    ) {
        let key = ExchangeKey {
            neighbour: id,
            exchange,
        };
        if self.exchanges.contains_key(&key) || self.over.known.contains(&key) {
            return;
        }
        let response = object(key, ObjectPart::Response);
        if self.count(id) >= EXCHANGES {
            let sender = &mut self.neighbours[id.0].sender;
            return sender.refuse(response, ErrCode::Refused);
        }

        let neighbour = &mut self.neighbours[id.0];
        neighbour.sender.offer(response);
        let request = object(key, ObjectPart::Request);
        neighbour.receiver.want(request, true, now);
        let side = if once {
            Side::Unconfirmed
        } else {
            Side::Answering
        };
        let until = now + Duration::from_secs(keep.into());
        self.exchanges.insert(key, KeptExchange { side, until });
        if !once {
            self.events.push_back(Event::Asked(key));
        }
    }

    /// The neighbour asks without an offer: it knows that this node has the request, and will not offer it to anyone again.
    fn confirm(&mut self, id: NeighbourId, exchange: [u8; 16]) {
        let key = ExchangeKey {
            neighbour: id,
            exchange,
        };
        if let Some(known) = self.exchanges.get_mut(&key)
            && known.side == Side::Unconfirmed
        {
            known.side = Side::Answering;
            self.events.push_back(Event::Asked(key));
        }
    }

    fn handle_err(&mut self, id: NeighbourId, lost: ObjectId, code: ErrCode, now: Instant) {
        let key = ExchangeKey {
            neighbour: id,
            exchange: lost.exchange,
        };
        let neighbour = &mut self.neighbours[id.0];
        let may_repeat = self.exchanges.get(&key).is_some_and(|known| {
            known.side == Side::Asking { repeatable: true } && code == ErrCode::Unknown
        });
        let request = object(key, ObjectPart::Request);
        // A neighbour that was started again has forgotten it; nothing of the old response was used.
        let whole = neighbour.sender.is_intact(request);
        let unused = neighbour.receiver.get(lost).is_some_and(|want| {
            want.acknowledged
                && want.taken() == 0
                && want.broken().is_none()
                && !want.spool().is_whole()
        });
        if may_repeat && whole && unused {
            return neighbour.receiver.begin_again(lost, now);
        }
        if neighbour.receiver.handle_err(lost, code, now) {
            self.events.push_back(Event::Readable(key));
        }
    }

    fn handle_fin(&mut self, id: NeighbourId, let_go: ObjectId, code: FinCode, now: Instant) {
        let key = ExchangeKey {
            neighbour: id,
            exchange: let_go.exchange,
        };
        let sender = &mut self.neighbours[id.0].sender;
        // Said again until it is heard that it was done.
        sender.refuse(let_go, ErrCode::Unknown);
        let answering = let_go.part == ObjectPart::Response
            && self
                .exchanges
                .get(&key)
                .is_some_and(|known| known.side.answers());
        if answering {
            self.events.push_back(Event::Over(key));
            self.end(key, now);
        } else if code == FinCode::Cancelled {
            self.neighbours[id.0].sender.let_go(let_go);
        }
    }

    fn tell(&mut self, id: NeighbourId, object: ObjectId, taken: Taken) {
        if taken == Taken::Readable {
            self.events.push_back(Event::Readable(ExchangeKey {
                neighbour: id,
                exchange: object.exchange,
            }));
        }
    }

    /// What an exchange left is let go.
    fn end(&mut self, key: ExchangeKey, now: Instant) {
        let Some(exchange) = self.exchanges.remove(&key) else {
            return;
        };
        let neighbour = &mut self.neighbours[key.neighbour.0];
        self.writers.remove(&key);
        match exchange.side {
            Side::Asking { .. } => {
                neighbour.terms.remove(&key.exchange);
                neighbour.sender.let_go(object(key, ObjectPart::Request));
                neighbour
                    .receiver
                    .forget(object(key, ObjectPart::Response), now);
            }
            Side::Answering | Side::Unconfirmed => {
                neighbour.sender.let_go(object(key, ObjectPart::Response));
                neighbour.receiver.discard(object(key, ObjectPart::Request));
                self.over.add(key);
            }
        }
    }

    fn wake_writers(&mut self) {
        let waiting: Vec<_> = self.writers.iter().copied().collect();
        for key in waiting {
            self.writers.remove(&key);
            if self.room(key) > 0 {
                self.events.push_back(Event::Writable(key));
            }
        }
    }

    fn count(&self, id: NeighbourId) -> usize {
        let known = self.exchanges.keys();
        known.filter(|key| key.neighbour == id).count()
    }

    fn written(&self, key: ExchangeKey) -> Option<ObjectId> {
        let part = match self.exchanges.get(&key)?.side {
            Side::Asking { .. } => ObjectPart::Request,
            Side::Answering | Side::Unconfirmed => ObjectPart::Response,
        };
        Some(object(key, part))
    }

    fn read_object(&self, key: ExchangeKey) -> Option<ObjectId> {
        let part = match self.exchanges.get(&key)?.side {
            Side::Asking { .. } => ObjectPart::Response,
            Side::Answering | Side::Unconfirmed => ObjectPart::Request,
        };
        Some(object(key, part))
    }
}

impl Remembered {
    fn add(&mut self, key: ExchangeKey) {
        if self.order.len() >= REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        self.order.push_back(key);
        self.known.insert(key);
    }
}

/// The exchange that an OFFER is about.
fn offered(frame: &CustodyFrame) -> Option<[u8; 16]> {
    match frame {
        CustodyFrame::Offer { exchange, .. } => Some(*exchange),
        _ => None,
    }
}

fn object(key: ExchangeKey, part: ObjectPart) -> ObjectId {
    ObjectId {
        exchange: key.exchange,
        part,
    }
}
