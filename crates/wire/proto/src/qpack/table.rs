//! The dynamic table (RFC 9204, section 3.2), as either side has it.

use std::collections::VecDeque;

use crate::repeats::TableEntry;

/// Entries by their absolute indices.
#[derive(Debug, Default)]
pub(super) struct QpackTable {
    /// The oldest first.
    entries: VecDeque<TableEntry>,
    /// The number of evicted entries, which is the absolute index of the oldest present one.
    evicted: u64,
    size: usize,
    capacity: usize,
}

impl QpackTable {
    /// Entries that were ever inserted.
    pub(super) fn inserted(&self) -> u64 {
        self.evicted + self.entries.len() as u64
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// The entry of an absolute index.
    pub(super) fn entry(&self, index: u64) -> Option<&TableEntry> {
        let place = index.checked_sub(self.evicted)?;
        self.entries.get(usize::try_from(place).ok()?)
    }

    /// The entry that was inserted before `age` others (RFC 9204, section 3.2.5).
    pub(super) fn before(&self, age: u64) -> Option<&TableEntry> {
        self.entry(self.inserted().checked_sub(1)?.checked_sub(age)?)
    }

    /// The absolute index of the newest entry for which `is` holds.
    pub(super) fn newest(&self, is: impl Fn(u64, &TableEntry) -> bool) -> Option<u64> {
        let index = |place: usize| self.evicted + place as u64;
        let place = (0..self.entries.len())
            .rev()
            .find(|place| is(index(*place), &self.entries[*place]));
        place.map(index)
    }

    /// Changes the capacity; entries without room are evicted.
    pub(super) fn resize(&mut self, capacity: usize) {
        self.capacity = capacity;
        self.evict(capacity);
    }

    /// Inserts an entry; `false` if it is larger than the table (RFC 9204, section 3.2.2).
    pub(super) fn insert(&mut self, entry: TableEntry) -> bool {
        let size = entry.size();
        if size > self.capacity {
            return false;
        }

        self.evict(self.capacity - size);
        self.size += size;
        self.entries.push_back(entry);
        true
    }

    /// Whether an entry of this size has room if no entry from this absolute index on is evicted.
    pub(super) fn has_room(&self, size: usize, kept: u64) -> bool {
        let may_go = kept.saturating_sub(self.evicted);
        let may_go = usize::try_from(may_go).unwrap_or(usize::MAX);
        let gone: usize = self.entries.iter().take(may_go).map(TableEntry::size).sum();
        self.size - gone + size <= self.capacity
    }

    fn evict(&mut self, most: usize) {
        while self.size > most {
            let Some(entry) = self.entries.pop_front() else {
                return;
            };
            self.size -= entry.size();
            self.evicted += 1;
        }
    }

    #[cfg(test)]
    pub(super) fn lines(&self) -> Vec<(String, String)> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let lines = self.entries.iter();
        lines
            .map(|entry| (text(entry.name().as_bytes()), text(entry.value())))
            .collect()
    }
}
