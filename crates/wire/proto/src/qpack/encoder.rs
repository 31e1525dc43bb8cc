//! The side of a connection that writes field sections, and the peer's dynamic table.

use std::collections::VecDeque;

use bytes::{BufMut, BytesMut};

use super::instructions::{InstructionError, Pieces};
use super::static_table::{Match, find};
use super::table::QpackTable;
use super::{integer, string};
use crate::fields::LineName;
use crate::repeats::{self, ENTRY_OVERHEAD, Seen, TableEntry, hash};

/// Bytes of a peer's dynamic table that are used at most.
const MOST: usize = 4096;

/// Entries that the largest table can hold: each costs at least [`ENTRY_OVERHEAD`].
const SLOTS: usize = MOST / ENTRY_OVERHEAD;

/// Unacknowledged sections that refer to entries; at this number, further sections refer to no
/// entries.
#[doc(alias = "bound")]
const UNACKNOWLEDGED: usize = 256;

/// Bytes of instructions that wait to be sent; while there are more, nothing is inserted.
#[doc(alias = "bound")]
const INSTRUCTIONS: usize = 2 * MOST;

/// The prefix of a section without dynamic entries (RFC 9204, section 4.5.1).
const PREFIX: [u8; 2] = [0, 0];

/// The encoder of one connection. It refers only to entries that the peer has confirmed, so that no section of ours waits there for
/// another stream (RFC 9204, section 2.1.2).
#[derive(Debug, Default)]
pub struct QpackEncoder {
    table: QpackTable,
    /// `None` until a table is used.
    used: Option<Box<Used>>,
    /// The received part of an instruction on the peer's decoder stream.
    pub(super) pieces: Pieces,
    /// Bytes for the encoder stream.
    instructions: BytesMut,
}

/// The state of a table that is used.
#[derive(Debug)]
struct Used {
    /// The capacity that the peer announced (RFC 9204, section 3.2.3).
    announced: u64,
    /// Entries of which the peer has confirmed that it has them.
    confirmed: u64,
    /// The stream of each section that refers to entries and is not acknowledged, and the oldest of them.
    unacknowledged: VecDeque<(u64, u64)>,
    /// The hashes of the entries: that of the n-th in slot n.
    hashes: [u32; SLOTS],
    seen: Seen,
}

impl QpackEncoder {
    /// The peer has announced this capacity for its table: it is used from now on.
    pub fn allow(&mut self, announced: u64) {
        let capacity = usize::try_from(announced).unwrap_or(MOST).min(MOST);
        if self.used.is_some() || capacity < 2 * ENTRY_OVERHEAD {
            return;
        }

        self.table.resize(capacity);
        // RFC 9204, section 3.2.2: the capacity is 0 until an instruction sets it.
        integer::encode(capacity as u64, 5, 0x20, &mut self.instructions);
        self.used = Some(Box::new(Used {
            announced,
            confirmed: 0,
            unacknowledged: VecDeque::new(),
            hashes: [0; SLOTS],
            seen: Seen::default(),
        }));
    }

    /// Whether a table is used, so that sections depend on their streams.
    pub fn uses_table(&self) -> bool {
        self.used.is_some()
    }

    /// Begins a section, which is appended to `output` and will be sent on this stream.
    pub fn section<'a>(&'a mut self, stream: u64, output: &'a mut BytesMut) -> SectionEncoder<'a> {
        let start = output.len();
        output.put_slice(&PREFIX);
        let used = self.used.as_deref();
        let refers = used.filter(|used| used.unacknowledged.len() < UNACKNOWLEDGED);

        SectionEncoder {
            base: refers.map_or(0, |used| used.confirmed),
            encoder: self,
            stream,
            output,
            start,
            newest: None,
            oldest: u64::MAX,
            is_whole: false,
        }
    }

    /// Whether there is something to be sent on the encoder stream.
    pub fn has_instructions(&self) -> bool {
        !self.instructions.is_empty()
    }

    /// Takes the bytes for the encoder stream.
    pub fn take_instructions(&mut self) -> BytesMut {
        self.instructions.split()
    }

    /// The peer's decoder has taken a section of this stream (RFC 9204, section 4.4.1).
    pub(super) fn acknowledged(&mut self, stream: u64) -> Result<(), InstructionError> {
        let used = self.used.as_mut();
        let used = used.ok_or(InstructionError::Acknowledgement)?;
        let mut sections = used.unacknowledged.iter();
        let place = sections
            .position(|(of, _)| *of == stream)
            .ok_or(InstructionError::Acknowledgement)?;
        used.unacknowledged.remove(place);
        Ok(())
    }

    /// The peer reads nothing more of this stream (RFC 9204, section 4.4.2).
    pub(super) fn cancelled(&mut self, stream: u64) {
        if let Some(used) = &mut self.used {
            used.unacknowledged.retain(|(of, _)| *of != stream);
        }
    }

    /// The peer's decoder has so many further entries (RFC 9204, section 4.4.3).
    pub(super) fn confirmed(&mut self, count: u64) -> Result<(), InstructionError> {
        let inserted = self.table.inserted();
        let used = self.used.as_mut().filter(|_| count > 0);
        let used = used.ok_or(InstructionError::Increment)?;
        let confirmed = used.confirmed.checked_add(count);
        used.confirmed = confirmed
            .filter(|confirmed| *confirmed <= inserted)
            .ok_or(InstructionError::Increment)?;
        Ok(())
    }

    /// The absolute index of an entry that is this line, confirmed or not.
    fn known(&self, hash: u32, name: LineName<'_>, value: &[u8]) -> Option<u64> {
        let used = self.used.as_ref()?;
        self.table.newest(|index, entry| {
            used.hashes[index as usize % SLOTS] == hash && entry.is(name, value)
        })
    }

    /// Puts a line into the table if it repeats and has room beside the entries from `needed` on, those that sections need which are
    /// not acknowledged, and those that are not confirmed.
    fn meet(&mut self, hash: u32, name: LineName<'_>, value: &[u8], needed: u64) {
        let Some(used) = &mut self.used else { return };
        let size = repeats::size(name, value);
        let repeats = used.seen.again(hash) && size < self.table.capacity() / 2;
        let referred = used.unacknowledged.iter().map(|(_, oldest)| *oldest);
        let kept = referred.fold(used.confirmed.min(needed), u64::min);
        if !repeats || self.instructions.len() > INSTRUCTIONS || !self.table.has_room(size, kept) {
            return;
        }

        used.hashes[self.table.inserted() as usize % SLOTS] = hash;
        self.table.insert(TableEntry::new(name, value));
        insertion(name, value, &mut self.instructions);
    }

    #[cfg(test)]
    pub(super) fn table(&self) -> &QpackTable {
        &self.table
    }
}

/// RFC 9204, sections 4.3.2 and 4.3.3.
fn insertion(name: LineName<'_>, value: &[u8], output: &mut BytesMut) {
    match find(name, value) {
        Match::Both(index) | Match::Name(index) => integer::encode(index, 6, 0xc0, output),
        Match::Neither => string::encode(name.as_bytes(), 5, 0x40, 0, output),
    }
    string::encode(value, 7, 0, 0, output);
}

/// A section that is being written. Dropped before [`Self::finish`], it leaves the output as it was.
#[derive(Debug)]
pub struct SectionEncoder<'a> {
    encoder: &'a mut QpackEncoder,
    stream: u64,
    output: &'a mut BytesMut,
    /// Where it begins.
    start: usize,
    /// Entries from this absolute index on are not referred to.
    base: u64,
    newest: Option<u64>,
    oldest: u64,
    is_whole: bool,
}

impl Drop for SectionEncoder<'_> {
    fn drop(&mut self) {
        if !self.is_whole {
            self.output.truncate(self.start);
        }
    }
}

impl SectionEncoder<'_> {
    /// Appends one field line in its shortest form. A `sensitive` one is never put into a table, here or by the next hops (RFC 9204,
    /// section 7.1.3), so it stands there as a literal.
    pub fn line(&mut self, name: LineName<'_>, value: &[u8], sensitive: bool) {
        let never = if sensitive { 0x20 } else { 0 };
        let found = find(name, value);
        if let (Match::Both(index), false) = (&found, sensitive) {
            return integer::encode(*index, 6, 0xc0, self.output);
        }
        if !sensitive && self.encoder.uses_table() && self.refer(name, value) {
            return;
        }

        match found {
            Match::Both(index) | Match::Name(index) => {
                integer::encode(index, 4, 0x50 | never, self.output);
            }
            Match::Neither => {
                string::encode(name.as_bytes(), 3, 0x20 | never >> 1, 0, self.output);
            }
        }
        string::encode(value, 7, 0, 0, self.output);
    }

    /// Refers to an entry, if there is one that the peer has.
    fn refer(&mut self, name: LineName<'_>, value: &[u8]) -> bool {
        let hash = hash(name, value);
        let Some(index) = self.encoder.known(hash, name, value) else {
            self.encoder.meet(hash, name, value, self.oldest);
            return false;
        };
        // Not confirmed yet: a section with it could wait at the peer for the encoder stream.
        let Some(age) = self.base.checked_sub(index + 1) else {
            return false;
        };

        self.newest = self.newest.max(Some(index));
        self.oldest = self.oldest.min(index);
        // RFC 9204, section 4.5.2.
        integer::encode(age, 6, 0x80, self.output);
        true
    }

    /// Ends the section: from now on, its entries are kept until the peer has read it.
    pub fn finish(mut self) {
        self.is_whole = true;
        let Some(newest) = self.newest else { return };
        let Some(used) = &mut self.encoder.used else {
            return;
        };

        used.unacknowledged.push_back((self.stream, self.oldest));
        // RFC 9204, sections 4.5.1.1 and 4.5.1.2.
        let required = newest + 1;
        let wraps = 2 * (used.announced / ENTRY_OVERHEAD as u64);
        let mut prefix = BytesMut::new();
        integer::encode(required % wraps + 1, 8, 0, &mut prefix);
        integer::encode(self.base - required, 7, 0, &mut prefix);

        // Nearly always: then it fits where two bytes were left for it, and no line moves.
        if prefix.len() == PREFIX.len() {
            return self.output[self.start..][..PREFIX.len()].copy_from_slice(&prefix);
        }
        let lines = self.output.split_off(self.start);
        self.output.extend_from_slice(&prefix);
        self.output.extend_from_slice(&lines[PREFIX.len()..]);
    }
}
