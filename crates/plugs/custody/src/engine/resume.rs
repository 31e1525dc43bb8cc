//! Exchanges on disk: begun there, and gone on with when the node was started again.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use hermes_proto::custody::{ErrCode, ObjectPart};
use parking_lot::Mutex;

use super::Engine;
use super::exchange::{Event, ExchangeKey, KeptExchange, Side, object};
use super::tunnel_state::Tunnelled;
use crate::disk::{Disk, Kept, KeptName, KeptTerms, LogId, SharedLog};
use crate::neighbour::Terms;
use crate::spool::Spool;

/// The disk, and the exchanges that are kept there.
#[derive(Debug, Default)]
pub(super) struct Keeping {
    pub(super) disk: Option<Disk>,
    /// The exchanges of its files.
    pub(super) logs: HashMap<LogId, ExchangeKey>,
    /// Exchanges that were kept and are asked for again as soon as it is known where their neighbours are.
    pub(super) resumed: Vec<ExchangeKey>,
    /// Exchanges that were kept and that no one goes on with yet, by those that they answer.
    pub(super) orphans: BTreeMap<ExchangeKey, ExchangeKey>,
    /// Exchanges that end from now on stay on disk.
    pub(super) is_frozen: bool,
    /// How long this node has its own exchanges kept.
    pub(super) keep_for: Duration,
}

/// An exchange that was kept, and its objects.
struct Resumed {
    key: ExchangeKey,
    exchange: KeptExchange,
    request: Spool,
    response: Spool,
}

impl Engine {
    /// Keeps exchanges on this disk from now on, and goes on with those that were kept there. To be called once, when the neighbours are
    /// known.
    pub fn keep_on(&mut self, disk: Disk, now: Instant) {
        let kept = disk.load();
        self.keeping.disk = Some(disk);
        // Those that are answered come first: the others are theirs.
        let (answered, asked): (Vec<_>, Vec<_>) = kept
            .into_iter()
            .partition(|kept| kept.terms.parent.is_none());
        for kept in answered.into_iter().chain(asked) {
            self.resume(kept, now);
        }
        self.give_up_lost();
    }

    /// Gives up requests that were acted on and may not be a second time, unless their own exchange with the next neighbour goes on.
    fn give_up_lost(&mut self) {
        let resumed = std::mem::take(&mut self.keeping.resumed);
        let (lost, rest): (Vec<_>, Vec<_>) = resumed
            .into_iter()
            .partition(|key| self.is_taken_up(*key) && !self.keeping.orphans.contains_key(key));
        self.keeping.resumed = rest;
        for key in lost {
            self.break_off(key, ErrCode::Unknown);
        }
    }

    /// Whether an exchange was acted on when the last process ended, and may not be again.
    pub fn is_taken_up(&self, key: ExchangeKey) -> bool {
        let known = self.exchanges.get(&key);
        known.is_some_and(|known| known.is_resumed && known.once && known.side == Side::Answering)
    }

    /// Whether exchanges that end from now on stay on disk, because the process ends and not they.
    pub fn freeze(&mut self, is_frozen: bool) {
        self.keeping.is_frozen = is_frozen;
    }

    /// The exchange that was begun for this one before the node was started again, for the one who goes on with it.
    pub fn adopt(&mut self, parent: ExchangeKey) -> Option<ExchangeKey> {
        self.keeping.orphans.remove(&parent)
    }

    /// Keeps later bytes of an exchange in memory: it does not outlive the process.
    pub fn keep_in_memory(&mut self, key: ExchangeKey) {
        let known = self.exchanges.get(&key);
        if let Some(log) = known.and_then(|known| known.log.as_ref()) {
            log.lock().remove();
        }
    }

    /// Whether an exchange was kept when the last process ended.
    pub fn is_resumed(&self, key: ExchangeKey) -> bool {
        self.exchanges
            .get(&key)
            .is_some_and(|known| known.is_resumed)
    }

    /// How much this node has written of an exchange.
    pub fn written_length(&self, key: ExchangeKey) -> u64 {
        let extent = self.written(key).and_then(|written| {
            let sender = &self.neighbours[key.neighbour.0].sender;
            sender.extent(written)
        });
        extent.map_or(0, |extent| extent.available)
    }

    /// Some of the bytes that this node has written of an exchange, from `offset` on; empty behind the last, and where they were let go.
    pub fn written_bytes(&self, key: ExchangeKey, offset: u64) -> Bytes {
        self.written(key).map_or(Bytes::new(), |written| {
            let sender = &self.neighbours[key.neighbour.0].sender;
            sender.peek(written, offset)
        })
    }

    /// The next request to be answered again of a neighbour with a known address.
    pub(super) fn poll_resumed(&mut self) -> Option<Event> {
        let mut resumed = self.keeping.resumed.iter();
        let index = resumed.position(|key| self.address(key.neighbour).is_some())?;
        Some(Event::Asked(self.keeping.resumed.swap_remove(index)))
    }

    /// Begins the file of an exchange. One that is begun for another is kept where that one is.
    pub(super) fn begin_log(
        &self,
        key: ExchangeKey,
        parent: Option<ExchangeKey>,
        once: bool,
        keep: Duration,
    ) -> Option<SharedLog> {
        let disk = self.keeping.disk.as_ref()?;
        if let Some(parent) = parent {
            let log = self.exchanges.get(&parent)?.log.as_ref()?;
            // Without its parent on disk no one would go on with this exchange after a restart.
            if !log.lock().is_whole() {
                return None;
            }
        }
        let kept_parent = match parent {
            Some(parent) => Some(self.kept_name(parent)?),
            None => None,
        };
        let terms = KeptTerms {
            name: self.kept_name(key)?,
            parent: kept_parent,
            once,
            until: SystemTime::now().checked_add(keep)?,
        };
        // Until its user is known, it counts as that of the neighbour that has begun it.
        let owner = match parent {
            Some(parent) => self.owner(parent),
            None => Some(self.owner_of(Some(key.neighbour), None)),
        };
        let log = disk.begin(&terms, owner)?;
        Some(Arc::new(Mutex::new(log)))
    }

    fn kept_name(&self, key: ExchangeKey) -> Option<KeptName> {
        let mut known = self.keys.known.iter();
        let (neighbour, _) = known.find(|(_, id)| **id == key.neighbour)?;
        Some(KeptName {
            neighbour: *neighbour,
            exchange: key.exchange,
        })
    }

    fn key_of(&self, name: KeptName) -> Option<ExchangeKey> {
        let neighbour = self.keys.known.get(&name.neighbour)?;
        Some(ExchangeKey {
            neighbour: *neighbour,
            exchange: name.exchange,
        })
    }

    /// Goes on with an exchange, unless its time is over or its neighbour is not known any more.
    fn resume(&mut self, mut kept: Kept, now: Instant) {
        let left = kept.terms.until.duration_since(SystemTime::now()).ok();
        let key = self.key_of(kept.terms.name);
        let Some((key, left)) = key.zip(left) else {
            return kept.log.remove();
        };
        let terms = kept.terms;
        let is_acted_on = !terms.once || kept.is_confirmed;
        let resumed = recall(key, kept, now + left);
        match terms.parent.map(|parent| self.key_of(parent)) {
            None => self.resume_answered(resumed, is_acted_on, now),
            Some(Some(parent)) if self.wants_child(parent) => {
                self.resume_asked(resumed, parent, left, now);
            }
            Some(_) => {
                if let Some(log) = resumed.exchange.log {
                    log.lock().remove();
                }
            }
        }
    }

    /// Goes on with an exchange that a neighbour has begun. Unless its response is whole, the request is answered again if it may be.
    fn resume_answered(&mut self, resumed: Resumed, is_acted_on: bool, now: Instant) {
        let Resumed {
            key,
            mut exchange,
            request,
            response,
        } = resumed;
        if !is_acted_on {
            exchange.side = Side::Unconfirmed;
        }
        let owner = self.owner_of(Some(key.neighbour), None);
        exchange.owner = Some(owner);
        if let Some(log) = &exchange.log {
            log.lock().belongs(owner);
        }
        self.add_exchange(key, exchange);

        let is_answered = response.is_whole();
        let request = request.counted(&self.held.read, Some(owner));
        let response = response.counted(&self.held.kept, Some(owner));
        let neighbour = &mut self.neighbours[key.neighbour.0];
        let written = object(key, ObjectPart::Response);
        neighbour.sender.offer(written, response);
        let wanted = object(key, ObjectPart::Request);
        neighbour.receiver.want(wanted, true, request, now);
        if is_acted_on && !is_answered {
            self.keeping.resumed.push(key);
        }
    }

    /// Goes on with an exchange that this node has begun to answer another one.
    fn resume_asked(
        &mut self,
        resumed: Resumed,
        parent: ExchangeKey,
        left: Duration,
        now: Instant,
    ) {
        let Resumed {
            key,
            mut exchange,
            request,
            response,
        } = resumed;
        let once = exchange.once;
        exchange.side = Side::Asking { repeatable: !once };
        self.add_exchange(key, exchange);
        let request = request.counted(&self.held.kept, None);
        let response = response.counted(&self.held.read, None);

        let neighbour = &mut self.neighbours[key.neighbour.0];
        let terms = Terms {
            keep: u32::try_from(left.as_secs()).unwrap_or(u32::MAX),
            once,
        };
        neighbour.terms.insert(key.exchange, terms);
        let written = object(key, ObjectPart::Request);
        neighbour.sender.offer(written, request);
        // A response that has begun is never mixed with another, and a request that may be done once is not offered again.
        let is_offered = once || response.available() > 0;
        let wanted = object(key, ObjectPart::Response);
        neighbour.receiver.want(wanted, is_offered, response, now);
        self.keeping.orphans.insert(parent, key);
    }

    /// Whether an exchange is answered again, so that what was begun for it is needed.
    fn wants_child(&self, parent: ExchangeKey) -> bool {
        self.keeping.resumed.contains(&parent) && !self.keeping.orphans.contains_key(&parent)
    }
}

/// An exchange as its file has it, until its time is over.
fn recall(key: ExchangeKey, kept: Kept, until: Instant) -> Resumed {
    let log = Arc::new(Mutex::new(kept.log));
    let spool = |part| {
        let mut spool = Spool::on_disk(log.clone(), part);
        let pieces = kept.pieces.iter().filter(|piece| piece.0 == part);
        for (_, offset, at, length) in pieces {
            spool.recall(*offset, *at, *length);
        }
        let total = kept.totals.iter().find(|total| total.0 == part);
        if let Some((_, total)) = total {
            spool.recall_total(*total);
        }
        spool
    };
    Resumed {
        key,
        request: spool(ObjectPart::Request),
        response: spool(ObjectPart::Response),
        exchange: KeptExchange {
            side: Side::Answering,
            until,
            due: until,
            keep: Duration::ZERO,
            tunnelled: Tunnelled::No,
            owner: None,
            log: Some(log.clone()),
            is_resumed: true,
            once: kept.terms.once,
            acts_behind: None,
        },
    }
}
