//! An object that is asked for: its bytes so far, and the ranges that are still to be asked for.

use std::collections::BTreeMap;
use std::ops::Range;

use hermes_proto::custody::{CustodyRange, ErrCode, Extent, ObjectId};

use crate::ranges::RangeSet;
use crate::spool::Spool;

/// Bytes of an object that are asked for beyond what its reader has taken.
#[doc(alias = "bound")]
pub const AHEAD: u64 = 8 * 1024 * 1024;

/// An object that is wanted.
#[derive(Debug, Default)]
pub struct WantedObject {
    pub(super) spool: Spool,
    /// How much the sender has.
    pub(super) known: Extent,
    /// Everything from here on was not asked for yet.
    pub(super) next: u64,
    /// The ranges before it that have to be asked for again.
    pub(super) again: RangeSet,
    /// The number of bytes that the reader has taken.
    pub(super) taken: u64,
    /// The sender has answered for it.
    pub acknowledged: bool,
    /// It will not come.
    pub(super) broken: Option<ErrCode>,
    /// It is let go by its reader, not as soon as it is whole.
    pub(super) is_kept: bool,
    /// It is not asked for yet.
    pub(super) is_held: bool,
}

impl WantedObject {
    /// Whether there is nothing more to ask for.
    pub(super) fn is_over(&self) -> bool {
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

    /// The number of bytes that its reader has taken.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Where asking ends for now.
    fn ceiling(&self) -> u64 {
        let ahead = self.taken + AHEAD;
        self.known.total.map_or(ahead, |total| total.min(ahead))
    }

    /// The next range to ask for, at most so many bytes.
    pub(super) fn wanted(&self, most: u64) -> Option<CustodyRange> {
        if self.is_over() || self.is_held || most == 0 {
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

    /// Takes the extent that the sender gives: returns the bytes that it did not have before, and the end of the object. `None` if it contradicts itself:
    /// then the object is broken.
    pub(super) fn learn(&mut self, extent: Extent) -> Option<(Range<u64>, Option<u64>)> {
        let agrees = extent.total.is_none_or(|total| self.spool.set_total(total));
        if !agrees {
            self.broken = Some(ErrCode::Broken);
            return None;
        }

        let before = self.known.available;
        self.known.total = self.known.total.or(extent.total);
        self.known.available = before.max(extent.available);
        Some((before..self.known.available, self.known.total))
    }

    pub(super) fn ask(&mut self, asked: CustodyRange) {
        self.again.remove(asked);
        self.next = self.next.max(asked.end());
    }
}

/// All objects that are wanted.
#[derive(Debug, Default)]
pub(super) struct WantedObjects {
    wants: BTreeMap<ObjectId, WantedObject>,
    /// How many of them are not over.
    open: usize,
}

impl WantedObjects {
    /// Objects of which there is more to ask for.
    pub(super) fn open(&self) -> usize {
        self.open
    }

    pub(super) fn get(&self, object: ObjectId) -> Option<&WantedObject> {
        self.wants.get(&object)
    }

    /// Adds one, unless it is there.
    pub(super) fn add(&mut self, object: ObjectId, want: WantedObject) {
        let is_open = !want.is_over();
        self.wants.entry(object).or_insert_with(|| {
            self.open += usize::from(is_open);
            want
        });
    }

    pub(super) fn remove(&mut self, object: ObjectId) -> Option<WantedObject> {
        let want = self.wants.remove(&object)?;
        self.open -= usize::from(!want.is_over());
        Some(want)
    }

    /// Changes one, if it is there.
    pub(super) fn change<T>(
        &mut self,
        object: ObjectId,
        change: impl FnOnce(&mut WantedObject) -> T,
    ) -> Option<T> {
        let want = self.wants.get_mut(&object)?;
        self.open -= usize::from(!want.is_over());
        // Out of the count and in again: the change may end the object.
        let changed = change(want);
        self.open += usize::from(!want.is_over());
        Some(changed)
    }

    /// All of them, from the one after this on.
    pub(super) fn after(
        &self,
        turn: Option<ObjectId>,
    ) -> impl Iterator<Item = (ObjectId, &WantedObject)> {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let from = turn.map_or(Unbounded, Excluded);
        let to = turn.map(|turn| self.wants.range((Unbounded, Included(turn))));
        let after = self.wants.range((from, Unbounded));
        let all = after.chain(to.into_iter().flatten());
        all.map(|(object, want)| (*object, want))
    }
}
