//! What was asked for and has not come.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};

use hermes_proto::custody::{CustodyRange, ObjectId};

use crate::ranges::range;

/// Bytes that were asked for at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) object: ObjectId,
    pub(crate) serial: u64,
    pub(crate) range: CustodyRange,
    /// When it was asked for, or when it became known that it is available.
    pub(crate) at: Instant,
    pub(crate) sent: Instant,
    /// The sender does not have it yet, as far as is known: nothing of it is on a link.
    pub(crate) waits: bool,
    /// The sender has said that it was asked.
    pub(crate) is_heard: bool,
}

/// All that was asked for, in its order.
#[derive(Debug, Default)]
pub(crate) struct AllAsked {
    asked: VecDeque<Asked>,
    on_its_way: u64,
    waiting: u64,
}

impl AllAsked {
    /// Bytes that the sender has, or that it may have.
    pub(crate) fn on_its_way(&self) -> u64 {
        self.on_its_way
    }

    /// Bytes that the sender sends when it has them.
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting
    }

    /// Bytes of an object.
    pub(crate) fn of(&self, object: ObjectId) -> u64 {
        let asked = self.asked.iter().filter(|asked| asked.object == object);
        asked.map(|asked| asked.range.length).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.asked.is_empty()
    }

    /// Whether the sender knows all of it, and has none.
    pub(crate) fn is_all_heard(&self) -> bool {
        let mut asked = self.asked.iter();
        !self.asked.is_empty() && asked.all(|asked| asked.waits && asked.is_heard)
    }

    pub(crate) fn add(&mut self, asked: Asked) {
        self.asked.push_back(asked);
        self.count();
    }

    /// The one that was asked for first, which is asked for once more.
    pub(crate) fn again(&mut self, serial: u64, now: Instant) -> Option<Asked> {
        let first = self.asked.pop_front()?;
        let again = Asked {
            serial,
            at: now,
            sent: now,
            is_heard: false,
            ..first
        };
        self.asked.push_back(again);
        Some(again)
    }

    /// The sender has answered to this question. How long that took, if it is the first answer.
    pub(crate) fn heard(
        &mut self,
        object: ObjectId,
        serial: u64,
        now: Instant,
    ) -> Option<Duration> {
        let mut took = None;
        let asked = self.asked.iter_mut();
        for asked in asked.filter(|asked| asked.object == object && asked.serial == serial) {
            if !asked.is_heard {
                took = Some(now.saturating_duration_since(asked.sent));
            }
            asked.is_heard = true;
        }
        took
    }

    /// Takes what came out. How long it took.
    pub(crate) fn settle(
        &mut self,
        object: ObjectId,
        serial: u64,
        came: CustodyRange,
        now: Instant,
    ) -> Option<Duration> {
        let mut took = None;
        let mut index = 0;
        while let Some(asked) = self.asked.get(index).copied() {
            let start = asked.range.offset.max(came.offset);
            let end = asked.range.end().min(came.end());
            if asked.object != object || start >= end {
                index += 1;
                continue;
            }

            if asked.serial == serial {
                took = Some(now.saturating_duration_since(asked.sent));
            }
            self.asked.remove(index);
            // What lies on both sides of it is still to come.
            let rest = [(end, asked.range.end()), (asked.range.offset, start)];
            for (from, to) in rest.into_iter().filter(|(from, to)| from < to) {
                let range = range(from, to);
                self.asked.insert(index, Asked { range, ..asked });
            }
        }
        self.count();
        took
    }

    /// The sender has these bytes of an object now.
    pub(crate) fn available(&mut self, object: ObjectId, new: Range<u64>, now: Instant) {
        for asked in self.asked.iter_mut().filter(|asked| asked.object == object) {
            if new.contains(&asked.range.offset) {
                asked.at = now;
                asked.waits = false;
            }
        }
        self.count();
    }

    /// Nothing lies beyond the end of an object.
    pub(crate) fn cut(&mut self, object: ObjectId, end: u64) {
        for asked in self.asked.iter_mut().filter(|asked| asked.object == object) {
            let range = &mut asked.range;
            range.length -= range.end().saturating_sub(end).min(range.length);
        }
        self.asked.retain(|asked| asked.range.length > 0);
        self.count();
    }

    /// Takes the beginning of what was asked for first of an object, at most so many bytes.
    pub(crate) fn take_first(&mut self, object: ObjectId, most: u64) -> Option<CustodyRange> {
        let mut of_object = self.asked.iter_mut();
        let first = of_object.find(|asked| asked.object == object)?;
        let taken = CustodyRange {
            length: first.range.length.min(most),
            ..first.range
        };
        first.range = range(taken.end(), first.range.end());
        self.asked.retain(|asked| asked.range.length > 0);
        self.count();
        Some(taken)
    }

    /// Takes those out that this is true of.
    pub(crate) fn take(&mut self, is_taken: impl Fn(&Asked) -> bool) -> Vec<Asked> {
        let taken = self.asked.iter().filter(|asked| is_taken(asked)).copied();
        let taken: Vec<_> = taken.collect();
        if !taken.is_empty() {
            self.asked.retain(|asked| !is_taken(asked));
            self.count();
        }
        taken
    }

    fn count(&mut self) {
        (self.on_its_way, self.waiting) = (0, 0);
        for asked in &self.asked {
            let sum = match asked.waits {
                true => &mut self.waiting,
                false => &mut self.on_its_way,
            };
            *sum += asked.range.length;
        }
    }
}
