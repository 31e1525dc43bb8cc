//! The tables that indexes refer to (RFC 7541, section 2.3).

use std::collections::VecDeque;

use super::static_table::{ENTRIES, NAMES};
use crate::fields::LineName;
use crate::repeats::{self, TableEntry};

/// The dynamic table, behind the static one.
#[derive(Debug)]
pub(super) struct HpackTable {
    /// The newest first.
    entries: VecDeque<TableEntry>,
    size: usize,
    /// The size that the peer has chosen, within the limit.
    most: usize,
}

impl HpackTable {
    pub(super) fn new(most: usize) -> Self {
        Self {
            entries: VecDeque::new(),
            size: 0,
            most,
        }
    }

    /// The entry of an index (RFC 7541, section 2.3.3).
    pub(super) fn entry(&self, index: u64) -> Option<(LineName<'_>, &[u8])> {
        let at = usize::try_from(index).ok()?.checked_sub(1)?;
        match at.checked_sub(ENTRIES.len()) {
            Some(dynamic) => self.dynamic(dynamic),
            None => Some((NAMES[at], ENTRIES[at].1.as_bytes())),
        }
    }

    /// The entry that was inserted before `age` others.
    pub(super) fn dynamic(&self, age: usize) -> Option<(LineName<'_>, &[u8])> {
        let entry = self.entries.get(age)?;
        Some((entry.name(), entry.value()))
    }

    /// How many entries there are.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether a line takes less than half of the table.
    pub(super) fn is_worth(&self, name: LineName<'_>, value: &[u8]) -> bool {
        repeats::size(name, value) < self.most / 2
    }

    /// RFC 7541, section 4.4: an entry larger than the table empties it.
    pub(super) fn insert(&mut self, entry: TableEntry) {
        let size = entry.size();
        self.evict(self.most.saturating_sub(size));
        if size <= self.most {
            self.size += size;
            self.entries.push_front(entry);
        }
    }

    pub(super) fn resize(&mut self, most: usize) {
        self.most = most;
        self.evict(most);
    }

    /// Evicts entries until the table has at most this many bytes.
    pub(super) fn shrink(&mut self, most: usize) {
        self.resize(self.most.min(most));
    }

    fn evict(&mut self, most: usize) {
        while self.size > most {
            let Some(entry) = self.entries.pop_back() else {
                return;
            };
            self.size -= entry.size();
        }
    }

    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        self.size
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
