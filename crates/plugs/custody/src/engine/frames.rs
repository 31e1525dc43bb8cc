//! Frames of neighbours, and their effect on exchanges.

use std::time::{Duration, Instant};

use hermes_proto::custody::{CustodyFrame, ErrCode, FinCode, ObjectId, ObjectPart};

use super::exchange::{ExchangeKey, KeptExchange, NeighbourId, Side, object, spool};
use super::tunnel_state::Tunnelled;
use super::{Came, EXCHANGES, Engine, Event};
use crate::receiver::{Arrived, StatusArrived, Taken};
use crate::sender::Asking;

/// How long an exchange is kept at most that a neighbour has begun, unless `keep_for` of this node is longer: memory of a
/// neighbour that has left is missing to others.
#[doc(alias = "bound")]
const LONGEST: Duration = Duration::from_secs(24 * 3600);

impl Engine {
    /// Says how long this node has its own exchanges kept: those of neighbours may be kept for as long.
    pub fn keep_for(&mut self, time: Duration) {
        self.keeping.keep_for = time;
    }

    pub(super) fn handle_frame(&mut self, id: NeighbourId, frame: CustodyFrame, came: Came) {
        let Came { now, waited, .. } = came;
        if let CustodyFrame::Req { object, .. }
        | CustodyFrame::Data { object, .. }
        | CustodyFrame::Status { object, .. } = &frame
        {
            self.heard(id, object.exchange, now);
        }
        let room = self.room_beside(self.held());
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
                    waited,
                };
                if neighbour.sender.handle_req(&asking) {
                    self.writers.has_room();
                }
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
                    waited,
                    room,
                };
                let taken = neighbour.receiver.handle_data(data, now);
                self.tell(id, object, taken);
            }
            CustodyFrame::Status {
                object,
                serial,
                extent,
            } => {
                let status = StatusArrived {
                    object,
                    serial,
                    extent,
                    waited,
                };
                let taken = neighbour.receiver.handle_status(status, now);
                self.tell(id, object, taken);
            }
            CustodyFrame::Err { object, code } => self.handle_err(id, object, code, now),
            CustodyFrame::Fin { object, code } => self.handle_fin(id, object, code, now),
            CustodyFrame::Offer {
                exchange,
                keep,
                once,
                ..
            } => self.handle_offer(id, exchange, keep, once, now),
            CustodyFrame::Challenge(token) => neighbour.tell(CustodyFrame::Response(token)),
            CustodyFrame::Response(token) => neighbour.handle_response(token),
        }
    }

    fn handle_offer(
        &mut self,
        id: NeighbourId,
        exchange: [u8; 16],
        keep: u32,
        once: bool,
        now: Instant,
    ) {
        let key = ExchangeKey {
            neighbour: id,
            exchange,
        };
        // A repeated OFFER, or a late one: an exchange that is over must not be begun a second time.
        if self.exchanges.contains_key(&key) || self.over.has(&key) {
            return;
        }
        let response = object(key, ObjectPart::Response);
        if *self.neighbours[id.0].count(true) >= EXCHANGES {
            let sender = &mut self.neighbours[id.0].sender;
            return sender.refuse(response, ErrCode::Refused);
        }

        let longest = self.keeping.keep_for.max(LONGEST);
        let keep = Duration::from_secs(keep.into()).min(longest);
        let log = self.begin_log(key, None, once, keep);
        // Until its user is known, it counts as the neighbour's own.
        let own = self.owner_of(Some(id), None);
        let owner = Some(own);
        if let Some(log) = &log {
            log.lock().belongs(own);
        }
        let written = spool(&log, response).counted(&self.held.kept, owner);
        let request = object(key, ObjectPart::Request);
        let wanted = spool(&log, request).counted(&self.held.read, owner);
        let neighbour = &mut self.neighbours[id.0];
        neighbour.sender.offer(response, written);
        neighbour.receiver.want(request, true, wanted, now);
        let side = if once {
            Side::Unconfirmed
        } else {
            Side::Answering
        };
        let exchange = KeptExchange {
            side,
            until: now + keep,
            due: now,
            keep,
            tunnelled: Tunnelled::No,
            owner,
            log,
            is_resumed: false,
            once,
            acts_behind: None,
        };
        self.add_exchange(key, exchange);
        // A request that may be acted on once waits until the neighbour asks without an OFFER, and so offers it to no one else.
        if !once {
            self.act_on(key);
        }
    }

    /// The neighbour asks without an offer: it knows that this node has the request, and will not offer it to anyone again.
    pub(super) fn confirm(&mut self, id: NeighbourId, exchange: [u8; 16]) {
        let key = ExchangeKey {
            neighbour: id,
            exchange,
        };
        if let Some(known) = self.exchanges.get_mut(&key)
            && known.side == Side::Unconfirmed
        {
            known.side = Side::Answering;
            if let Some(log) = &known.log {
                log.lock().confirmed();
            }
            self.act_on(key);
        }
    }

    fn handle_err(&mut self, id: NeighbourId, lost: ObjectId, code: ErrCode, now: Instant) {
        let key = ExchangeKey {
            neighbour: id,
            exchange: lost.exchange,
        };
        let neighbour = &mut self.neighbours[id.0];
        let known = self.exchanges.get(&key);
        let may_repeat = known.is_some_and(|known| {
            known.side == Side::Asking { repeatable: true }
                && code == ErrCode::Unknown
                && !known.is_resumed
        });
        let log = known.and_then(|known| known.log.clone());
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
            // The file has another response's beginning, perhaps: the exchange begins again in memory.
            if let Some(log) = log {
                log.lock().remove();
            }
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
        // The answer to every FIN, also to one that is repeated: without it the neighbour would go on for a minute.
        sender.refuse(let_go, ErrCode::Unknown);
        let answering = let_go.part == ObjectPart::Response
            && self
                .exchanges
                .get(&key)
                .is_some_and(|known| known.side.answers());
        if answering {
            self.events.push_back(Event::Over(key));
            self.end(key, now);
        } else if let_go.part == ObjectPart::Request {
            self.let_go_request(key, code, now);
        } else if code == FinCode::Cancelled {
            self.neighbours[id.0].sender.let_go(let_go);
            self.writers.has_room();
        }
    }

    pub(super) fn tell(&mut self, id: NeighbourId, object: ObjectId, taken: Taken) {
        if taken == Taken::Readable {
            self.events.push_back(Event::Readable(ExchangeKey {
                neighbour: id,
                exchange: object.exchange,
            }));
        }
    }
}
