//! Reading field sections (RFC 9204, section 4.5).

#[cfg(test)]
use super::QpackDecoder;
use super::static_table::{ENTRIES, NAMES};
use super::string::{self, StringText};
use super::table::QpackTable;
use super::{LINE_OVERHEAD, QpackError, integer};
use crate::fields::LineName;

/// Upper bounds on a field section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldSectionLimits {
    /// Bytes of all names and values, and [`LINE_OVERHEAD`] for each line (RFC 9114, section 4.2.2).
    pub bytes: usize,
    /// Field lines, pseudo-fields included.
    pub lines: usize,
}

/// One line of a field section, as it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldLine<'a> {
    /// The name.
    pub name: LineName<'a>,
    /// The value: nothing is known of its letters.
    pub value: &'a [u8],
}

/// A field section that is read line by line.
#[derive(Debug)]
pub struct FieldSection<'a> {
    rest: &'a [u8],
    /// Bytes and lines that may still come.
    left: FieldSectionLimits,
    /// The texts of the Huffman codes of a line.
    texts: Vec<u8>,
    references: References<'a>,
}

/// The tables that the indices of a section refer to, beside the static one.
#[derive(Debug)]
struct References<'a> {
    table: &'a QpackTable,
    /// Insertions that the section needs: it refers to no later ones.
    required: u64,
    /// The base of relative indices.
    base: u64,
}

/// The representation of a line, from its first byte (RFC 9204, section 4.5).
#[derive(Clone, Copy)]
enum Form {
    /// An entry.
    Indexed(Place),
    /// Its name, and a value.
    NameReference(Place),
    /// Both as they are.
    Literal,
}

/// Where the entry lies whose index has a prefix of this many bits.
#[derive(Clone, Copy)]
enum Place {
    /// In the static table.
    Static(u8),
    /// In the dynamic table, counted back from the base.
    BeforeBase(u8),
    /// In the dynamic table, counted on from the base.
    PostBase(u8),
}

impl<'a> References<'a> {
    /// The dynamic entry of an index (RFC 9204, sections 3.2.5 and 3.2.6).
    fn entry(&self, place: Place, index: u64) -> Option<(LineName<'a>, &'a [u8])> {
        let absolute = match place {
            Place::PostBase(_) => self.base.checked_add(index)?,
            _ => self.base.checked_sub(1)?.checked_sub(index)?,
        };
        let table = self.table;
        let entry = table.entry(absolute).filter(|_| absolute < self.required)?;
        Some((entry.name(), entry.value()))
    }
}

impl<'a> FieldSection<'a> {
    /// Begins behind the prefix of a section.
    pub(super) fn new(
        rest: &'a [u8],
        limits: FieldSectionLimits,
        table: &'a QpackTable,
        required: u64,
        base: u64,
    ) -> Self {
        Self {
            rest,
            left: limits,
            texts: Vec::new(),
            references: References {
                table,
                required,
                base,
            },
        }
    }

    /// The next line; `None` at the end.
    ///
    /// # Errors
    /// The section is broken or above its limits; nothing more can be read then.
    #[expect(
        clippy::should_implement_trait,
        reason = "an error ends it, which an iterator would not show"
    )]
    pub fn next(&mut self) -> Result<Option<FieldLine<'_>>, QpackError> {
        let Some(&first) = self.rest.first() else {
            return Ok(None);
        };
        // RFC 9114, section 4.2.2: each line counts for 32 bytes beside its texts, so that empty
        // lines are bounded, too.
        self.left.lines = self.left.lines.checked_sub(1).ok_or(QpackError::TooMany)?;
        self.left.bytes = self
            .left
            .bytes
            .checked_sub(LINE_OVERHEAD)
            .ok_or(QpackError::TooLarge)?;

        self.texts.clear();
        match form(first) {
            Form::Indexed(place) => {
                let (name, value) = self.entry(place)?;
                self.count(name.as_bytes().len())?;
                self.count(value.len())?;
                Ok(Some(FieldLine { name, value }))
            }
            Form::NameReference(place) => {
                let (name, _) = self.entry(place)?;
                self.count(name.as_bytes().len())?;
                let value = self.string(7)?.bytes(&self.texts);
                Ok(Some(FieldLine { name, value }))
            }
            Form::Literal => {
                let name = self.string(3)?;
                let value = self.string(7)?;
                Ok(Some(FieldLine {
                    name: LineName::parse(name.bytes(&self.texts)),
                    value: value.bytes(&self.texts),
                }))
            }
        }
    }

    /// The entry to which a line refers.
    fn entry(&mut self, place: Place) -> Result<(LineName<'a>, &'a [u8]), QpackError> {
        let (Place::Static(prefix) | Place::BeforeBase(prefix) | Place::PostBase(prefix)) = place;
        let index = integer::decode(prefix, &mut self.rest)?.ok_or(QpackError::Truncated)?;
        if !matches!(place, Place::Static(_)) {
            let entry = self.references.entry(place, index);
            return entry.ok_or(QpackError::Dynamic);
        }

        let index = usize::try_from(index)
            .ok()
            .filter(|index| *index < ENTRIES.len())
            .ok_or(QpackError::NoEntry)?;
        Ok((NAMES[index], ENTRIES[index].1.as_bytes()))
    }

    fn string(&mut self, prefix: u8) -> Result<StringText<'a>, QpackError> {
        let text = string::decode(prefix, &mut self.rest, self.left.bytes, &mut self.texts)?;
        self.count(text.len())?;
        Ok(text)
    }

    fn count(&mut self, bytes: usize) -> Result<(), QpackError> {
        self.left.bytes = self
            .left
            .bytes
            .checked_sub(bytes)
            .ok_or(QpackError::TooLarge)?;
        Ok(())
    }
}

/// RFC 9204, sections 4.5.2 to 4.5.6.
fn form(first: u8) -> Form {
    match first {
        0xc0.. => Form::Indexed(Place::Static(6)),
        0x80..=0xbf => Form::Indexed(Place::BeforeBase(6)),
        0x40..=0x7f if first & 0x10 != 0 => Form::NameReference(Place::Static(4)),
        0x40..=0x7f => Form::NameReference(Place::BeforeBase(4)),
        0x20..=0x3f => Form::Literal,
        0x10..=0x1f => Form::Indexed(Place::PostBase(4)),
        0x00..=0x0f => Form::NameReference(Place::PostBase(3)),
    }
}

/// The name and the value of a line.
#[cfg(test)]
pub(super) type OwnedLine = (Vec<u8>, Vec<u8>);

/// All lines of a section that refers to no dynamic entry.
#[cfg(test)]
pub(super) fn all(
    section: &[u8],
    limits: FieldSectionLimits,
) -> Result<Vec<OwnedLine>, QpackError> {
    all_by(&mut QpackDecoder::default(), section, limits)
}

/// All lines of a section of stream 0.
#[cfg(test)]
pub(super) fn all_by(
    decoder: &mut QpackDecoder,
    section: &[u8],
    limits: FieldSectionLimits,
) -> Result<Vec<OwnedLine>, QpackError> {
    let mut section = decoder.section(0, section, limits)?;
    let mut lines = Vec::new();
    while let Some(line) = section.next()? {
        lines.push((line.name.as_bytes().to_vec(), line.value.to_vec()));
    }
    Ok(lines)
}
