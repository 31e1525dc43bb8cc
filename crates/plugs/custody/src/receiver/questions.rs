//! The next question: within the window while the neighbour answers, one small REQ after the other while it does not.

use std::time::{Duration, Instant};

use hermes_proto::custody::{CustodyFrame, CustodyRange, ObjectId};

use super::{PROBE, Receiver, WantedObject};
use crate::asked::Asked;
use crate::room::{HELD, Room, SHARED};
use crate::window::PIECE;

/// How often a neighbour that is silent for minutes is asked at least.
#[doc(alias = "bound")]
pub(super) const SLOWEST_PROBE: Duration = Duration::from_millis(250);

/// Bytes of one REQ: few enough that the answers flow evenly.
const ASK: u64 = 4 * PIECE;

impl Receiver {
    /// The next frame to send: a FIN that is due, or a REQ. `room` is the number of bytes that may be held.
    pub fn poll_ask(&mut self, room: Room, now: Instant, jitter: f64) -> Option<CustodyFrame> {
        // A FIN frees memory of the sender, and is small.
        if let Some(fin) = self.fins.poll(now) {
            return Some(fin);
        }

        if !self.has_work() {
            self.probe = None;
            return None;
        }

        let silent = self.heard + self.silence(now);
        match self.probe {
            Some(at) if now < at => None,
            Some(_) => self.probe(now, jitter),
            None if now < silent => self.ask(room, now),
            // The sender may be well and have nothing to say: it is asked once before its silence counts as an outage.
            None if self.asked.is_all_heard() && !self.is_checked => self.check(now),
            None => self.probe(now, jitter),
        }
    }

    /// Asks again for bytes that wait, of one object after the other. The sender knows of the others, and that is not changed by the silence of
    /// one that has nothing to say.
    fn check(&mut self, now: Instant) -> Option<CustodyFrame> {
        self.is_checked = true;
        self.heard = now;
        self.serial += 1;
        let again = self.asked.again(self.serial, now)?;
        self.req(again.object, again.range)
    }

    /// One REQ, small unless nothing is known to be there.
    fn probe(&mut self, now: Instant, jitter: f64) -> Option<CustodyFrame> {
        // Ever more slowly, counted from the last answer, or from the last sign that the neighbour may be in reach.
        let since = self
            .hurried
            .map_or(self.heard, |hurried| hurried.max(self.heard));
        let silent = now.saturating_duration_since(since);
        let slower = 1.0 + silent.as_secs_f64() / 60.0;
        let pause = PROBE.mul_f64(slower).min(SLOWEST_PROBE);
        self.probe = Some(now + pause.mul_f64(0.8 + 0.4 * jitter));

        // The answers will be for this question. Those before count as lost, and their ranges are asked for again.
        self.lose_all();
        let object = self.next_object(|_, _| PIECE)?;
        let want = self.wants.get(object)?;
        let nothing_there = want.known.available <= want.spool.available();
        let most = if nothing_there {
            self.window.bytes()
        } else {
            PIECE
        };
        let asked = want.wanted(most)?;
        self.serial += 1;
        if nothing_there {
            self.note(object, asked, now);
        }

        self.turn = Some(object);
        self.req(object, asked)
    }

    /// One REQ within the window.
    fn ask(&mut self, room: Room, now: Instant) -> Option<CustodyFrame> {
        let share = self.share();
        let object = self.next_object(|object, want| self.allowed(object, want, room, share))?;
        let want = self.wants.get(object)?;
        let wanted = want.wanted(self.allowed(object, want, room, share))?;
        // Bytes that are there come evenly in small runs; one REQ is enough for those that are not.
        let there = wanted.offset < want.known.available;
        let asked = CustodyRange {
            length: if there {
                wanted.length.min(ASK)
            } else {
                wanted.length
            },
            ..wanted
        };
        if self.asked.is_empty() {
            self.heard = now;
        }
        self.serial += 1;
        self.note(object, asked, now);
        self.turn = Some(object);
        self.req(object, asked)
    }

    /// Bytes of an object that one REQ may ask for now: whole pieces, and several at once, because odd ranges make
    /// odd datagrams.
    fn allowed(&self, object: ObjectId, want: &WantedObject, room: Room, share: u64) -> u64 {
        let Some(wanted) = want.wanted(u64::MAX) else {
            return 0;
        };
        let there = wanted.offset < want.known.available;
        let window = self.window.bytes();
        let free = if there {
            window.saturating_sub(self.asked.on_its_way())
        } else {
            let asked = self.asked.of(object);
            let left = window.saturating_sub(self.asked.waiting());
            // An object that was never asked for is not held up by others that have nothing to say, however much of them was asked for.
            let left = if asked == 0 { left.max(PIECE) } else { left };
            share.saturating_sub(asked).min(left)
        };

        let least = if there { ASK.min(window / 2) } else { PIECE };
        let least = least.min(wanted.length);
        let left = self.room_of(object, want, room);
        let free = if left < free {
            free.min(left.max(self.guaranteed(object, room)))
        } else {
            free
        };
        if free < least {
            return 0;
        }
        free / PIECE * PIECE
    }

    /// Bytes that may be held for an object, where so many may be for all: none where its owner has as much as one may.
    pub(super) fn room_of(&self, object: ObjectId, want: &WantedObject, room: Room) -> u64 {
        if room.is_disk_full && want.spool.is_on_disk() {
            return 0;
        }
        let held = room.held();
        let is_full = room.free <= self.guaranteed(object, room);
        if is_full || held <= SHARED || !want.spool.is_crowded(held, HELD) {
            return room.free;
        }
        0
    }

    /// Bytes of one object that may wait at the sender: else the first that has nothing to say would keep the others from being asked.
    fn share(&self) -> u64 {
        let wanting = self.wants.open().max(1);
        (self.window.bytes() / wanting as u64).max(PIECE)
    }

    /// Bytes of an object that may be asked for even if there is no room.
    fn guaranteed(&self, object: ObjectId, room: Room) -> u64 {
        let want = self.wants.get(object);
        let held = want.map_or(0, |want| want.spool.held() as u64);
        room.guaranteed.saturating_sub(held + self.asked.of(object))
    }

    fn req(&self, object: ObjectId, asked: CustodyRange) -> Option<CustodyFrame> {
        let want = self.wants.get(object)?;
        Some(CustodyFrame::Req {
            object,
            serial: self.serial,
            taken: want.spool.available(),
            limit: asked.length,
            ranges: vec![asked],
        })
    }

    fn note(&mut self, object: ObjectId, asked: CustodyRange, now: Instant) {
        let waits = self.wants.change(object, |want| {
            want.ask(asked);
            asked.offset >= want.known.available
        });
        self.asked.add(Asked {
            object,
            serial: self.serial,
            range: asked,
            at: now,
            sent: now,
            waits: waits.unwrap_or_default(),
            is_heard: false,
        });
    }

    /// The object after the last one of which something is wanted, with so many bytes allowed for each.
    fn next_object(&self, most: impl Fn(ObjectId, &WantedObject) -> u64) -> Option<ObjectId> {
        let mut all = self.wants.after(self.turn);
        let wanting = all.find(|(object, want)| want.wanted(most(*object, want)).is_some());
        wanting.map(|(object, _)| object)
    }
}
