//! All neighbours of a node: datagrams and time go in, datagrams and events come out.

mod came;
mod datagrams;
mod ended;
mod epochs;
mod exchange;
mod frames;
mod handshakes;
mod resume;
mod share;
mod siblings;
mod signs;
mod strangers;
mod tunnel_state;
mod tunnels;
mod waiting;
mod written;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::RandomState;
use std::net::SocketAddr;
use std::time::Instant;

use bytes::Bytes;
use hermes_proto::custody::{ErrCode, ObjectId, ObjectPart};

pub use came::Came;
use ended::Ended;
use epochs::KnownEpochs;
pub use exchange::{AskingProgress, Event, ExchangeKey, NeighbourId, Opening, Reading};
use exchange::{KeptExchange, Side, object, spool};
use resume::Keeping;
pub use siblings::{DatagramProcess, ForeignFrames, Whereabouts};
pub use strangers::RefusedDatagrams;
use strangers::Strangers;
use tunnel_state::Tunnelled;
use waiting::{Deadlines, WaitingWriters};

use crate::neighbour::{Neighbour, Terms};
use crate::owner::HeldBytes;
pub use crate::owner::Owner;
pub use crate::room::HELD;
use crate::room::Room;
pub use crate::signs::NeighbourSigns;
use crate::stamps::Stamps;
use hermes_noise::{PrivateKey, PublicKey};

/// Exchanges that one neighbour may have open in each direction.
#[doc(alias = "bound")]
const EXCHANGES: usize = 1024;

/// The machine of a node. It knows no sockets, and no clock but that of the terms on disk.
pub struct Engine {
    identity: Identity,
    neighbours: Vec<Neighbour>,
    keys: KnownKeys,
    exchanges: BTreeMap<ExchangeKey, KeptExchange>,
    deadlines: Deadlines,
    over: Ended,
    keeping: Keeping,
    strangers: Strangers,
    events: VecDeque<Event>,
    writers: WaitingWriters,
    held: Held,
    turns: Turns,
}

/// The own key and the stamps of this node, and its source of jitter.
struct Identity {
    key: PrivateKey,
    stamps: Stamps,
    random: u64,
}

/// Bytes of all objects.
#[derive(Debug, Default)]
struct Held {
    /// Held for readers.
    read: HeldBytes,
    /// Kept for neighbours.
    kept: HeldBytes,
    /// Numbers users and neighbours, so that no one can choose a name that shares another's.
    owners: RandomState,
}

/// The turns by which neighbours and strangers are sent datagrams.
#[derive(Debug, Default)]
struct Turns {
    /// The neighbour that was served last.
    neighbour: usize,
    /// A stranger was served last.
    is_strangers: bool,
}

/// The keys of the neighbours, and the epochs of those that are shared with them.
#[derive(Debug, Default)]
struct KnownKeys {
    known: HashMap<PublicKey, NeighbourId>,
    /// The keys of former neighbours: their numbers are given to no others.
    removed: HashMap<PublicKey, NeighbourId>,
    /// The epochs: the names by which this node knows shared keys.
    epochs: KnownEpochs,
    /// Other processes may have the node's key too.
    is_shared: bool,
    /// Frames that came under our keys, for exchanges that those processes may have.
    foreign: VecDeque<ForeignFrames>,
}

impl Engine {
    /// An engine without neighbours; jitter is drawn from `seed`.
    pub fn new(key: PrivateKey, seed: u64, now: Instant) -> Self {
        Self {
            identity: Identity {
                key,
                stamps: Stamps::new(now),
                random: seed | 1,
            },
            neighbours: Vec::new(),
            keys: KnownKeys::default(),
            exchanges: BTreeMap::new(),
            deadlines: Deadlines::default(),
            over: Ended::default(),
            keeping: Keeping::default(),
            strangers: Strangers::new(now),
            events: VecDeque::new(),
            writers: WaitingWriters::default(),
            held: Held::default(),
            turns: Turns::default(),
        }
    }

    /// Adds a neighbour, or gives the one that has this key.
    pub fn add_neighbour(
        &mut self,
        public: PublicKey,
        address: Option<SocketAddr>,
        now: Instant,
    ) -> NeighbourId {
        if let Some(known) = self.keys.known.get(&public) {
            if let Some(address) = address {
                self.neighbours[known.0].lead(address);
            }
            return *known;
        }
        if let Some(known) = self.keys.removed.remove(&public) {
            self.neighbours[known.0] = Neighbour::new(public, address, now);
            self.keys.known.insert(public, known);
            return known;
        }
        let id = NeighbourId(self.neighbours.len());
        self.neighbours.push(Neighbour::new(public, address, now));
        self.keys.known.insert(public, id);
        id
    }

    /// Removes a neighbour: it is heard no more, and its exchanges end.
    pub fn remove_neighbour(&mut self, id: NeighbourId, now: Instant) {
        let known = self.keys.known.iter().find(|(_, known)| **known == id);
        let Some(public) = known.map(|(public, _)| *public) else {
            return;
        };
        self.keys.known.remove(&public);
        self.keys.removed.insert(public, id);

        let own = self.exchanges.keys().filter(|key| key.neighbour == id);
        let own: Vec<_> = own.copied().collect();
        for key in own {
            self.events.push_back(Event::Readable(key));
            self.events.push_back(Event::Over(key));
            self.end(key, now);
        }
        // Without its keys, packets that still come from it do not open.
        self.neighbours[id.0] = Neighbour::new(public, None, now);
    }

    /// The address of a neighbour, if that is known.
    pub fn address(&self, id: NeighbourId) -> Option<SocketAddr> {
        self.neighbours.get(id.0)?.address()
    }

    /// Whether no exchange is open.
    pub fn is_idle(&self) -> bool {
        self.exchanges.is_empty()
    }

    /// Begins an exchange with a neighbour. The request is [written](Self::write), then the response is [read](Self::read). False if
    /// there are too many.
    pub fn open(&mut self, key: ExchangeKey, opening: Opening, now: Instant) -> bool {
        let Opening {
            keep,
            repeatable,
            parent,
        } = opening;
        let open = *self.neighbours[key.neighbour.0].count(false);
        if open >= EXCHANGES || self.exchanges.contains_key(&key) {
            return false;
        }
        let log = parent.and_then(|parent| self.begin_log(key, Some(parent), !repeatable, keep));
        let request = object(key, ObjectPart::Request);
        let written = spool(&log, request).counted(&self.held.kept, None);
        let response = object(key, ObjectPart::Response);
        let wanted = spool(&log, response).counted(&self.held.read, None);
        let neighbour = &mut self.neighbours[key.neighbour.0];
        let terms = Terms {
            keep: u32::try_from(keep.as_secs()).unwrap_or(u32::MAX),
            once: !repeatable,
        };
        neighbour.terms.insert(key.exchange, terms);
        neighbour.sender.offer(request, written);
        neighbour.receiver.want(response, false, wanted, now);
        if log.is_some() {
            // The OFFER waits for the disk: a node that ends before would not know the exchange that its neighbour has begun.
            neighbour.receiver.hold(response);
        }
        let exchange = KeptExchange {
            side: Side::Asking { repeatable },
            until: now + keep,
            due: now,
            keep,
            tunnelled: Tunnelled::No,
            owner: None,
            log,
            is_resumed: false,
            once: !repeatable,
            acts_behind: None,
        };
        self.add_exchange(key, exchange);
        true
    }

    /// Bytes that are held for readers, and those that were asked for.
    pub fn held(&self) -> u64 {
        let neighbours = self.neighbours.iter();
        let asked: u64 = neighbours.map(|known| known.receiver.asked()).sum();
        self.held.read.all() + asked
    }

    /// Bytes that may be written now; an event says when it was 0 and is more.
    pub fn room(&mut self, key: ExchangeKey) -> usize {
        let held = self.held.kept.all();
        let room = self.room_beside(held);
        let Some(written) = self.written(key) else {
            return 0;
        };
        let free = room.free.min(self.share(key, held));
        let sender = &self.neighbours[key.neighbour.0].sender;
        let room = sender.room(written, Room { free, ..room });
        if room == 0 {
            self.writers.add(key);
        }
        room
    }

    /// Writes the next bytes that this node gives: of the request if it asks, else of the response.
    pub fn write(&mut self, key: ExchangeKey, bytes: Bytes) {
        if let Some(written) = self.written(key) {
            self.neighbours[key.neighbour.0]
                .sender
                .write(written, bytes);
        }
    }

    /// Ends the bytes that this node gives.
    pub fn finish(&mut self, key: ExchangeKey) {
        if let Some(written) = self.written(key) {
            self.neighbours[key.neighbour.0].sender.finish(written);
        }
    }

    /// Breaks off the bytes that this node gives: the neighbour is told this code.
    pub fn break_off(&mut self, key: ExchangeKey, code: ErrCode) {
        // After a restart there would be nothing to go on with.
        self.keep_in_memory(key);
        if let Some(written) = self.written(key) {
            self.neighbours[key.neighbour.0]
                .sender
                .break_off(written, code);
            self.writers.has_room();
        }
    }

    /// Reads the next bytes that the neighbour gives.
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
            Some(want) if want.spool().is_damaged() => Reading::Broken(ErrCode::Broken),
            Some(want) => match want.broken() {
                Some(code) => Reading::Broken(code),
                None if want.spool().is_whole() => Reading::End,
                None => Reading::Waiting,
            },
        }
    }

    /// The progress of an exchange that this node has begun; `None` for others.
    pub fn progress(&self, key: ExchangeKey, now: Instant) -> Option<AskingProgress> {
        let neighbour = self.neighbours.get(key.neighbour.0)?;
        let response = neighbour.receiver.get(object(key, ObjectPart::Response))?;
        let heard = neighbour.heard();
        Some(AskingProgress {
            is_confirmed: response.acknowledged,
            heard: heard.map(|heard| now.saturating_duration_since(heard)),
        })
    }

    /// This node is done with an exchange that it began.
    pub fn close(&mut self, key: ExchangeKey, now: Instant) {
        let Some(exchange) = self.exchanges.get(&key) else {
            return;
        };
        // A response is kept until its neighbour has it.
        if exchange.side.answers() || self.lingers(key) {
            return;
        }
        self.end(key, now);
    }

    /// Ends the exchanges whose time is over.
    pub fn handle_timeout(&mut self, now: Instant) {
        for key in self.late(now) {
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

    /// The latest time for the next call, if nothing happens before.
    pub fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        let asks = self
            .neighbours
            .iter()
            .filter_map(|known| known.timeout(now));
        let disk = self.keeping.disk.as_ref();
        let disk = disk.and_then(|disk| disk.patience_ends(now));
        asks.chain(self.deadlines.first()).chain(disk).min()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        // Writers last: all that the events before have freed is shared out at once.
        if self.events.is_empty() {
            self.wake_writers();
        }
        self.events.pop_front().or_else(|| self.poll_resumed())
    }

    /// Frees the objects of an exchange that has ended.
    fn end(&mut self, key: ExchangeKey, now: Instant) {
        let Some(exchange) = self.take_exchange(key) else {
            return;
        };
        if let Some(log) = exchange.log.filter(|_| !self.keeping.is_frozen) {
            log.lock().remove();
        }
        if let Some(orphan) = self.keeping.orphans.remove(&key) {
            self.end(orphan, now);
        }
        self.keeping.resumed.retain(|resumed| *resumed != key);
        let neighbour = &mut self.neighbours[key.neighbour.0];
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
