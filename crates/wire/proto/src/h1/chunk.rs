//! The line before each chunk (RFC 9112 7.1).

use super::error::DecodeErrorKind as Kind;
use crate::fields::is_value_byte;

/// 16 hexadecimal digits fill 64 bits.
const MAX_DIGITS: usize = 16;

/// The content of a chunk line, and the length of the line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ChunkLine {
    /// Bytes of content in the chunk; 0 marks the last one.
    pub(super) size: u64,
    /// Bytes of the line with its CRLF.
    pub(super) length: usize,
}

/// Reads the chunk line at the front of `buf`; `None` means that more bytes are needed.
///
/// Reads from left to right and stops at the first wrong byte, so a fault is found as soon as it
/// has arrived.
pub(super) fn decode_chunk_line(
    buf: &[u8],
    extension_limit: usize,
) -> Result<Option<ChunkLine>, Kind> {
    let mut digits = 0;
    let mut size = 0;
    while let Some(digit) = buf.get(digits).and_then(|byte| hex_digit(*byte)) {
        // Leading zeros count as well: one more digit would shift bits out of the size.
        if digits == MAX_DIGITS {
            return Err(Kind::ChunkSizeOverflow);
        }
        size = size << 4 | digit;
        digits += 1;
    }

    if digits == 0 && !buf.is_empty() {
        return Err(Kind::BadChunkSize);
    }
    let line = extension_length(&buf[digits..], extension_limit)?;
    Ok(line.map(|rest| ChunkLine {
        size,
        length: digits + rest,
    }))
}

/// The bytes from the size to the end of the line, CRLF included.
///
/// RFC 9112 7.1.1: white space may stand before `;`, and extensions no one knows are ignored, within a limit.
fn extension_length(rest: &[u8], limit: usize) -> Result<Option<usize>, Kind> {
    let mut started = false;
    for (index, byte) in rest.iter().copied().enumerate() {
        match byte {
            b'\r' => return line_end(rest.get(index + 1), index == 0 || started, index),
            b'\n' => return Err(Kind::BareLf),
            _ if index >= limit => return Err(Kind::ChunkExtensionTooLong),
            b';' => started = true,
            b' ' | b'\t' => {}
            other if started && is_value_byte(other) => {}
            _ if index == 0 => return Err(Kind::BadChunkSize),
            _ => return Err(Kind::BadChunkExtension),
        }
    }

    Ok(None)
}

fn line_end(after_cr: Option<&u8>, complete: bool, index: usize) -> Result<Option<usize>, Kind> {
    match after_cr {
        None => Ok(None),
        Some(b'\n') if complete => Ok(Some(index + 2)),
        Some(b'\n') => Err(Kind::BadChunkExtension),
        Some(_) => Err(Kind::BareCr),
    }
}

fn hex_digit(byte: u8) -> Option<u64> {
    char::from(byte).to_digit(16).map(u64::from)
}
