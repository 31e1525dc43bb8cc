//! Input of the two QPACK streams of a peer (RFC 9204, sections 4.3 and 4.4), in pieces of any
//! size.

#[cfg(test)]
use super::QpackDecoder;
use super::{QpackEncoder, QpackError, integer};

/// An instruction that cannot be: the connection ends with `QPACK_ENCODER_STREAM_ERROR` or `QPACK_DECODER_STREAM_ERROR`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InstructionError {
    /// A capacity above the announced one (RFC 9204, section 4.3.1).
    #[error("the peer sets a capacity of the dynamic table above the announced one")]
    Capacity,
    /// An entry that cannot fit (RFC 9204, section 3.2.2), or refers to one that there is not.
    #[error("the peer inserts an entry that the dynamic table has no room for")]
    Insert,
    /// A section acknowledged that was not sent, or had no dynamic entry (RFC 9204, section 4.4.1).
    #[error("the peer acknowledges a section that needs no acknowledgement")]
    Acknowledgement,
    /// An increment beyond the inserted entries (RFC 9204, section 4.4.3).
    #[error("the peer counts insertions that were not made")]
    Increment,
    /// An integer above 62 bits, or a string that is no Huffman code.
    #[error("an instruction cannot be read")]
    Unreadable,
    /// More answers than wait for a peer that does not read them.
    #[error("the peer does not read instructions about its sections")]
    Unheard,
}

impl From<QpackError> for InstructionError {
    fn from(error: QpackError) -> Self {
        match error {
            QpackError::TooLarge | QpackError::NoEntry => Self::Insert,
            _ => Self::Unreadable,
        }
    }
}

/// A whole instruction; `None` if bytes are missing.
pub(super) type Step = Result<Option<()>, InstructionError>;

/// Holds the received part of an instruction until the rest is there. The caller bounds its length.
#[derive(Debug, Default)]
pub(super) struct Pieces(Vec<u8>);

impl Pieces {
    /// Adds received bytes, and has `take` take instruction after instruction. It returns `None` if
    /// one is incomplete.
    pub(super) fn handle(
        &mut self,
        bytes: &[u8],
        mut take: impl FnMut(&mut &[u8]) -> Step,
    ) -> Result<(), InstructionError> {
        if self.0.is_empty() {
            let left = take_all(bytes, &mut take)?;
            self.0.extend_from_slice(&bytes[bytes.len() - left..]);
            return Ok(());
        }

        self.0.extend_from_slice(bytes);
        let left = take_all(&self.0, &mut take)?;
        self.0.drain(..self.0.len() - left);
        Ok(())
    }
}

/// Takes whole instructions, and returns the number of bytes left.
fn take_all(
    bytes: &[u8],
    take: &mut impl FnMut(&mut &[u8]) -> Step,
) -> Result<usize, InstructionError> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let mut after = rest;
        if take(&mut after)?.is_none() {
            break;
        }
        rest = after;
    }
    Ok(rest.len())
}

/// Takes an integer off the front of `rest`; `None` when bytes are missing.
pub(super) fn integer(prefix: u8, rest: &mut &[u8]) -> Result<Option<u64>, InstructionError> {
    Ok(integer::decode(prefix, rest)?)
}

impl QpackEncoder {
    /// Handles bytes of the peer's decoder stream.
    ///
    /// # Errors
    /// An acknowledgement of sections or insertions that do not exist; close the connection.
    pub fn handle(&mut self, bytes: &[u8]) -> Result<(), InstructionError> {
        let mut pieces = std::mem::take(&mut self.pieces);
        let handled = pieces.handle(bytes, |rest| self.take(rest));
        self.pieces = pieces;
        handled
    }

    fn take(&mut self, rest: &mut &[u8]) -> Step {
        let first = rest[0];
        let prefix = if first & 0x80 != 0 { 7 } else { 6 };
        let Some(number) = integer(prefix, rest)? else {
            return Ok(None);
        };

        match first {
            0x80.. => self.acknowledged(number)?,
            0x40..=0x7f => self.cancelled(number),
            _ => self.confirmed(number)?,
        }
        Ok(Some(()))
    }
}

/// Reads arbitrary bytes, whole and byte by byte, on both sides: the outcome is the same.
#[cfg(test)]
pub(super) fn fuzz_one(data: &[u8]) {
    for most in [0, 256] {
        let mut whole = QpackDecoder::new(most);
        let mut pieces = QpackDecoder::new(most);
        let each = data
            .iter()
            .try_for_each(|byte| pieces.handle(std::slice::from_ref(byte)));
        assert_eq!(whole.handle(data), each);
        assert_eq!(whole.take_instructions(), pieces.take_instructions());
    }

    let mut whole = QpackEncoder::default();
    let mut pieces = QpackEncoder::default();
    whole.allow(256);
    pieces.allow(256);
    let each = data
        .iter()
        .try_for_each(|byte| pieces.handle(std::slice::from_ref(byte)));
    assert_eq!(whole.handle(data), each);
}
