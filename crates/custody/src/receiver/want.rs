//! An object that is asked for: what there is of it, and what is still to be asked for.

use hermes_proto::custody::{CustodyRange, ErrCode, Extent};

use super::AHEAD;
use crate::ranges::RangeSet;
use crate::spool::Spool;

/// An object that is wanted.
#[derive(Debug, Default)]
pub struct Want {
    pub(super) spool: Spool,
    /// How much the sender has.
    pub(super) known: Extent,
    /// Everything from here on was not asked for yet.
    pub(super) next: u64,
    /// What lies before and has to be asked for again.
    pub(super) again: RangeSet,
    /// What the reader has taken.
    pub(super) taken: u64,
    /// The sender has answered for it.
    pub acknowledged: bool,
    /// It will not come.
    pub(super) broken: Option<ErrCode>,
    /// Its owner has as much as one may.
    pub(super) is_crowded: bool,
    /// It is let go by its reader, not as soon as it is whole.
    pub(super) is_kept: bool,
}

impl Want {
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
    pub(super) fn wanted(&self, most: u64) -> Option<CustodyRange> {
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

    pub(super) fn ask(&mut self, asked: CustodyRange) {
        self.again.remove(asked);
        self.next = self.next.max(asked.end());
    }
}
