//! Reading field sections (RFC 9204, section 4.5).

use bytes::{Bytes, BytesMut};

use super::static_table::ENTRIES;
use super::{LINE_OVERHEAD, QpackError, huffman, integer};

/// Upper bounds on a field section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all names and values, and [`LINE_OVERHEAD`] for each line (RFC 9114, section 4.2.2).
    pub bytes: usize,
    /// Field lines, pseudo-fields included.
    pub lines: usize,
}

/// One line of a field section, as it came: nothing is known of its letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldLine {
    /// The name.
    pub name: Bytes,
    /// The value; it shares memory with the section, or with other lines.
    pub value: Bytes,
}

impl FieldLine {
    /// What the line adds to the size of its section, in bytes (RFC 9114, section 4.2.2).
    pub fn size(&self) -> usize {
        self.name.len() + self.value.len() + LINE_OVERHEAD
    }
}

/// A field section that is read line by line.
#[derive(Debug)]
pub struct FieldSection {
    rest: Bytes,
    /// Bytes and lines that may still come.
    left: Limits,
    /// Where texts of Huffman codes are put one after the other.
    texts: BytesMut,
}

/// What the first byte of a line says that it is (RFC 9204, section 4.5).
enum Form {
    /// An entry of the static table.
    Indexed,
    /// Its name, and a value.
    NameReference,
    /// Both as they are.
    Literal,
}

impl FieldSection {
    /// Begins with a whole encoded section.
    ///
    /// # Errors
    /// Its prefix is cut off, or speaks of dynamic entries.
    pub fn new(section: Bytes, limits: Limits) -> Result<Self, QpackError> {
        let mut rest = &section[..];
        let required = integer::decode(8, &mut rest)?.ok_or(QpackError::Truncated)?;
        let negative = rest.first().is_some_and(|byte| byte & 0x80 != 0);
        integer::decode(7, &mut rest)?.ok_or(QpackError::Truncated)?;
        // RFC 9204, section 4.5.1.1: no more than was inserted; 4.5.1.2: the base cannot be below zero.
        if required != 0 || negative {
            return Err(QpackError::Dynamic);
        }
        Ok(Self {
            rest: section.slice_ref(rest),
            left: limits,
            texts: BytesMut::new(),
        })
    }

    /// The next line; `None` at the end.
    ///
    /// # Errors
    /// The section is broken or above its limits; nothing more can be read then.
    #[expect(
        clippy::should_implement_trait,
        reason = "an error ends it, which an iterator would not show"
    )]
    pub fn next(&mut self) -> Result<Option<FieldLine>, QpackError> {
        let Some(&first) = self.rest.first() else {
            return Ok(None);
        };
        self.left.lines = self.left.lines.checked_sub(1).ok_or(QpackError::TooMany)?;
        self.left.bytes = self
            .left
            .bytes
            .checked_sub(LINE_OVERHEAD)
            .ok_or(QpackError::TooLarge)?;
        let line = match form(first)? {
            Form::Indexed => {
                let (name, value) = self.entry(6)?;
                FieldLine {
                    name: self.fixed(name)?,
                    value: self.fixed(value)?,
                }
            }
            Form::NameReference => {
                let name = self.entry(4)?.0;
                FieldLine {
                    name: self.fixed(name)?,
                    value: self.string(7)?,
                }
            }
            Form::Literal => FieldLine {
                name: self.string(3)?,
                value: self.string(7)?,
            },
        };
        Ok(Some(line))
    }

    /// A text of the static table, counted.
    fn fixed(&mut self, text: &'static str) -> Result<Bytes, QpackError> {
        self.count(text.len())?;
        Ok(Bytes::from_static(text.as_bytes()))
    }

    fn entry(&mut self, prefix: u8) -> Result<(&'static str, &'static str), QpackError> {
        let index = self.integer(prefix)?;
        let entry = usize::try_from(index)
            .ok()
            .and_then(|index| ENTRIES.get(index));
        entry.copied().ok_or(QpackError::NoEntry)
    }

    fn integer(&mut self, prefix: u8) -> Result<u64, QpackError> {
        let mut rest = &self.rest[..];
        let value = integer::decode(prefix, &mut rest)?.ok_or(QpackError::Truncated)?;
        self.rest = self.rest.slice_ref(rest);
        Ok(value)
    }

    /// A string (RFC 9204, section 4.1.2); the bit above the prefix says whether it is a Huffman code.
    fn string(&mut self, prefix: u8) -> Result<Bytes, QpackError> {
        let coded = self
            .rest
            .first()
            .is_some_and(|byte| byte & (1 << prefix) != 0);
        let length = usize::try_from(self.integer(prefix)?).map_err(|_| QpackError::Truncated)?;
        if length > self.rest.len() {
            return Err(QpackError::Truncated);
        }
        let string = self.rest.split_to(length);
        if !coded {
            self.count(string.len())?;
            return Ok(string);
        }
        huffman::decode(&string, self.left.bytes, &mut self.texts)?;
        let text = self.texts.split().freeze();
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

/// RFC 9204, sections 4.5.2 to 4.5.6; the forms that refer to the dynamic table have nothing to refer to.
fn form(first: u8) -> Result<Form, QpackError> {
    match first {
        0xc0.. => Ok(Form::Indexed),
        0x40..=0x7f if first & 0x10 != 0 => Ok(Form::NameReference),
        0x20..=0x3f => Ok(Form::Literal),
        _ => Err(QpackError::Dynamic),
    }
}

/// All lines of a section.
pub(super) fn all(section: &[u8], limits: Limits) -> Result<Vec<FieldLine>, QpackError> {
    let mut section = FieldSection::new(Bytes::copy_from_slice(section), limits)?;
    let mut lines = Vec::new();
    while let Some(line) = section.next()? {
        lines.push(line);
    }
    Ok(lines)
}
