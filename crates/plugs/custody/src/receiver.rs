//! The side that asks: which bytes of which objects are asked for, and when.
//!
//! It asks for as much as its [`Window`] allows. What the sender does not have yet it sends when it has it, so that bytes go
//! on at once. After a silence everything on its way counts as lost: then one small REQ goes out each [`PROBE`], until the
//! first answer, upon which all of it is asked for again at once.

mod arrivals;
mod fins;
mod questions;
mod wanted_object;

pub use arrivals::{Arrived, StatusArrived, Taken};
use wanted_object::WantedObjects;
pub use wanted_object::{AHEAD, WantedObject};

use std::time::{Duration, Instant};

use bytes::Bytes;
use hermes_proto::custody::{CustodyRange, ErrCode, FinCode, ObjectId, ObjectPart};

use self::fins::Fins;
use crate::asked::AllAsked;
use crate::owner::Owner;
use crate::spool::Spool;
use crate::window::Window;

/// How long nothing is heard, round trips aside, before the link is taken for down.
#[doc(alias = "bound")]
pub const SILENCE: Duration = Duration::from_millis(100);

/// How often a neighbour that is silent is asked, give or take a fifth: a fixed period would lock into that of the outages.
#[doc(alias = "bound")]
pub const PROBE: Duration = Duration::from_millis(25);

/// How long an answer that says "nothing yet" keeps being asked for ten times a second; then once a second.
#[doc(alias = "bound")]
const PATIENT: Duration = Duration::from_secs(30);

pub use crate::room::GUARANTEED;

/// The asking side of a neighbour.
#[derive(Debug)]
pub struct Receiver {
    wants: WantedObjects,
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
    /// The last sign that the neighbour may be in reach again, such as a link that came up.
    hurried: Option<Instant>,
    fins: Fins,
}

impl Receiver {
    /// Without objects.
    pub fn new(now: Instant) -> Self {
        Self {
            wants: WantedObjects::default(),
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
            fins: Fins::default(),
        }
    }

    /// Wants an object from now on, of which `spool` has the bytes that are here already; `acknowledged` if the other side is known to have it.
    pub fn want(&mut self, object: ObjectId, acknowledged: bool, spool: Spool, now: Instant) {
        if !self.has_work() {
            self.heard = now;
            self.progress = now;
            self.probe = None;
        }
        let is_whole = spool.is_whole();
        let want = WantedObject {
            acknowledged,
            next: spool.available(),
            spool,
            ..WantedObject::default()
        };
        self.wants.add(object, want);
        if is_whole {
            // The other side may not have heard it.
            self.whole(object, now);
        }
    }

    /// An object is let go by its reader, not as soon as it is whole.
    pub fn keep(&mut self, object: ObjectId) {
        self.wants.change(object, |want| want.is_kept = true);
    }

    /// An object is not asked for before [`let_ask`](Self::let_ask).
    pub fn hold(&mut self, object: ObjectId) {
        self.wants.change(object, |want| want.is_held = true);
    }

    /// An object that was held may be asked for.
    pub fn let_ask(&mut self, object: ObjectId, now: Instant) {
        let was_held = self
            .wants
            .change(object, |want| std::mem::take(&mut want.is_held));
        if was_held == Some(true) && self.asked.is_empty() {
            self.heard = now;
            self.resume();
        }
    }

    /// Counts bytes of an object as come that were written to disk meanwhile.
    pub fn settle(&mut self, object: ObjectId, now: Instant) -> Taken {
        let settled = self.wants.change(object, |want| {
            let before = want.spool.available();
            let was_whole = want.spool.is_whole();
            want.spool.settle();
            let is_whole = want.spool.is_whole() && !was_whole;
            (is_whole, want.spool.available() > before)
        });
        match settled {
            Some((true, _)) => {
                self.whole(object, now);
                Taken::Readable
            }
            Some((false, true)) => Taken::Readable,
            Some((false, false)) | None => Taken::Nothing,
        }
    }

    /// Counts an object for this owner.
    pub fn belongs(&mut self, object: ObjectId, owner: Owner) {
        self.wants.change(object, |want| want.spool.belongs(owner));
    }

    /// An object that is wanted.
    pub fn get(&self, object: ObjectId) -> Option<&WantedObject> {
        self.wants.get(object)
    }

    /// Bytes that were asked for: they are held as soon as they come.
    pub fn asked(&self) -> u64 {
        self.asked.on_its_way() + self.asked.waiting()
    }

    /// The window, for the status of a neighbour.
    pub fn window(&self) -> &Window {
        &self.window
    }

    /// Takes the next bytes for the reader, at most so many.
    pub fn read(&mut self, object: ObjectId, most: usize) -> Bytes {
        let read = self.wants.change(object, |want| {
            let most = most.min((want.spool.available() - want.taken) as usize);
            let bytes = want.spool.read(want.taken, most);
            want.taken += bytes.len() as u64;
            want.spool.release(want.taken);
            bytes
        });
        read.unwrap_or_default()
    }

    /// Drops an object whose reader has left, whether all of it has come or not, and tells the sender.
    pub fn forget(&mut self, object: ObjectId, now: Instant) {
        let Some(want) = self.wants.remove(object) else {
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
        self.wants.remove(object);
        self.drop_asked(object);
    }

    /// The other side has forgotten the object, and is asked for it as at first.
    pub fn begin_again(&mut self, object: ObjectId, now: Instant) {
        let before = self.wants.get(object).map(|want| want.spool.begun_again());
        self.discard(object);
        self.heard = now;
        self.resume();
        self.want(object, false, before.unwrap_or_default(), now);
    }

    /// Whether something is to be asked for.
    pub fn has_work(&self) -> bool {
        self.wants.open() > 0
    }

    /// The time since the last answer; `None` if nothing is asked for.
    pub fn unanswered(&self, now: Instant) -> Option<Duration> {
        self.has_work()
            .then(|| now.saturating_duration_since(self.heard))
    }

    /// When there is something to ask for at the latest, if nothing comes.
    pub fn timeout(&self, now: Instant) -> Option<Instant> {
        let ask = self
            .has_work()
            .then(|| self.probe.unwrap_or_else(|| self.heard + self.silence(now)));
        ask.into_iter().chain(self.fins.due).min()
    }

    /// The neighbour may be reached now: it is asked at once.
    pub fn hurry(&mut self, now: Instant) {
        // A neighbour that answers needs no probe: it is asked as its window allows.
        if self.probe.is_some() {
            self.probe = Some(now);
            self.hurried = Some(now);
        }
    }

    /// All of an object has come.
    fn whole(&mut self, object: ObjectId, now: Instant) {
        self.drop_asked(object);
        let is_kept = self.wants.get(object).is_some_and(|want| want.is_kept);
        // A request is let go with its exchange: only then it is certain that it will not be needed again.
        if object.part == ObjectPart::Response && !is_kept {
            self.let_go(object, FinCode::Complete, now);
        }
    }

    fn let_go(&mut self, object: ObjectId, code: FinCode, now: Instant) {
        self.drop_asked(object);
        self.fins.add(object, code, now);
    }

    fn silence(&self, now: Instant) -> Duration {
        // A sender that has had nothing to say for long is disturbed less often.
        let waiting = now.saturating_duration_since(self.progress) > PATIENT;
        let quiet = if waiting {
            Duration::from_secs(1)
        } else {
            SILENCE
        };
        quiet + self.window.round_trip() * 2
    }

    fn resume(&mut self) {
        self.probe = None;
    }

    /// Counts all bytes on their way as lost.
    fn lose_all(&mut self) {
        for asked in self.asked.take(|_| true) {
            self.ask_again(asked.object, asked.range);
        }
    }

    fn ask_again(&mut self, object: ObjectId, lost: CustodyRange) {
        self.wants.change(object, |want| want.again.insert(lost));
    }

    fn drop_asked(&mut self, object: ObjectId) {
        self.asked.drop_object(object);
    }
}

#[cfg(test)]
mod tests {
    use hermes_proto::custody::{CustodyFrame, Extent};

    use super::questions::SLOWEST_PROBE;
    use super::*;
    use crate::room::Room;

    const ROOM: Room = Room {
        free: 1 << 20,
        guaranteed: GUARANTEED,
        is_disk_full: false,
    };

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
                    room: ROOM,
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
    fn a_silent_neighbour_is_asked_for_the_same_bytes_again_and_again() {
        let mut now = Instant::now();
        let mut receiver = Receiver::new(now);
        receiver.want(RESPONSE, true, Spool::default(), now);
        for _ in 0..20 {
            while let Some(frame) = receiver.poll_ask(ROOM, now, 0.5) {
                let CustodyFrame::Req { ranges, .. } = frame else {
                    panic!("{frame:?}");
                };
                assert_eq!(ranges[0].offset, 0);
            }
            now = receiver.timeout(now).unwrap();
        }
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
