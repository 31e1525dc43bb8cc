//! An encoder's memory: lines that came more than once are in the peer's dynamic table.

use super::encode::Met;
use super::static_table::ENTRIES;
use super::table::HpackTable;
use crate::fields::LineName;
use crate::repeats::{ENTRY_OVERHEAD, Seen, TableEntry, hash};

/// Entries that the largest table can hold, rounded up to a power of two: each costs at least [`ENTRY_OVERHEAD`].
const SLOTS: usize = 4096 / ENTRY_OVERHEAD;

/// The dynamic table as the peer's decoder has it, and how to find lines in it.
#[derive(Debug)]
pub(super) struct Repeated {
    table: HpackTable,
    /// Entries that were ever inserted.
    inserted: usize,
    /// The hashes of the entries: that of the n-th in slot n.
    hashes: [u32; SLOTS],
    seen: Seen,
}

impl Repeated {
    /// An empty table of at most this many bytes.
    pub(super) fn new(most: usize) -> Self {
        Self {
            table: HpackTable::new(most),
            inserted: 0,
            hashes: [0; SLOTS],
            seen: Seen::default(),
        }
    }

    /// The table gets smaller.
    pub(super) fn resize(&mut self, most: usize) {
        self.table.resize(most);
    }

    /// Looks a line up, and puts it into the table when it comes again.
    pub(super) fn meet(&mut self, name: LineName<'_>, value: &[u8]) -> Met {
        let hash = hash(name, value);
        if let Some(index) = self.find(hash, name, value) {
            return Met::Known(index);
        }

        // A line that comes once, or takes half of the table, would only evict others.
        if !self.seen.again(hash) || !self.table.is_worth(name, value) {
            return Met::New;
        }

        self.hashes[self.inserted % SLOTS] = hash;
        self.inserted += 1;
        self.table.insert(TableEntry::new(name, value));
        Met::Again
    }

    /// The index of a line in the table (RFC 7541, section 2.3.3).
    fn find(&self, hash: u32, name: LineName<'_>, value: &[u8]) -> Option<u64> {
        // A scan over at most 128 hashes; a map would have to follow each eviction.
        let is_it = |age: &usize| {
            let slot = (self.inserted - 1 - age) % SLOTS;
            self.hashes[slot] == hash && self.table.dynamic(*age) == Some((name, value))
        };
        let age = (0..self.table.len()).find(is_it)?;
        Some((ENTRIES.len() + 1 + age) as u64)
    }

    #[cfg(test)]
    pub(super) fn lines(&self) -> Vec<(String, String)> {
        self.table.lines()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER: LineName<'static> = LineName::Other(b"x-user");

    #[test]
    fn a_line_is_in_the_table_from_its_second_time_on() {
        let mut repeated = Repeated::new(4096);
        assert_eq!(repeated.meet(OTHER, b"alice"), Met::New);
        assert_eq!(repeated.meet(OTHER, b"alice"), Met::Again);
        assert_eq!(repeated.meet(OTHER, b"alice"), Met::Known(62));
        assert_eq!(repeated.meet(OTHER, b"bob"), Met::New);
        assert_eq!(repeated.meet(OTHER, b"bob"), Met::Again);
        assert_eq!(repeated.meet(OTHER, b"alice"), Met::Known(63));
    }

    #[test]
    fn what_never_comes_again_pushes_nothing_out() {
        let mut repeated = Repeated::new(4096);
        for _ in 0..2 {
            repeated.meet(OTHER, b"alice");
        }
        for number in 0..10_000 {
            assert_eq!(
                repeated.meet(OTHER, format!("{number}").as_bytes()),
                Met::New
            );
        }
        assert_eq!(repeated.meet(OTHER, b"alice"), Met::Known(62));
    }

    #[test]
    fn a_full_table_lets_go_of_the_oldest() {
        let mut repeated = Repeated::new(4096);
        for number in 0..1000 {
            let value = format!("{number}");
            for _ in 0..2 {
                repeated.meet(OTHER, value.as_bytes());
            }
            assert_eq!(repeated.meet(OTHER, value.as_bytes()), Met::Known(62));
        }
        assert_eq!(repeated.meet(OTHER, b"0"), Met::New);
        assert!(repeated.table.size() <= 4096);
    }

    #[test]
    fn a_line_as_large_as_half_the_table_stays_out() {
        let mut repeated = Repeated::new(4096);
        for _ in 0..3 {
            assert_eq!(repeated.meet(OTHER, &[b'x'; 2048]), Met::New);
        }
    }
}
