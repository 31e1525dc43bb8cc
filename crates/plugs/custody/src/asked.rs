//! Ranges that were asked for and have not come.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::time::{Duration, Instant};

use hermes_proto::custody::{CustodyRange, ObjectId};

use crate::ranges::range;

/// Parts into which the ranges may fall: a window of single datagrams of which every other one was lost.
#[doc(alias = "bound")]
const PARTS: usize = 4096;

/// How often it is looked which questions were lost.
#[doc(alias = "bound")]
const LOOK: Duration = Duration::from_millis(1);

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

/// All that was asked for, by object and offset: no byte is asked for twice at a time. The sums run along.
#[derive(Debug, Default)]
pub(crate) struct AllAsked {
    asked: BTreeMap<(ObjectId, u64), Asked>,
    objects: HashMap<ObjectId, u64>,
    on_its_way: u64,
    waiting: u64,
    /// When it was looked last which questions were lost.
    looked: Option<Instant>,
}

impl AllAsked {
    /// Whether it is time to look which questions were lost: not with each datagram, which would be a look at all of them.
    pub(crate) fn is_to_be_looked_through(&mut self, now: Instant) -> bool {
        let is_early = |looked: Instant| now.saturating_duration_since(looked) < LOOK;
        if self.looked.is_some_and(is_early) {
            return false;
        }
        self.looked = Some(now);
        true
    }

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
        self.objects.get(&object).copied().unwrap_or_default()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.asked.is_empty()
    }

    /// Whether the sender has heard all questions, and has no bytes for them.
    pub(crate) fn is_all_heard(&self) -> bool {
        let mut asked = self.asked.values();
        !self.asked.is_empty() && asked.all(|asked| asked.waits && asked.is_heard)
    }

    pub(crate) fn add(&mut self, asked: Asked) {
        *self.objects.entry(asked.object).or_default() += asked.range.length;
        *self.sum(asked.waits) += asked.range.length;
        let before = self.asked.insert((asked.object, asked.range.offset), asked);
        if let Some(before) = before {
            self.uncount(&before);
        }
    }

    /// The one that was asked for first, which is asked for once more.
    pub(crate) fn again(&mut self, serial: u64, now: Instant) -> Option<Asked> {
        let first = self.asked.values().min_by_key(|asked| asked.sent)?;
        let again = Asked {
            serial,
            at: now,
            sent: now,
            is_heard: false,
            ..*first
        };
        self.add(again);
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
        let asked = self.asked.range_mut((object, 0)..=(object, u64::MAX));
        for (_, asked) in asked.filter(|(_, asked)| asked.serial == serial) {
            if !asked.is_heard {
                took = Some(now.saturating_duration_since(asked.sent));
            }
            asked.is_heard = true;
        }
        took
    }

    /// How many of these bytes were asked for.
    pub(crate) fn overlap(&self, object: ObjectId, came: CustodyRange) -> u64 {
        let parts = self.overlapping(object, came);
        let lengths = parts.map(|asked| {
            let start = asked.range.offset.max(came.offset);
            asked.range.end().min(came.end()) - start
        });
        lengths.sum()
    }

    /// Removes bytes that came. Returns the time that the answer took to the question that it names.
    pub(crate) fn settle(
        &mut self,
        object: ObjectId,
        serial: u64,
        came: CustodyRange,
        now: Instant,
    ) -> Option<Duration> {
        let mut took = None;
        let parts: Vec<_> = self.overlapping(object, came).copied().collect();
        for asked in parts {
            let start = asked.range.offset.max(came.offset);
            let end = asked.range.end().min(came.end());
            let rest = [(asked.range.offset, start), (end, asked.range.end())];
            let is_split = rest.iter().all(|(from, to)| from < to);
            // Who answers with crumbs out of the middle is not followed: it is asked for all of it again.
            if is_split && self.asked.len() >= PARTS {
                continue;
            }

            if asked.serial == serial {
                took = Some(now.saturating_duration_since(asked.sent));
            }
            self.remove((object, asked.range.offset));
            // Bytes on both sides of it are still to come.
            for (from, to) in rest.into_iter().filter(|(from, to)| from < to) {
                let range = range(from, to);
                self.add(Asked { range, ..asked });
            }
        }
        took
    }

    /// The sender has these bytes of an object now.
    pub(crate) fn available(&mut self, object: ObjectId, new: Range<u64>, now: Instant) {
        if new.is_empty() {
            return;
        }
        let mut there = 0;
        for (_, asked) in self.asked.range_mut((object, new.start)..(object, new.end)) {
            // On a link from now on, where it can be lost.
            asked.at = now;
            if std::mem::take(&mut asked.waits) {
                there += asked.range.length;
            }
        }
        self.waiting -= there;
        self.on_its_way += there;
    }

    /// Nothing lies beyond the end of an object.
    pub(crate) fn cut(&mut self, object: ObjectId, end: u64) {
        let behind = self.asked.range((object, end)..=(object, u64::MAX));
        let behind: Vec<_> = behind.map(|(key, _)| *key).collect();
        for key in behind {
            self.remove(key);
        }

        let before = self.asked.range((object, 0)..(object, end)).next_back();
        let across = before.map(|(_, asked)| *asked);
        if let Some(asked) = across.filter(|asked| asked.range.end() > end) {
            let range = range(asked.range.offset, end);
            self.add(Asked { range, ..asked });
        }
    }

    /// Takes the first bytes that were asked for of an object, at most so many.
    pub(crate) fn take_first(&mut self, object: ObjectId, most: u64) -> Option<CustodyRange> {
        let mut of_object = self.asked.range((object, 0)..=(object, u64::MAX));
        let (_, first) = of_object.next()?;
        let first = *first;
        let taken = CustodyRange {
            length: first.range.length.min(most),
            ..first.range
        };
        self.remove((object, first.range.offset));
        if taken.end() < first.range.end() {
            let range = range(taken.end(), first.range.end());
            self.add(Asked { range, ..first });
        }
        Some(taken)
    }

    /// Takes those of one object out.
    pub(crate) fn drop_object(&mut self, object: ObjectId) {
        self.cut(object, 0);
    }

    /// Takes those out that this is true of.
    pub(crate) fn take(&mut self, is_taken: impl Fn(&Asked) -> bool) -> Vec<Asked> {
        let taken = self.asked.values().filter(|asked| is_taken(asked)).copied();
        let taken: Vec<_> = taken.collect();
        for asked in &taken {
            self.remove((asked.object, asked.range.offset));
        }
        taken
    }

    fn overlapping(
        &self,
        object: ObjectId,
        came: CustodyRange,
    ) -> impl Iterator<Item = &Asked> + '_ {
        let before = self.asked.range((object, 0)..(object, came.offset));
        let across = before.map(|(_, asked)| asked).next_back();
        let across = across.filter(move |asked| asked.range.end() > came.offset);
        let within = self
            .asked
            .range((object, came.offset)..(object, came.end()));
        across.into_iter().chain(within.map(|(_, asked)| asked))
    }

    fn remove(&mut self, key: (ObjectId, u64)) {
        if let Some(asked) = self.asked.remove(&key) {
            self.uncount(&asked);
        }
    }

    fn uncount(&mut self, asked: &Asked) {
        let length = asked.range.length;
        *self.sum(asked.waits) -= length;
        if let Some(known) = self.objects.get_mut(&asked.object) {
            *known -= length;
            if *known == 0 {
                self.objects.remove(&asked.object);
            }
        }
    }

    fn sum(&mut self, waits: bool) -> &mut u64 {
        match waits {
            true => &mut self.waiting,
            false => &mut self.on_its_way,
        }
    }
}

#[cfg(test)]
mod tests {
    use hermes_proto::custody::ObjectPart;
    use proptest::prelude::*;

    use super::*;

    fn object(number: u8) -> ObjectId {
        ObjectId {
            exchange: [number; 16],
            part: ObjectPart::Response,
        }
    }

    /// What the sums are to be.
    fn sums(asked: &AllAsked) -> (u64, u64) {
        let of = |waits| {
            let counted = asked.asked.values().filter(|asked| asked.waits == waits);
            counted.map(|asked| asked.range.length).sum()
        };
        (of(false), of(true))
    }

    proptest! {
        #[test]
        fn sums_are_those_of_what_is_still_asked_for(
            steps in proptest::collection::vec((0..5_u8, 0..3_u8, 0..60_u64, 1..30_u64), 0..60),
        ) {
            let now = Instant::now();
            let mut all = AllAsked::default();
            for (serial, (step, number, offset, length)) in steps.into_iter().enumerate() {
                let object = object(number);
                let range = range(offset, offset + length);
                match step {
                    0 if all.overlap(object, range) == 0 => all.add(Asked {
                        object,
                        serial: serial as u64,
                        range,
                        at: now,
                        sent: now,
                        waits: length % 2 == 0,
                        is_heard: false,
                    }),
                    1 => {
                        all.settle(object, 0, range, now);
                        prop_assert_eq!(all.overlap(object, range), 0);
                    }
                    2 => all.available(object, range.offset..range.end(), now),
                    3 => {
                        all.cut(object, offset);
                        let behind = CustodyRange { offset, length: u64::from(u32::MAX) };
                        prop_assert_eq!(all.overlap(object, behind), 0);
                    }
                    4 => drop(all.take_first(object, length)),
                    _ => {}
                }
                prop_assert_eq!((all.on_its_way(), all.waiting()), sums(&all));
                let objects: u64 = (0..3).map(|number| all.of(self::object(number))).sum();
                prop_assert_eq!(objects, all.on_its_way() + all.waiting());
            }
        }
    }

    #[test]
    fn crumbs_out_of_the_middle_are_not_followed_without_end() {
        let now = Instant::now();
        let mut all = AllAsked::default();
        all.add(Asked {
            object: object(1),
            serial: 1,
            range: range(0, 1 << 20),
            at: now,
            sent: now,
            waits: false,
            is_heard: false,
        });
        for crumb in 0..100_000 {
            all.settle(object(1), 1, range(2 * crumb + 1, 2 * crumb + 2), now);
        }
        assert!(all.asked.len() <= PARTS);
        all.settle(object(1), 1, range(0, 1 << 20), now);
        assert!(all.is_empty());
    }
}
