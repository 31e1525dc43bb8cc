//! The bytes of one object, as they come and until they are let go.

use std::collections::BTreeMap;

use bytes::Bytes;
use hermes_proto::custody::Extent;

/// The bytes of one object that are held in memory. They come in any order, are read by offset, and are let go from the
/// beginning on.
#[derive(Debug, Clone, Default)]
pub struct Spool {
    /// Pieces that do not overlap, by their offset.
    pieces: BTreeMap<u64, Bytes>,
    /// What lies before it was let go.
    begin: u64,
    /// Where the first gap is.
    available: u64,
    total: Option<u64>,
    /// Bytes in the pieces.
    held: usize,
}

impl Spool {
    /// How much there is.
    pub fn extent(&self) -> Extent {
        Extent {
            total: self.total,
            available: self.available,
        }
    }

    /// Where the first gap is.
    pub fn available(&self) -> u64 {
        self.available
    }

    /// Where what is still here begins.
    pub fn begin(&self) -> u64 {
        self.begin
    }

    /// Bytes in memory.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Whether all has come.
    pub fn is_whole(&self) -> bool {
        self.total == Some(self.available)
    }

    /// Says how long it is; whether that agrees with what is known.
    pub fn set_total(&mut self, total: u64) -> bool {
        let end = self.pieces.last_key_value();
        let end = end.map_or(self.available, |(offset, piece)| {
            offset + piece.len() as u64
        });
        let agrees = match self.total {
            Some(known) => known == total,
            None => end <= total,
        };

        if agrees {
            self.total = Some(total);
        }
        agrees
    }

    /// Appends to what is without gaps.
    pub fn append(&mut self, bytes: Bytes) {
        let at = self.available;
        self.insert(at, bytes);
    }

    /// Adds bytes; what is here already stays as it is. How many were new.
    pub fn insert(&mut self, offset: u64, mut bytes: Bytes) -> usize {
        let held = self.held;
        let mut at = offset;
        // What was let go is not taken again.
        let skip = self.begin.saturating_sub(at).min(bytes.len() as u64);
        at += skip;
        drop(bytes.split_to(skip as usize));

        while !bytes.is_empty() {
            let covered = self.covered_to(at).min(at + bytes.len() as u64);
            if covered > at {
                drop(bytes.split_to((covered - at) as usize));
                at = covered;
                continue;
            }
            let next = self.pieces.range(at..).next().map(|(next, _)| *next);
            let room = next.map_or(bytes.len(), |next| (next - at) as usize);
            let piece = bytes.split_to(room.min(bytes.len()));
            let length = piece.len();
            self.held += length;
            self.pieces.insert(at, piece);
            at += length as u64;
        }

        self.available = self.covered_to(self.available);
        self.held - held
    }

    /// Bytes from `offset` on, at most so many; none if they are not here.
    pub fn read(&self, offset: u64, most: usize) -> Bytes {
        let before = self.pieces.range(..=offset).next_back();
        let Some((start, piece)) = before else {
            return Bytes::new();
        };
        let from = (offset - start) as usize;
        let to = piece.len().min(from.saturating_add(most));
        if from < to {
            piece.slice(from..to)
        } else {
            Bytes::new()
        }
    }

    /// Lets everything before `offset` go. How many bytes that were.
    pub fn release(&mut self, offset: u64) -> usize {
        let held = self.held;
        let offset = offset.min(self.available);
        while let Some(first) = self.pieces.first_entry() {
            let start = *first.key();
            if start >= offset {
                break;
            }
            let length = first.get().len() as u64;
            if start + length <= offset {
                self.held -= length as usize;
                first.remove();
                continue;
            }
            // Copied, or a little of it would keep all of it in memory.
            let rest = Bytes::copy_from_slice(&first.get()[(offset - start) as usize..]);
            self.held -= (offset - start) as usize;
            first.remove();
            self.pieces.insert(offset, rest);
        }

        self.begin = self.begin.max(offset);
        held - self.held
    }

    /// Where the piece ends that holds this offset, or those that follow it without a gap.
    fn covered_to(&self, offset: u64) -> u64 {
        let mut end = offset;
        loop {
            let piece = self.pieces.range(..=end).next_back();
            match piece.map(|(start, piece)| start + piece.len() as u64) {
                Some(to) if to > end => end = to,
                _ => return end,
            }
        }
    }
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
                let held: usize = spool.pieces.values().map(Bytes::len).sum();
                prop_assert_eq!(spool.held(), held);
            }
        }
    }
}
