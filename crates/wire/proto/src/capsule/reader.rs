//! The parts of capsules in a stream that arrives in chunks. All decoders of capsules read them here.

use bytes::{Buf, Bytes};

use super::{CapsuleError, MAX_HEADER};
use crate::gathered::Gathered;
use crate::varint;

/// The header of a capsule.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CapsuleHeader {
    /// The type on the wire.
    pub(crate) code: u64,
    /// Bytes of the value.
    pub(crate) length: u64,
}

/// The next part of a stream of capsules.
#[derive(Debug)]
pub(crate) enum CapsulePart {
    /// A capsule begins. Its value follows in pieces, unless the caller has it
    /// [gathered](CapsuleReader::gather) or [skipped](CapsuleReader::skip) now.
    Header(CapsuleHeader),
    /// Bytes of the value, never empty.
    Piece(Bytes),
    /// The gathered value of a capsule of this type.
    Value(u64, Bytes),
}

/// Reads capsules. Push a chunk, then take parts until there is none, then push the next.
#[derive(Debug, Default)]
pub(crate) struct CapsuleReader {
    pub(crate) input: Bytes,
    header: [u8; MAX_HEADER],
    /// Bytes of a header that is not whole.
    held: usize,
    /// Bytes of the last whole header.
    size: usize,
    value: CapsuleValue,
}

/// The value that is being read.
#[derive(Debug, Default)]
enum CapsuleValue {
    /// A header comes next.
    #[default]
    None,
    Pieces {
        left: u64,
    },
    Gathered {
        code: u64,
        length: usize,
        gathered: Gathered,
    },
    Skipped {
        left: u64,
    },
}

impl CapsuleReader {
    /// Adds received bytes, when [`next`](Self::next) has nothing left.
    #[inline]
    pub(crate) fn push(&mut self, chunk: Bytes) {
        debug_assert!(self.input.is_empty(), "earlier bytes were not taken");
        self.input = chunk;
    }

    /// The next part, or `None` when more bytes are needed: then the whole chunk is taken.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<CapsulePart> {
        loop {
            match &mut self.value {
                CapsuleValue::None => {
                    let header = self.read_header()?;
                    self.value = CapsuleValue::Pieces {
                        left: header.length,
                    };
                    return Some(CapsulePart::Header(header));
                }
                CapsuleValue::Gathered {
                    code,
                    length,
                    gathered,
                } => {
                    let value = gathered.take(*length, &mut self.input)?;
                    let code = *code;
                    self.value = CapsuleValue::None;
                    return Some(CapsulePart::Value(code, value));
                }
                CapsuleValue::Pieces { left: 0 } | CapsuleValue::Skipped { left: 0 } => {
                    self.value = CapsuleValue::None;
                }
                _ if self.input.is_empty() => return None,
                CapsuleValue::Pieces { left } => {
                    return Some(CapsulePart::Piece(take(&mut self.input, left)));
                }
                CapsuleValue::Skipped { left } => drop(take(&mut self.input, left)),
            }
        }
    }

    /// Gathers the value of the capsule that begins, if it has at most `limit` bytes.
    ///
    /// # Errors
    /// [`CapsuleError::TooLong`].
    #[inline]
    pub(crate) fn gather(&mut self, header: CapsuleHeader, limit: u64) -> Result<(), CapsuleError> {
        let CapsuleHeader { code, length } = header;
        match usize::try_from(length) {
            Ok(fits) if length <= limit => {
                self.value = CapsuleValue::Gathered {
                    code,
                    length: fits,
                    gathered: Gathered::default(),
                };
                Ok(())
            }
            _ => Err(CapsuleError::TooLong {
                code,
                length,
                limit,
            }),
        }
    }

    /// Drops the value of the capsule that begins as it passes.
    pub(crate) fn skip(&mut self) {
        if let CapsuleValue::Pieces { left } = self.value {
            self.value = CapsuleValue::Skipped { left };
        }
    }

    /// The header that was read last, as it came.
    pub(crate) fn header_bytes(&self) -> Bytes {
        Bytes::copy_from_slice(&self.header[..self.size])
    }

    /// Whether pieces of a value are to come.
    pub(crate) fn has_pieces_left(&self) -> bool {
        matches!(self.value, CapsuleValue::Pieces { left: 1.. })
    }

    /// Whether a capsule may begin here.
    pub(crate) fn is_between(&self) -> bool {
        let is_value = matches!(
            self.value,
            CapsuleValue::Gathered { .. }
                | CapsuleValue::Pieces { left: 1.. }
                | CapsuleValue::Skipped { left: 1.. }
        );
        self.held == 0 && !is_value
    }

    /// Reads a header; `None` if bytes are missing, after keeping those that came.
    #[inline]
    fn read_header(&mut self) -> Option<CapsuleHeader> {
        let available = match self.input.first_chunk() {
            // Most headers are within a chunk: a copy of constant length is cheap.
            Some(chunk) if self.held == 0 => {
                self.header = *chunk;
                MAX_HEADER
            }
            _ => {
                let added = self.input.len().min(MAX_HEADER - self.held);
                self.header[self.held..self.held + added].copy_from_slice(&self.input[..added]);
                self.held + added
            }
        };

        let mut rest = &self.header[..available];
        let Some((code, length)) = varint::decode(&mut rest).zip(varint::decode(&mut rest)) else {
            // All of the chunk is taken: `push` expects an empty input.
            self.input.advance(available - self.held);
            self.held = available;
            return None;
        };

        self.size = available - rest.len();
        self.input.advance(self.size - self.held);
        self.held = 0;
        Some(CapsuleHeader { code, length })
    }

    /// Bytes held between chunks.
    pub(super) fn held(&self) -> usize {
        match &self.value {
            CapsuleValue::Gathered { gathered, .. } => gathered.len(),
            _ => self.held,
        }
    }
}

/// The part of a value that is here, of which `left` bytes are missing.
fn take(input: &mut Bytes, left: &mut u64) -> Bytes {
    let here = input.len();
    let count = usize::try_from(*left).map_or(here, |left| left.min(here));
    *left -= count as u64;
    input.split_to(count)
}
