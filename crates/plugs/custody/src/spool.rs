//! The bytes of one object, as they come and until they are let go.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use hermes_proto::custody::{Extent, ObjectPart};

use crate::disk::{Appended, RECORD, Settled, SharedLog};
use crate::owner::{HeldAccount, HeldBytes, Owner};

/// Bytes below which a piece counts for more than they are, and is copied: a slice would keep the datagram or buffer that it came in.
#[doc(alias = "bound")]
const SMALL: usize = 1024;

/// Bytes that a small piece counts beside its own: those of its entry and allocation, whether it is in memory or on disk.
#[doc(alias = "bound")]
const OVERHEAD: usize = 128;

/// Bytes below which a piece that this node writes is copied: a slice would keep all of the buffer of a connection.
const COPIED: usize = 16 * 1024;

/// The bytes of one object, in memory or in the file of their exchange. They come in any order, are read by offset, and are let go from
/// the beginning on.
#[derive(Debug, Default)]
pub struct Spool {
    /// Pieces that do not overlap, by their offset.
    pieces: BTreeMap<u64, Piece>,
    /// Where they are kept, and as which object.
    log: Option<(SharedLog, ObjectPart)>,
    /// Bytes on disk can be read again after they were let go: this node has to know its own message.
    is_recalled: bool,
    /// A record on disk was found to be damaged.
    is_damaged: Cell<bool>,
    /// The offset of the first byte that was not let go.
    begin: u64,
    /// The offset of the first gap among settled bytes: those in memory without a file, or in the file.
    available: u64,
    /// The offset of the first gap among all bytes, those that are still to be written included.
    end: u64,
    total: Option<u64>,
    /// Where the record of the total ends in the file, until it is written.
    writing_total: Option<u64>,
    /// The pieces that are still to be written, by their offset, in the order of the file.
    writing: VecDeque<u64>,
    /// Bytes of memory that the pieces take.
    held: HeldAccount,
}

/// Bytes without a gap.
#[derive(Debug, Clone)]
enum Piece {
    Memory(Bytes),
    /// A record that is still to be written: it does not count as come.
    Writing(Appended),
    /// A record of the file.
    Disk {
        at: u64,
        length: usize,
    },
}

impl Piece {
    /// Bytes of memory that it takes.
    fn cost(&self) -> u64 {
        match self {
            Self::Memory(bytes) => cost(bytes.len()),
            Self::Writing(record) => cost(record.content.len()),
            Self::Disk { length, .. } => overhead(*length),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Memory(bytes) => bytes.len(),
            Self::Writing(record) => record.content.len(),
            Self::Disk { length, .. } => *length,
        }
    }
}

impl Spool {
    /// One whose bytes are kept in a file, as long as that has room.
    pub(crate) fn on_disk(log: SharedLog, part: ObjectPart) -> Self {
        Self {
            log: Some((log, part)),
            ..Self::default()
        }
    }

    /// Counts its bytes in these sums, for this owner.
    pub(crate) fn counted(mut self, sums: &HeldBytes, owner: Option<Owner>) -> Self {
        let bytes = self.held.bytes();
        self.held = sums.account(owner);
        self.held.grow(bytes);
        self
    }

    /// An empty one in memory, which counts where this one does.
    pub(crate) fn begun_again(&self) -> Self {
        Self {
            held: self.held.fresh(),
            ..Self::default()
        }
    }

    /// Counts its bytes for this owner.
    pub(crate) fn belongs(&mut self, owner: Owner) {
        self.held.belongs(owner);
    }

    /// Whether its owner holds as much as one may, where `held` of `limit` are held in all.
    pub(crate) fn is_crowded(&self, held: u64, limit: u64) -> bool {
        self.held.is_crowded(held, limit)
    }

    /// Finds bytes again that are in the file.
    pub(crate) fn recall(&mut self, offset: u64, at: u64, length: usize) {
        self.is_recalled = true;
        if self.covered_to(offset) == offset {
            self.add(offset, Piece::Disk { at, length });
        }
        self.end = self.covered_to(self.end);
        self.available = self.settled_to(self.available);
    }

    /// Finds its length again.
    pub(crate) fn recall_total(&mut self, total: u64) {
        self.total = Some(total);
    }

    /// The bytes that are available, and the length once that is known.
    pub fn extent(&self) -> Extent {
        Extent {
            total: self.settled_total(),
            available: self.available,
        }
    }

    /// The offset of the first gap.
    pub fn available(&self) -> u64 {
        self.available
    }

    /// The offset of the first byte that is still kept.
    pub fn begin(&self) -> u64 {
        self.begin
    }

    /// Bytes of memory that it takes. Pieces on disk take none, unless they are small.
    pub fn held(&self) -> usize {
        self.held.bytes() as usize
    }

    /// Whether all of its bytes are available.
    pub fn is_whole(&self) -> bool {
        self.settled_total() == Some(self.available)
    }

    /// Its length, once that is written where it is kept.
    fn settled_total(&self) -> Option<u64> {
        self.total.filter(|_| self.writing_total.is_none())
    }

    /// Where the first gap is among all bytes, those that are still to be written included.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Whether its bytes are kept in a file.
    pub(crate) fn is_on_disk(&self) -> bool {
        let log = self.log.as_ref();
        log.is_some_and(|(log, _)| log.lock().is_whole())
    }

    /// Whether the file of its exchange is still to be made.
    pub(crate) fn is_beginning(&self) -> bool {
        let log = self.log.as_ref();
        log.is_some_and(|(log, _)| log.lock().settled() == Settled::Written(0))
    }

    /// Counts bytes as come that were written meanwhile, or that stay in memory.
    pub(crate) fn settle(&mut self) {
        let Some((log, _)) = &self.log else {
            return;
        };
        let settled = log.lock().settled();
        // In the order of the file: a record is settled only with all that stand before it.
        while let Some(offset) = self.writing.front().copied() {
            if let Some(Piece::Writing(record)) = self.pieces.get(&offset) {
                if !settled.has(record.end) {
                    break;
                }
                let piece = match settled {
                    Settled::InMemory => Piece::Memory(record.content.clone()),
                    Settled::Written(_) => Piece::Disk {
                        at: record.at,
                        length: record.content.len(),
                    },
                };
                self.add(offset, piece);
            }
            self.writing.pop_front();
        }

        if self.writing_total.is_some_and(|end| settled.has(end)) {
            self.writing_total = None;
        }
        self.available = self.settled_to(self.available);
    }

    /// Sets its length. False if bytes that came, or a length that is known, contradict it.
    pub fn set_total(&mut self, total: u64) -> bool {
        let end = self.pieces.last_key_value();
        let end = end.map_or(self.end, |(offset, piece)| offset + piece.len() as u64);
        let agrees = match self.total {
            Some(known) => known == total,
            None => end <= total,
        };

        if agrees && self.total.is_none() {
            self.total = Some(total);
            if let Some((log, part)) = &self.log {
                self.writing_total = log.lock().keep_total(*part, total);
            }
        }
        agrees
    }

    /// Appends bytes at the end of those without a gap.
    pub fn append(&mut self, mut bytes: Bytes) {
        let at = self.end;
        if self.log.is_none() && (SMALL..COPIED).contains(&bytes.len()) {
            bytes = Bytes::copy_from_slice(&bytes);
        }
        self.insert(at, bytes);
    }

    /// Adds bytes, and returns how many were new: bytes that are here already stay as they are. Bytes for a file count as come when they
    /// are settled.
    pub fn insert(&mut self, offset: u64, mut bytes: Bytes) -> usize {
        let mut new = 0;
        let mut at = offset;
        // Bytes that were let go are not taken again.
        let skip = self.begin.saturating_sub(at).min(bytes.len() as u64);
        at += skip;
        drop(bytes.split_to(skip as usize));

        while !bytes.is_empty() {
            let end = at + bytes.len() as u64;
            let covered = self.covered_within(at, end).min(end);
            if covered > at {
                drop(bytes.split_to((covered - at) as usize));
                at = covered;
                continue;
            }
            let next = self.pieces.range(at..).next().map(|(next, _)| *next);
            let room = next.map_or(bytes.len(), |next| (next - at) as usize);
            let piece = bytes.split_to(room.min(bytes.len()));
            let length = piece.len();
            new += length;
            self.keep(at, piece);
            at += length as u64;
        }

        self.end = self.covered_to(self.end);
        self.available = self.settled_to(self.available);
        new
    }

    /// Keeps a piece where there was none: in the file if there is one, and else in memory.
    fn keep(&mut self, mut offset: u64, mut bytes: Bytes) {
        while let Some((log, part)) = &self.log
            && !bytes.is_empty()
        {
            let length = bytes.len().min(RECORD);
            let Some(record) = log.lock().keep(*part, offset, &bytes[..length]) else {
                // The file is full, or was given up: the exchange goes on in memory.
                break;
            };
            drop(bytes.split_to(length));
            self.writing.push_back(offset);
            self.add(offset, Piece::Writing(record));
            offset += length as u64;
        }
        if bytes.is_empty() {
            return;
        }
        if bytes.len() < SMALL {
            bytes = Bytes::copy_from_slice(&bytes);
        }
        self.add(offset, Piece::Memory(bytes));
    }

    fn add(&mut self, offset: u64, piece: Piece) {
        self.held.grow(piece.cost());
        if let Some(before) = self.pieces.insert(offset, piece) {
            self.held.shrink(before.cost());
        }
    }

    /// Bytes from `offset` on, at most so many; none if they are not here, or [damaged](Self::is_damaged).
    pub fn read(&self, offset: u64, most: usize) -> Bytes {
        let before = self.pieces.range(..=offset).next_back();
        let Some((start, piece)) = before else {
            return Bytes::new();
        };
        let from = (offset - start) as usize;
        let to = piece.len().min(from.saturating_add(most));
        if from < to {
            self.bytes_of(piece)
                .map_or(Bytes::new(), |bytes| bytes.slice(from..to))
        } else {
            Bytes::new()
        }
    }

    /// Whether bytes were found on disk that are not those that were kept.
    pub fn is_damaged(&self) -> bool {
        self.is_damaged.get()
    }

    fn bytes_of(&self, piece: &Piece) -> Option<Bytes> {
        let read = match (piece, &self.log) {
            (Piece::Memory(bytes), _) => return Some(bytes.clone()),
            (Piece::Writing(record), _) => return Some(record.content.clone()),
            (Piece::Disk { at, length }, Some((log, _))) => {
                let read = log.lock().read(*at);
                read.filter(|bytes| bytes.len() == *length)
            }
            (Piece::Disk { .. }, None) => None,
        };
        if read.is_none() {
            self.is_damaged.set(true);
        }
        read
    }

    /// Lets everything before `offset` go. How many bytes of memory that were.
    pub fn release(&mut self, offset: u64) -> usize {
        let held = self.held();
        let offset = offset.min(self.available);
        if self.is_recalled {
            // A node that was started again reads back the beginning of its own message (`crate::resume`).
            self.release_memory(offset);
            return held - self.held();
        }
        while let Some(first) = self.pieces.first_entry() {
            let start = *first.key();
            let length = first.get().len() as u64;
            if start >= offset {
                break;
            }
            if start + length <= offset {
                let cost = first.remove().cost();
                self.held.shrink(cost);
                continue;
            }
            let Piece::Memory(bytes) = first.get() else {
                // A record costs no memory in part: it goes as a whole.
                break;
            };
            // Copied, or a little of it would keep all of it in memory.
            let rest = Bytes::copy_from_slice(&bytes[(offset - start) as usize..]);
            let cost = first.remove().cost();
            self.held.shrink(cost);
            self.add(offset, Piece::Memory(rest));
        }

        self.begin = self.begin.max(offset);
        held.saturating_sub(self.held())
    }

    /// Lets go of pieces in memory before `offset`; those on disk stay.
    fn release_memory(&mut self, offset: u64) {
        self.begin = self.begin.max(offset);
        if self.held.bytes() == 0 {
            return;
        }
        let held = &mut self.held;
        self.pieces.retain(|start, piece| {
            let end = start + piece.len() as u64;
            let goes = matches!(piece, Piece::Memory(_)) && end <= offset;
            if goes {
                held.shrink(piece.cost());
            }
            !goes
        });
    }

    /// Where the settled piece ends that holds this offset, or those that follow it without a gap.
    fn settled_to(&self, offset: u64) -> u64 {
        let mut end = offset;
        while end < self.end {
            match self.pieces.range(..=end).next_back() {
                None | Some((_, Piece::Writing(_))) => return end,
                Some((start, piece)) => end = start + piece.len() as u64,
            }
        }
        end
    }

    /// Where the piece ends that holds this offset, or those that follow it without a gap.
    fn covered_to(&self, offset: u64) -> u64 {
        self.covered_within(offset, u64::MAX)
    }

    /// As [`covered_to`](Self::covered_to), as far as it matters.
    fn covered_within(&self, offset: u64, limit: u64) -> u64 {
        let mut end = offset;
        while end < limit {
            let piece = self.pieces.range(..=end).next_back();
            match piece.map(|(start, piece)| start + piece.len() as u64) {
                Some(to) if to > end => end = to,
                _ => return end,
            }
        }
        end
    }
}

/// Bytes of memory that so many take.
pub(crate) fn cost(length: usize) -> u64 {
    (length as u64).saturating_add(overhead(length))
}

fn overhead(length: usize) -> u64 {
    let is_small = length < SMALL;
    if is_small { OVERHEAD as u64 } else { 0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn content() -> Bytes {
        (0..200_u8).collect()
    }

    #[test]
    fn a_total_that_contradicts_what_came_is_refused() {
        let mut spool = Spool::default();
        spool.insert(10, content().slice(10..20));
        assert!(!spool.set_total(19));
        assert!(spool.set_total(20));
        assert!(!spool.set_total(21));
        assert!(!spool.is_whole());
        spool.insert(0, content().slice(..10));
        assert!(spool.is_whole());
    }

    proptest! {
        #[test]
        fn pieces_in_any_order_make_the_object(
            pieces in proptest::collection::vec((0..200_usize, 1..40_usize), 0..40),
            release in 0..200_u64,
        ) {
            let mut spool = Spool::default();
            let mut have = [false; 200];
            for (step, (start, length)) in pieces.iter().enumerate() {
                let end = (start + length).min(200);
                if step == pieces.len() / 2 {
                    spool.release(release);
                }
                let new = have[*start..end].iter().enumerate()
                    .filter(|(at, had)| !**had && (start + at) as u64 >= spool.begin())
                    .count();
                prop_assert_eq!(spool.insert(*start as u64, content().slice(*start..end)), new);
                have[*start..end].fill(true);
                let first_gap = have.iter().position(|had| !had).unwrap_or(200);
                prop_assert_eq!(spool.available(), first_gap as u64);
                let mut at = spool.begin();
                while at < spool.available() {
                    let read = spool.read(at, 7);
                    prop_assert!(!read.is_empty());
                    prop_assert_eq!(&read[..], &content()[at as usize..at as usize + read.len()]);
                    at += read.len() as u64;
                }
                let held: u64 = spool.pieces.values().map(Piece::cost).sum();
                prop_assert_eq!(spool.held() as u64, held);
            }
        }
    }
}
