//! QPACK (RFC 9204) without a dynamic table: field sections of static references and literals.
//!
//! We announce a capacity of 0 and refer to nothing but the static table, so no section ever waits for another stream, and
//! no peer can make us keep a table. What a peer may still send on the two QPACK streams is checked in [`Instructions`].

mod decode;
mod encode;
pub(crate) mod huffman;
mod instructions;
pub(crate) mod integer;
mod static_table;

pub use decode::{FieldLine, FieldSection, Limits};
pub use encode::{encode_line, encode_prefix};
pub use instructions::{Instructions, Side};

/// What RFC 9114, section 4.2.2 adds to the length of each field line when a section's size is counted, in bytes.
pub const LINE_OVERHEAD: usize = 32;

/// Why a field section cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QpackError {
    /// The section is cut off, or ends within a line.
    #[error("a field section ends within a line")]
    Truncated,
    /// It refers to the dynamic table, which has no room here (RFC 9204, section 2.2.3).
    #[error("a field section refers to the dynamic table, which has no entries")]
    Dynamic,
    /// A static index above 98 (RFC 9204, section 3.1).
    #[error("a field section names an entry that the static table does not have")]
    NoEntry,
    /// An integer above 62 bits (RFC 9204, section 4.1.1).
    #[error("an integer of a field section is too large")]
    Overflow,
    /// A Huffman code that is none, or wrong padding (RFC 7541, section 5.2).
    #[error("a string of a field section is no Huffman code")]
    Huffman,
    /// More bytes than [`Limits`] allow, counted as RFC 9114, section 4.2.2 says.
    #[error("a field section is too large")]
    TooLarge,
    /// More lines than [`Limits`] allow.
    #[error("a field section has too many lines")]
    TooMany,
}

impl QpackError {
    /// Whether the section may be sound, but is more than this side takes.
    pub fn is_limit(self) -> bool {
        matches!(self, Self::TooLarge | Self::TooMany)
    }
}

/// Decodes arbitrary bytes as a field section: nothing above the limits comes out, and what came out is decoded again after
/// encoding it. The first byte sets the limits.
pub fn fuzz_one(data: &[u8]) {
    huffman::fuzz_one(data);
    instructions::fuzz_one(data);
    let [limit, section @ ..] = data else { return };
    let limits = Limits {
        bytes: usize::from(*limit) * 16,
        lines: usize::from(*limit),
    };
    let lines = match decode::all(section, limits) {
        Ok(lines) => lines,
        Err(_) => return,
    };
    let size: usize = lines.iter().map(FieldLine::size).sum();
    assert!(size <= limits.bytes && lines.len() <= limits.lines);
    let mut again = bytes::BytesMut::new();
    encode_prefix(&mut again);
    for line in &lines {
        encode_line(&line.name, &line.value, false, &mut again);
    }
    assert_eq!(decode::all(&again, limits), Ok(lines));
}
