//! QPACK (RFC 9204): field sections of static references, literals, and references to a dynamic table where both sides want one.
//!
//! No section waits for another stream here: we announce no blocked streams, and refer only to
//! entries that the peer has confirmed. So a table can save bytes, and never costs time. A line
//! enters the peer's table when it comes for the second time within a while; a sensitive line never
//! does.

mod decode;
mod decoder;
mod encoder;
pub(crate) mod huffman;
mod instructions;
pub(crate) mod integer;
mod static_table;
pub(crate) mod string;
mod table;

#[cfg(test)]
mod tests;

pub use decode::{FieldLine, FieldSection, FieldSectionLimits};
pub use decoder::QpackDecoder;
pub use encoder::{QpackEncoder, SectionEncoder};
pub use instructions::InstructionError;

/// The overhead of each field line when a section's size is counted (RFC 9114, section 4.2.2), in
/// bytes.
pub const LINE_OVERHEAD: usize = 32;

#[cfg(test)]
use crate::fields::LineName;

/// Why a field section cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QpackError {
    /// The section is cut off, or ends within a line.
    #[error("a field section ends within a line")]
    Truncated,
    /// A reference to an entry of the dynamic table that is not there, or not yet (RFC 9204,
    /// sections 2.1.2 and 2.2.3).
    #[error("a field section refers to an entry that the dynamic table does not have")]
    Dynamic,
    /// A static index above 98 (RFC 9204, section 3.1).
    #[error("a field section names an entry that the static table does not have")]
    NoEntry,
    /// An integer above 62 bits (RFC 9204, section 4.1.1).
    #[error("an integer of a field section is too large")]
    Overflow,
    /// An invalid Huffman code, or wrong padding (RFC 7541, section 5.2).
    #[error("a string of a field section is not Huffman code")]
    Huffman,
    /// More bytes than [`FieldSectionLimits`] allow, counted as RFC 9114, section 4.2.2 says.
    #[error("a field section is too large")]
    TooLarge,
    /// More lines than [`FieldSectionLimits`] allow.
    #[error("a field section has too many lines")]
    TooMany,
}

impl QpackError {
    /// Whether the section may be sound, but is more than this side takes.
    pub fn is_limit(self) -> bool {
        matches!(self, Self::TooLarge | Self::TooMany)
    }
}

/// Decodes arbitrary bytes as a field section: no result exceeds the limits, and each survives a
/// round trip. The first byte sets the limits.
#[cfg(test)]
pub(crate) fn fuzz_one(data: &[u8]) {
    huffman::fuzz_one(data);
    instructions::fuzz_one(data);
    converse(data);
    let [limit, section @ ..] = data else { return };
    let limits = FieldSectionLimits {
        bytes: usize::from(*limit) * 16,
        lines: usize::from(*limit),
    };

    let lines = match decode::all(section, limits) {
        Ok(lines) => lines,
        Err(_) => return,
    };

    let size: usize = lines
        .iter()
        .map(|(name, value)| name.len() + value.len() + LINE_OVERHEAD)
        .sum();
    assert!(size <= limits.bytes && lines.len() <= limits.lines);
    let mut again = bytes::BytesMut::new();
    let mut encoder = QpackEncoder::default();
    let mut section = encoder.section(0, &mut again);

    for (name, value) in &lines {
        section.line(LineName::parse(name), value, false);
    }
    section.finish();
    assert_eq!(decode::all(&again, limits), Ok(lines));
}

/// Names of the lines that arbitrary bytes choose.
#[cfg(test)]
const NAMES: [&[u8]; 4] = [b":path", b"via", b"x-user", b"authorization"];

/// Takes arbitrary bytes as lines, each written on a stream of its own, and as the order of
/// arrival: each is read as it was written.
#[cfg(test)]
fn converse(data: &[u8]) {
    let mut encoder = QpackEncoder::default();
    let mut decoder = QpackDecoder::new(256);
    let mut output = bytes::BytesMut::new();
    let limits = FieldSectionLimits {
        bytes: 4096,
        lines: 1,
    };
    encoder.allow(256);

    for (stream, command) in (0..).step_by(4).zip(data.chunks(2)) {
        let kind = command[0];
        let name = NAMES[usize::from(kind % 4)];
        let value = &command[1..];
        output.clear();
        let mut section = encoder.section(stream, &mut output);
        section.line(LineName::parse(name), value, kind & 0x80 != 0);
        section.finish();

        if kind & 0x10 != 0 {
            assert_eq!(decoder.handle(&encoder.take_instructions()), Ok(()));
        }
        if kind & 0x20 == 0 {
            let mut section = decoder.section(stream, &output, limits);
            let line = section.as_mut().map(FieldSection::next);
            assert!(
                matches!(line, Ok(Ok(Some(FieldLine { name: read, value: text }))) if read.as_bytes() == name && text == value)
            );
        } else {
            decoder.cancel(stream);
        }
        if kind & 0x40 != 0 {
            assert_eq!(encoder.handle(&decoder.take_instructions()), Ok(()));
        }
    }
}
