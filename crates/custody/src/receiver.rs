//! The side that asks: which bytes of which objects are asked for, and when.
//!
//! It asks for as much as its [`Window`] allows. What the sender does not have yet it sends when it has it, so that bytes go
//! on at once. After a silence everything on its way counts as lost: then one small REQ goes out each [`PROBE`], until the
//! first answer, upon which all of it is asked for again at once.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hermes_proto::custody::{
    CustodyFrame, CustodyRange, ErrCode, Extent, FinCode, ObjectId, ObjectPart,
};

use crate::asked::{AllAsked, Asked};
use crate::ranges::{RangeSet, range};
use crate::spool::Spool;
use crate::window::{PIECE, Window};

/// How long nothing is heard, round trips aside, before the link is taken for down.
#[doc(alias = "bound")]
pub const SILENCE: Duration = Duration::from_millis(100);

/// How often a neighbour that is silent is asked, give or take a fifth: a fixed period would lock into that of the outages.
#[doc(alias = "bound")]
pub const PROBE: Duration = Duration::from_millis(25);

/// How often a neighbour that is silent for minutes is asked at least.
#[doc(alias = "bound")]
const SLOWEST_PROBE: Duration = Duration::from_millis(250);

/// How long an answer that says "nothing yet" keeps being asked for ten times a second; then once a second.
#[doc(alias = "bound")]
const PATIENT: Duration = Duration::from_secs(30);

/// Bytes of one REQ: few enough that the answers flow evenly.
const ASK: u64 = 4 * PIECE;

/// Bytes of an object that are asked for beyond what its reader has taken.
#[doc(alias = "bound")]
pub const AHEAD: u64 = 8 * 1024 * 1024;

/// Bytes of an object that may be held whatever others hold: those who read slowly cannot stop the rest.
#[doc(alias = "bound")]
pub const GUARANTEED: u64 = 64 * 1024;

/// How often a FIN is repeated until the other side has let go.
#[doc(alias = "bound")]
const FIN_AGAIN: Duration = Duration::from_millis(200);

/// How long a FIN is repeated; then the other side lets go when the time of the exchange is over.
#[doc(alias = "bound")]
const FIN_TIME: Duration = Duration::from_secs(60);

/// Objects whose FIN is repeated.
#[doc(alias = "bound")]
const FINS: usize = 1024;

/// An object that is wanted.
#[derive(Debug, Default)]
pub struct Want {
    spool: Spool,
    /// How much the sender has.
    known: Extent,
    /// Everything from here on was not asked for yet.
    next: u64,
    /// What lies before and has to be asked for again.
    again: RangeSet,
    /// What the reader has taken.
    taken: u64,
    /// The sender has answered for it.
    pub acknowledged: bool,
    /// It will not come.
    broken: Option<ErrCode>,
    /// Its owner has as much as one may.
    is_crowded: bool,
    /// It is let go by its reader, not as soon as it is whole.
    is_kept: bool,
}

impl Want {
    /// Whether there is nothing more to ask for.
    fn is_over(&self) -> bool {
        self.spool.is_whole() || self.broken.is_some()
    }

    /// Why it will not come.
    pub fn broken(&self) -> Option<ErrCode> {
        self.broken
    }

    /// Its bytes.
    pub fn spool(&self) -> &Spool {
        &self.spool
    }

    /// What its reader has taken.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Where asking ends for now.
    fn ceiling(&self) -> u64 {
        let ahead = self.taken + AHEAD;
        self.known.total.map_or(ahead, |total| total.min(ahead))
    }

    /// What is to be asked for next, at most so much.
    fn wanted(&self, most: u64) -> Option<CustodyRange> {
        if self.is_over() || most == 0 {
            return None;
        }
        if let Some(lost) = self.again.first() {
            let length = lost.length.min(most);
            return Some(CustodyRange { length, ..lost });
        }

        // The beginning may have come without being asked for.
        let offset = self.next.max(self.spool.available());
        let left = self.ceiling().saturating_sub(offset);
        let length = left.min(most);
        (length > 0).then_some(CustodyRange { offset, length })
    }

    fn ask(&mut self, asked: CustodyRange) {
        self.again.remove(asked);
        self.next = self.next.max(asked.end());
    }
}

/// A FIN that is repeated.
#[derive(Debug)]
struct Letting {
    code: FinCode,
    at: Instant,
    until: Instant,
}

/// What bytes of an object are good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// Nothing new.
    Nothing,
    /// There is something to read, or the object has ended.
    Readable,
}

/// The asking side of a neighbour.
#[derive(Debug)]
pub struct Receiver {
    wants: BTreeMap<ObjectId, Want>,
    /// The object that was served last: the next one's turn comes.
    turn: Option<ObjectId>,
    asked: AllAsked,
    /// All that was asked for waits, and the sender was asked again whether it is there.
    is_checked: bool,
    serial: u64,
    /// The highest serial that was answered.
    answered: u64,
    window: Window,
    /// When the last answer came, or when there was something to ask for again.
    heard: Instant,
    /// When bytes came last.
    progress: Instant,
    /// Set while the neighbour is silent: when to ask next.
    probe: Option<Instant>,
    /// When there was hope last that the neighbour is in reach again.
    hurried: Option<Instant>,
    letting: BTreeMap<ObjectId, Letting>,
}

impl Receiver {
    /// Without objects.
    pub fn new(now: Instant) -> Self {
        Self {
            wants: BTreeMap::new(),
            turn: None,
            asked: AllAsked::default(),
            is_checked: false,
            serial: 0,
            answered: 0,
            window: Window::default(),
            heard: now,
            progress: now,
            probe: None,
            hurried: None,
            letting: BTreeMap::new(),
        }
    }

    /// Wants an object from now on, with what there is of it; `acknowledged` if the other side is known to have it.
    pub fn want(&mut self, object: ObjectId, acknowledged: bool, spool: Spool, now: Instant) {
        if !self.has_work() {
            self.heard = now;
            self.progress = now;
            self.probe = None;
        }
        let is_whole = spool.is_whole();
        let want = Want {
            acknowledged,
            next: spool.available(),
            spool,
            ..Want::default()
        };
        self.wants.entry(object).or_insert(want);
        if is_whole {
            // The other side may not have heard it.
            self.whole(object, now);
        }
    }

    /// An object is let go by its reader, not as soon as it is whole.
    pub fn keep(&mut self, object: ObjectId) {
        if let Some(want) = self.wants.get_mut(&object) {
            want.is_kept = true;
        }
    }

    /// Whether the owner of an object has as much as one may: then no more than a little is asked for.
    pub fn set_crowded(&mut self, object: ObjectId, is_crowded: bool) {
        if let Some(want) = self.wants.get_mut(&object) {
            want.is_crowded = is_crowded;
        }
    }

    /// Bytes of an object that are held.
    pub fn held_of(&self, object: ObjectId) -> u64 {
        let want = self.wants.get(&object);
        want.map_or(0, |want| want.spool.held() as u64)
    }

    /// An object that is wanted.
    pub fn get(&self, object: ObjectId) -> Option<&Want> {
        self.wants.get(&object)
    }

    /// Bytes of all objects that are held, and those that were asked for.
    pub fn held(&self) -> u64 {
        let held: usize = self.wants.values().map(|want| want.spool.held()).sum();
        held as u64 + self.asked.on_its_way() + self.asked.waiting()
    }

    /// The window, for what is shown of a neighbour.
    pub fn window(&self) -> &Window {
        &self.window
    }

    /// The reader takes what comes next, at most so many bytes.
    pub fn read(&mut self, object: ObjectId, most: usize) -> Bytes {
        let Some(want) = self.wants.get_mut(&object) else {
            return Bytes::new();
        };
        let most = most.min((want.spool.available() - want.taken) as usize);
        let bytes = want.spool.read(want.taken, most);
        want.taken += bytes.len() as u64;
        want.spool.release(want.taken);
        bytes
    }

    /// No one wants the object any more, whether all of it has come or not.
    pub fn forget(&mut self, object: ObjectId, now: Instant) {
        let Some(want) = self.wants.remove(&object) else {
            return;
        };
        match want.broken {
            None if want.spool.is_whole() => self.let_go(object, FinCode::Complete, now),
            // The other side has something of it.
            None | Some(ErrCode::Broken) => self.let_go(object, FinCode::Cancelled, now),
            Some(_) => self.drop_asked(object),
        }
    }

    /// As [`forget`](Self::forget), where the other side knows it already.
    pub fn discard(&mut self, object: ObjectId) {
        self.wants.remove(&object);
        self.drop_asked(object);
    }

    /// The other side has forgotten the object, and is asked for it as at first.
    pub fn begin_again(&mut self, object: ObjectId, now: Instant) {
        self.discard(object);
        self.heard = now;
        self.resume();
        self.want(object, false, Spool::default(), now);
    }

    /// Bytes of an object have come.
    pub fn handle_data(&mut self, data: Arrived, now: Instant) -> Taken {
        let Arrived {
            object,
            serial,
            extent,
            prompt,
            offset,
            bytes,
            waited,
        } = data;
        self.answered(serial, now);
        let length = bytes.len() as u64;
        let took = self
            .asked
            .settle(object, serial, range(offset, offset + length), now);
        // What it waited for here is no delay of the path.
        let took = took.map(|took| took.saturating_sub(waited));
        self.window.arrived(length, took.filter(|_| prompt), now);

        let Some(want) = self.wants.get_mut(&object) else {
            return Taken::Nothing;
        };
        if want.is_over() || offset + length > want.taken + AHEAD {
            return Taken::Nothing;
        }

        let before = want.spool.available();
        want.spool.insert(offset, bytes);
        want.again.remove(range(offset, offset + length));
        self.progress = now;
        if !self.learn(object, extent, now) {
            return Taken::Readable;
        }

        self.find_lost(now);
        let Some(want) = self.wants.get(&object) else {
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
            .get(&object)
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
        self.letting.remove(&object);
        let Some(want) = self.wants.get_mut(&object) else {
            return false;
        };
        if want.is_over() {
            return false;
        }

        want.broken = Some(code);
        self.drop_asked(object);
        true
    }

    /// Whether something is to be asked for.
    pub fn has_work(&self) -> bool {
        self.wants.values().any(|want| !want.is_over())
    }

    /// What to ask for now; `room` is how many bytes may be held. With each REQ comes whether it is for an object that the
    /// other side has not answered for.
    pub fn poll_ask(&mut self, room: u64, now: Instant, jitter: f64) -> Option<CustodyFrame> {
        if let Some(fin) = self.poll_fin(now) {
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
            None if self.asked.is_all_heard() && !self.is_checked => self.check(now),
            None => {
                self.lose_all();
                self.probe(now, jitter)
            }
        }
    }

    /// When there is something to ask for at the latest, if nothing comes.
    pub fn timeout(&self, now: Instant) -> Option<Instant> {
        let ask = self
            .has_work()
            .then(|| self.probe.unwrap_or_else(|| self.heard + self.silence(now)));
        let fin = self.letting.values().map(|letting| letting.at).min();
        ask.into_iter().chain(fin).min()
    }

    /// The neighbour may be reached now: it is asked at once.
    pub fn hurry(&mut self, now: Instant) {
        if self.probe.is_some() {
            self.probe = Some(now);
            self.hurried = Some(now);
        }
    }

    fn silence(&self, now: Instant) -> Duration {
        let waiting = now.saturating_duration_since(self.progress) > PATIENT;
        let quiet = if waiting {
            Duration::from_secs(1)
        } else {
            SILENCE
        };
        quiet + self.window.round_trip() * 2
    }

    /// Asks again for what waits, of one object after the other. The sender knows of the others, and that is not changed by the silence of
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
        // Questions are asked ever more slowly, from what was heard last, or from when there was hope.
        let since = self
            .hurried
            .map_or(self.heard, |hurried| hurried.max(self.heard));
        let silent = now.saturating_duration_since(since);
        let slower = 1.0 + silent.as_secs_f64() / 60.0;
        let pause = PROBE.mul_f64(slower).min(SLOWEST_PROBE);
        self.probe = Some(now + pause.mul_f64(0.8 + 0.4 * jitter));

        let window = self.window.bytes();
        let object = self.next_object(|_, _| PIECE)?;
        let want = self.wants.get(&object)?;
        let nothing_there = want.known.available <= want.spool.available();
        let most = if nothing_there { window } else { PIECE };
        let asked = want.wanted(most)?;
        self.serial += 1;
        if nothing_there {
            // It is the one that the answers will be for: those before were lost.
            self.lose_all();
            self.note(object, asked, now);
        }

        self.turn = Some(object);
        self.req(object, asked)
    }

    /// One REQ within the window.
    fn ask(&mut self, room: u64, now: Instant) -> Option<CustodyFrame> {
        let share = self.share();
        let object = self.next_object(|object, want| self.allowed(object, want, room, share))?;
        let want = self.wants.get(&object)?;
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

    /// Bytes of an object that one REQ may ask for now: whole pieces, and several at once, because what is asked for oddly is
    /// sent oddly.
    fn allowed(&self, object: ObjectId, want: &Want, room: u64, share: u64) -> u64 {
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
            // What was never asked for is not held up by others that have nothing to say, however much of them was asked for.
            let left = if asked == 0 { left.max(PIECE) } else { left };
            share.saturating_sub(asked).min(left)
        };

        let room = if want.is_crowded { 0 } else { room };
        let free = if room < free {
            free.min(room.max(self.guaranteed(object)))
        } else {
            free
        };
        let least = if there { ASK.min(window / 2) } else { PIECE };
        if free < least.min(wanted.length) {
            return 0;
        }
        free / PIECE * PIECE
    }

    /// Bytes of one object that may wait at the sender: else the first that has nothing to say would keep the others from being asked.
    fn share(&self) -> u64 {
        let wanting = self.wants.values().filter(|want| !want.is_over()).count();
        (self.window.bytes() / wanting.max(1) as u64).max(PIECE)
    }

    /// Bytes of an object that may be asked for even if there is no room.
    fn guaranteed(&self, object: ObjectId) -> u64 {
        let want = self.wants.get(&object);
        let held = want.map_or(0, |want| want.spool.held() as u64);
        GUARANTEED.saturating_sub(held + self.asked.of(object))
    }

    fn req(&self, object: ObjectId, asked: CustodyRange) -> Option<CustodyFrame> {
        let want = self.wants.get(&object)?;
        Some(CustodyFrame::Req {
            object,
            serial: self.serial,
            taken: want.spool.available(),
            limit: asked.length,
            ranges: vec![asked],
        })
    }

    fn note(&mut self, object: ObjectId, asked: CustodyRange, now: Instant) {
        let mut waits = false;
        if let Some(want) = self.wants.get_mut(&object) {
            want.ask(asked);
            waits = asked.offset >= want.known.available;
        }
        self.asked.add(Asked {
            object,
            serial: self.serial,
            range: asked,
            at: now,
            sent: now,
            waits,
            is_heard: false,
        });
    }

    /// The object after the last one of which something is wanted, with so many bytes allowed for each.
    fn next_object(&self, most: impl Fn(ObjectId, &Want) -> u64) -> Option<ObjectId> {
        let after = self
            .wants
            .iter()
            .filter(|(object, _)| Some(**object) > self.turn);
        let before = self
            .wants
            .iter()
            .filter(|(object, _)| Some(**object) <= self.turn);
        let mut wanting = after
            .chain(before)
            .filter(|(object, want)| want.wanted(most(**object, want)).is_some());
        wanting.next().map(|(object, _)| *object)
    }

    /// An answer came: the neighbour is there.
    fn answered(&mut self, serial: u64, now: Instant) {
        self.heard = now;
        // A serial that was never used proves nothing about others.
        self.answered = self.answered.max(serial.min(self.serial));
        self.is_checked = false;
        self.resume();
    }

    fn resume(&mut self) {
        self.probe = None;
    }

    /// What a sender says that it has. False if it contradicts itself: then the object is broken.
    fn learn(&mut self, object: ObjectId, extent: Extent, now: Instant) -> bool {
        let Some(want) = self.wants.get_mut(&object) else {
            return true;
        };
        let first = !std::mem::replace(&mut want.acknowledged, true);
        if want.is_over() {
            return true;
        }
        if first {
            self.confirm(object);
        }
        let Some(want) = self.wants.get_mut(&object) else {
            return true;
        };

        let agrees = extent.total.is_none_or(|total| want.spool.set_total(total));
        if !agrees {
            want.broken = Some(ErrCode::Broken);
            self.drop_asked(object);
            return false;
        }

        let before = want.known.available;
        want.known.total = want.known.total.or(extent.total);
        want.known.available = before.max(extent.available);
        let there = want.known.available;
        let end = want.known.total;
        self.asked.available(object, before..there, now);
        if let Some(end) = end {
            self.cut(object, end);
        }
        true
    }

    /// Nothing lies beyond the end of an object.
    fn cut(&mut self, object: ObjectId, end: u64) {
        self.asked.cut(object, end);
        if let Some(want) = self.wants.get_mut(&object) {
            want.again.remove(range(end, u64::MAX));
            want.next = want.next.min(end);
        }
    }

    /// What was asked for before what is answered now, long enough ago, was lost.
    fn find_lost(&mut self, now: Instant) {
        let round_trip = self.window.round_trip();
        let late = round_trip + (round_trip / 4).max(Duration::from_millis(10));
        let lost = self.asked.take(|asked| {
            let want = self.wants.get(&asked.object);
            asked.serial < self.answered
                && now > asked.at + late
                && want.is_some_and(|want| asked.range.offset < want.known.available)
        });
        for asked in &lost {
            if let Some(want) = self.wants.get_mut(&asked.object) {
                want.again.insert(asked.range);
            }
        }
        if !lost.is_empty() {
            self.window.lost(now);
        }
    }

    /// Everything on its way was lost.
    fn lose_all(&mut self) {
        for asked in self.asked.take(|_| true) {
            if let Some(want) = self.wants.get_mut(&asked.object) {
                want.again.insert(asked.range);
            }
        }
    }

    /// A piece is asked for once more, without the offer: that tells the sender that its custody is known here. The rest is on its way.
    fn confirm(&mut self, object: ObjectId) {
        let piece = self.asked.take_first(object, PIECE);
        if let Some((want, piece)) = self.wants.get_mut(&object).zip(piece) {
            want.again.insert(piece);
        }
    }

    fn drop_asked(&mut self, object: ObjectId) {
        self.asked.take(|asked| asked.object == object);
    }

    /// All of an object has come.
    fn whole(&mut self, object: ObjectId, now: Instant) {
        self.drop_asked(object);
        let is_kept = self.wants.get(&object).is_some_and(|want| want.is_kept);
        // A request is let go with its exchange: only then it is certain that it will not be needed again.
        if object.part == ObjectPart::Response && !is_kept {
            self.let_go(object, FinCode::Complete, now);
        }
    }

    fn let_go(&mut self, object: ObjectId, code: FinCode, now: Instant) {
        self.drop_asked(object);
        if self.letting.len() < FINS {
            let letting = Letting {
                code,
                at: now,
                until: now + FIN_TIME,
            };
            self.letting.entry(object).or_insert(letting);
        }
    }

    fn poll_fin(&mut self, now: Instant) -> Option<CustodyFrame> {
        self.letting.retain(|_, letting| now < letting.until);
        let (object, letting) = self.letting.iter_mut().find(|(_, fin)| fin.at <= now)?;
        letting.at = now + FIN_AGAIN;
        Some(CustodyFrame::Fin {
            object: *object,
            code: letting.code,
        })
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: u64 = 1 << 20;

    /// Asks whatever is due, and returns when the next question is.
    fn ask(receiver: &mut Receiver, now: Instant) -> Instant {
        while receiver.poll_ask(ROOM, now, 0.5).is_some() {}
        receiver.timeout(now).unwrap()
    }

    const RESPONSE: ObjectId = ObjectId {
        exchange: [7; 16],
        part: ObjectPart::Response,
    };

    /// The window after a transfer over a path of 5 ms, by a machine that looks at what has come so much later; whether it knows that.
    fn window(late: Duration, is_known: bool) -> u64 {
        let mut now = Instant::now();
        let mut receiver = Receiver::new(now);
        receiver.want(RESPONSE, true, Spool::default(), now);
        let total = 40_000_000;
        let late_from = |at: u64| if at > total / 4 { late } else { Duration::ZERO };
        let mut read = 0;
        while read < total {
            let mut asked = Vec::new();
            while let Some(CustodyFrame::Req { serial, ranges, .. }) =
                receiver.poll_ask(ROOM, now, 0.5)
            {
                asked.push((serial, ranges[0]));
            }
            let waited = late_from(read);
            now += Duration::from_millis(5) + waited;
            for (serial, range) in asked {
                let data = Arrived {
                    object: RESPONSE,
                    serial,
                    extent: Extent {
                        total: Some(total),
                        available: total,
                    },
                    prompt: true,
                    offset: range.offset,
                    bytes: vec![7; range.length as usize].into(),
                    waited: if is_known { waited } else { Duration::ZERO },
                };
                receiver.handle_data(data, now);
            }
            loop {
                let bytes = receiver.read(RESPONSE, 1 << 20);
                read += bytes.len() as u64;
                if bytes.is_empty() {
                    break;
                }
            }
        }
        receiver.window().bytes()
    }

    #[test]
    fn a_machine_that_is_busy_keeps_its_window() {
        let late = Duration::from_millis(60);
        let quiet = window(Duration::ZERO, true);
        assert!(window(late, true) >= quiet);
        assert!(
            window(late, false) < quiet / 2,
            "if it is taken for the path's"
        );
    }

    #[test]
    fn a_link_that_comes_up_ends_a_long_silence() {
        let began = Instant::now();
        let mut receiver = Receiver::new(began);
        let object = ObjectId {
            exchange: [7; 16],
            part: ObjectPart::Response,
        };
        receiver.want(object, false, Spool::default(), began);

        let mut now = ask(&mut receiver, began);
        while now < began + Duration::from_secs(3600) {
            now = ask(&mut receiver, now);
        }
        assert_eq!(ask(&mut receiver, now) - now, SLOWEST_PROBE);

        now += Duration::from_millis(10);
        assert_eq!(receiver.poll_ask(ROOM, now, 0.5), None, "not yet");
        receiver.hurry(now);
        assert!(receiver.poll_ask(ROOM, now, 0.5).is_some());
        assert_eq!(ask(&mut receiver, now) - now, PROBE);
    }
}
