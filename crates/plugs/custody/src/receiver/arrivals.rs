//! Frames of the sender: bytes, the extent of what it has, or that it will not give an object.

use std::time::{Duration, Instant};

use bytes::Bytes;
use hermes_proto::custody::{CustodyRange, ErrCode, Extent, ObjectId};

use super::{AHEAD, Receiver, WantedObject};
use crate::ranges::range;
use crate::room::Room;
use crate::spool::cost;
use crate::window::PIECE;

/// The effect of a frame on its object, for the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// Nothing new.
    Nothing,
    /// There is something to read, or the object has ended.
    Readable,
}

/// Bytes of an object, as they came.
#[derive(Debug, Clone)]
pub struct Arrived {
    /// Which object.
    pub object: ObjectId,
    /// The REQ that they answer.
    pub serial: u64,
    /// How much the sender has.
    pub extent: Extent,
    /// Whether they were at hand.
    pub prompt: bool,
    /// Where they begin.
    pub offset: u64,
    /// The bytes.
    pub bytes: Bytes,
    /// How long they waited in this machine.
    pub waited: Duration,
    /// Bytes that may be held beside those that were asked for.
    pub room: Room,
}

/// A word about an object of which nothing more is available.
#[derive(Debug, Clone, Copy)]
pub struct StatusArrived {
    /// Which object.
    pub object: ObjectId,
    /// The REQ that it answers.
    pub serial: u64,
    /// How much the sender has.
    pub extent: Extent,
    /// How long it waited in this machine.
    pub waited: Duration,
}

impl Receiver {
    /// Takes bytes of an object.
    pub fn handle_data(&mut self, data: Arrived, now: Instant) -> Taken {
        let Arrived {
            object,
            serial,
            extent,
            prompt,
            offset,
            bytes,
            waited,
            room,
        } = data;
        // The neighbour is there even where its bytes find no room.
        self.answered(serial, now);
        let length = bytes.len() as u64;
        let came = range(offset, offset + length);
        // Bytes that are dropped stay asked for, and are asked for again when they count as lost.
        if !self.has_room(object, came, room) {
            return Taken::Nothing;
        }

        let took = self.asked.settle(object, serial, came, now);
        // Time in this machine is no delay of the path.
        let took = took.map(|took| took.saturating_sub(waited));
        self.window.arrived(length, took.filter(|_| prompt), now);

        let Some(want) = self.wants.get(object) else {
            return Taken::Nothing;
        };
        // A sender that gives more than it was asked for must not run ahead of a slow reader.
        if want.is_over() || came.end() > want.taken + AHEAD {
            return Taken::Nothing;
        }

        let before = want.spool.available();
        self.wants.change(object, |want| {
            want.spool.insert(offset, bytes);
            want.again.remove(came);
        });
        self.progress = now;
        if !self.learn(object, extent, now) {
            return Taken::Readable;
        }

        self.find_lost(now);
        let Some(want) = self.wants.get(object) else {
            return Taken::Nothing;
        };
        if want.spool.is_whole() {
            self.whole(object, now);
            return Taken::Readable;
        }
        if want.spool.available() > before {
            Taken::Readable
        } else {
            Taken::Nothing
        }
    }

    /// The link is alive, and the sender has no more than this.
    pub fn handle_status(&mut self, status: StatusArrived, now: Instant) -> Taken {
        let StatusArrived {
            object,
            serial,
            extent,
            waited,
        } = status;
        self.answered(serial, now);
        let took = self.asked.heard(object, serial, now);
        if let Some(took) = took {
            self.window.answered(took.saturating_sub(waited), now);
        }
        let known = self.learn(object, extent, now);
        self.find_lost(now);
        let whole = self
            .wants
            .get(object)
            .is_some_and(|want| want.spool.is_whole());
        if whole {
            self.whole(object, now);
        }
        if whole || !known {
            Taken::Readable
        } else {
            Taken::Nothing
        }
    }

    /// The sender will not give the object. Whether that changes anything.
    pub fn handle_err(&mut self, object: ObjectId, code: ErrCode, now: Instant) -> bool {
        self.heard = now;
        self.resume();
        self.fins.remove(object);
        if self.get(object).is_none_or(WantedObject::is_over) {
            return false;
        }

        self.wants.change(object, |want| want.broken = Some(code));
        self.drop_asked(object);
        true
    }

    /// Whether bytes are taken: those that were asked for are, and others where there is room. Crumbs count for more than they are, so that
    /// they are taken where there is room for that only.
    fn has_room(&self, object: ObjectId, came: CustodyRange, room: Room) -> bool {
        let Some(want) = self.wants.get(object) else {
            return true;
        };
        let asked = self.asked.overlap(object, came);
        let more = cost(came.length as usize).saturating_sub(asked);
        let held = want.spool.held() as u64;
        let guaranteed = room.guaranteed.saturating_sub(held);
        more <= guaranteed || more <= self.room_of(object, want, room)
    }

    /// Notes an answer: the neighbour is there.
    fn answered(&mut self, serial: u64, now: Instant) {
        self.heard = now;
        // A serial that was never used proves nothing about others.
        self.answered = self.answered.max(serial.min(self.serial));
        self.is_checked = false;
        self.resume();
    }

    /// Takes the extent of an object, as its sender gives it. False if it contradicts itself: then the object is broken.
    fn learn(&mut self, object: ObjectId, extent: Extent, now: Instant) -> bool {
        let acknowledged = self.wants.change(object, |want| {
            let first = !std::mem::replace(&mut want.acknowledged, true);
            (first, want.is_over())
        });
        let Some((first, false)) = acknowledged else {
            return true;
        };
        if first {
            self.confirm(object);
        }

        let learned = self.wants.change(object, |want| want.learn(extent));
        let Some(Some((new, end))) = learned else {
            self.drop_asked(object);
            return false;
        };
        self.asked.available(object, new, now);
        if let Some(end) = end {
            self.cut(object, end);
        }
        true
    }

    /// Nothing lies beyond the end of an object.
    fn cut(&mut self, object: ObjectId, end: u64) {
        self.asked.cut(object, end);
        self.wants.change(object, |want| {
            want.again.remove(range(end, u64::MAX));
            want.next = want.next.min(end);
        });
    }

    /// Counts questions as lost that are older than an answered one, by more than datagrams overtake each other.
    fn find_lost(&mut self, now: Instant) {
        if !self.asked.is_to_be_looked_through(now) {
            return;
        }
        let round_trip = self.window.round_trip();
        // A quarter of a round trip for datagrams that overtake each other, as RACK allows (RFC 8985).
        let late = round_trip + (round_trip / 4).max(Duration::from_millis(10));
        let lost = self.asked.take(|asked| {
            let want = self.wants.get(asked.object);
            asked.serial < self.answered
                && now > asked.at + late
                && want.is_some_and(|want| asked.range.offset < want.known.available)
        });
        for asked in &lost {
            self.ask_again(asked.object, asked.range);
        }
        if !lost.is_empty() {
            self.window.lost(now);
        }
    }

    /// A piece is asked for once more, without the offer: that tells the sender that its custody is known here. The rest is on its way.
    fn confirm(&mut self, object: ObjectId) {
        let piece = self.asked.take_first(object, PIECE);
        if let Some(piece) = piece {
            self.ask_again(object, piece);
        }
    }
}
