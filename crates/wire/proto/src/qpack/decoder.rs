//! The side of a connection that reads field sections, and the dynamic table that the peer fills here.

use bytes::BytesMut;

use super::decode::{FieldSection, FieldSectionLimits};
use super::instructions::{InstructionError, Pieces, Step, integer};
use super::static_table::NAMES;
use super::table::QpackTable;
use super::{QpackError, string};
use crate::fields::LineName;
use crate::repeats::{ENTRY_OVERHEAD, TableEntry};

/// Bytes of answers that wait for a peer to read them: more than its streams can cause.
#[doc(alias = "bound")]
const ANSWERS: usize = 64 * 1024;

/// The decoder of one connection.
#[derive(Debug, Default)]
pub struct QpackDecoder {
    table: QpackTable,
    /// The capacity that we announced, in bytes (RFC 9204, section 3.2.3).
    announced: usize,
    pieces: Pieces,
    /// Entries of which the peer knows that we have them.
    told: u64,
    /// Bytes for the decoder stream.
    instructions: BytesMut,
}

impl QpackDecoder {
    /// A decoder with a table of up to this many bytes; 0 for no table.
    pub fn new(announced: usize) -> Self {
        Self {
            announced,
            ..Self::default()
        }
    }

    /// Handles bytes of the peer's encoder stream.
    ///
    /// # Errors
    /// The table has no room, or an instruction refers to an entry that does not exist; close the
    /// connection.
    pub fn handle(&mut self, bytes: &[u8]) -> Result<(), InstructionError> {
        let mut pieces = std::mem::take(&mut self.pieces);
        let handled = pieces.handle(bytes, |rest| self.take(rest));
        self.pieces = pieces;
        handled
    }

    /// RFC 9204, section 4.3.
    fn take(&mut self, rest: &mut &[u8]) -> Step {
        let first = rest[0];
        match first {
            0x80.. => self.insert_with_name(first & 0x40 != 0, rest),
            0x40..=0x7f => self.insert_literal(rest),
            0x20..=0x3f => self.set_capacity(rest),
            _ => self.duplicate(rest),
        }
    }

    fn set_capacity(&mut self, rest: &mut &[u8]) -> Step {
        let Some(capacity) = integer(5, rest)? else {
            return Ok(None);
        };
        let capacity = usize::try_from(capacity)
            .ok()
            .filter(|capacity| *capacity <= self.announced);
        self.table
            .resize(capacity.ok_or(InstructionError::Capacity)?);
        Ok(Some(()))
    }

    fn insert_with_name(&mut self, is_static: bool, rest: &mut &[u8]) -> Step {
        self.check_room()?;
        let Some(index) = integer(6, rest)? else {
            return Ok(None);
        };

        let most = self.table.capacity();
        if !is_whole(7, &mut &**rest, most)? {
            return Ok(None);
        }

        let mut texts = Vec::new();
        let value = string::decode(7, rest, most, &mut texts)?.bytes(&texts);
        let name = if is_static {
            let place = usize::try_from(index).ok();
            let name = place.and_then(|place| NAMES.get(place));
            *name.ok_or(InstructionError::Insert)?
        } else {
            let entry = self.table.before(index);
            entry.ok_or(InstructionError::Insert)?.name()
        };

        let entry = TableEntry::new(name, value);
        self.insert(entry)
    }

    fn insert_literal(&mut self, rest: &mut &[u8]) -> Step {
        self.check_room()?;
        let most = self.table.capacity();
        let mut ahead = *rest;
        // Nothing is decoded before all bytes are there, lest it be decoded with each piece.
        if !is_whole(5, &mut ahead, most)? || !is_whole(7, &mut ahead, most)? {
            return Ok(None);
        }

        let mut texts = Vec::new();
        let name = string::decode(5, rest, most, &mut texts)?;
        let value = string::decode(7, rest, most, &mut texts)?;
        let entry = TableEntry::new(LineName::parse(name.bytes(&texts)), value.bytes(&texts));
        self.insert(entry)
    }

    fn duplicate(&mut self, rest: &mut &[u8]) -> Step {
        self.check_room()?;
        let Some(index) = integer(5, rest)? else {
            return Ok(None);
        };
        let entry = self.table.before(index);
        let entry = entry.ok_or(InstructionError::Insert)?;
        let copy = TableEntry::new(entry.name(), entry.value());
        self.insert(copy)
    }

    fn insert(&mut self, entry: TableEntry) -> Step {
        let fits = self.table.insert(entry);
        fits.then_some(Some(())).ok_or(InstructionError::Insert)
    }

    /// An instruction that cannot succeed is refused before its bytes are kept.
    fn check_room(&self) -> Result<(), InstructionError> {
        if self.table.capacity() < ENTRY_OVERHEAD {
            return Err(InstructionError::Insert);
        }
        Ok(())
    }

    /// Begins to read a whole section, which came on this stream.
    ///
    /// # Errors
    /// The prefix is cut off, or the section needs entries that are not here: it may not wait for
    /// them, as we announced no blocked streams.
    pub fn section<'a>(
        &'a mut self,
        stream: u64,
        section: &'a [u8],
        limits: FieldSectionLimits,
    ) -> Result<FieldSection<'a>, QpackError> {
        let mut rest = section;
        let truncated = QpackError::Truncated;
        let required = super::integer::decode(8, &mut rest)?.ok_or(truncated)?;
        let required = self.required(required)?;

        let is_negative = rest.first().is_some_and(|byte| byte & 0x80 != 0);
        let delta = super::integer::decode(7, &mut rest)?.ok_or(truncated)?;
        // RFC 9204, section 4.5.1.2.
        let base = if is_negative {
            required
                .checked_sub(delta)
                .and_then(|base| base.checked_sub(1))
        } else {
            required.checked_add(delta)
        };

        if required > 0 {
            // Even if it is refused, the section does not need its entries any more once this
            // returns.
            super::integer::encode(stream, 7, 0x80, &mut self.instructions);
            // RFC 9204, section 4.4.1: the acknowledgment confirms these entries, too.
            self.told = self.told.max(required);
        }
        let base = base.ok_or(QpackError::Dynamic)?;
        Ok(FieldSection::new(rest, limits, &self.table, required, base))
    }

    /// How many insertions a section needs (RFC 9204, section 4.5.1.1).
    fn required(&self, encoded: u64) -> Result<u64, QpackError> {
        if encoded == 0 {
            return Ok(0);
        }

        let most = (self.announced / ENTRY_OVERHEAD) as u64;
        let inserted = self.table.inserted();
        if encoded > 2 * most {
            return Err(QpackError::Dynamic);
        }
        // The count comes modulo 2 * most: the latest value is meant that the encoder can know of.
        let largest = inserted + most;
        let wrapped = largest / (2 * most) * (2 * most);
        let required = wrapped + encoded - 1;
        let required = if required > largest {
            required.checked_sub(2 * most).ok_or(QpackError::Dynamic)?
        } else {
            required
        };

        let is_here = required > 0 && required <= inserted;
        is_here.then_some(required).ok_or(QpackError::Dynamic)
    }

    /// Gives up a stream, which may have unread sections (RFC 9204, section 2.2.2.2).
    pub fn cancel(&mut self, stream: u64) {
        // Without entries, no section refers to any, and the encoder waits for nothing.
        if self.table.inserted() > 0 {
            super::integer::encode(stream, 6, 0x40, &mut self.instructions);
        }
    }

    /// Takes the bytes for the decoder stream.
    pub fn take_instructions(&mut self) -> BytesMut {
        let inserted = self.table.inserted();
        // One increment for all entries that no acknowledgment has confirmed.
        if inserted > self.told {
            super::integer::encode(inserted - self.told, 6, 0, &mut self.instructions);
            self.told = inserted;
        }
        self.instructions.split()
    }

    /// Whether there is something to be sent on the decoder stream.
    pub fn has_instructions(&self) -> bool {
        !self.instructions.is_empty() || self.table.inserted() > self.told
    }

    /// Whether too many answers wait, because the peer does not read its decoder stream.
    pub fn is_unheard(&self) -> bool {
        self.instructions.len() > ANSWERS
    }

    #[cfg(test)]
    pub(super) fn table(&self) -> &QpackTable {
        &self.table
    }
}

/// Whether a string is there as a whole, which is passed over then.
fn is_whole(prefix: u8, rest: &mut &[u8], most: usize) -> Result<bool, InstructionError> {
    let Some(length) = integer(prefix, rest)? else {
        return Ok(false);
    };
    // The longest Huffman code of a byte has 30 bits: a text longer than the table is refused
    // before it is kept.
    if length > 4 * most as u64 {
        return Err(InstructionError::Insert);
    }

    let after = rest.split_at_checked(length as usize);
    *rest = after.map_or(*rest, |(_, after)| after);
    Ok(after.is_some())
}
