//! What comes on a peer's two QPACK streams (RFC 9204, sections 4.3 and 4.4), when neither side has a dynamic table.

use super::{QpackError, integer};

/// Bytes of the longest integer that is taken: 62 bits behind a prefix.
const LONGEST: usize = 11;

/// Whose instructions a stream carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The peer's encoder: what it inserts into our table, which has no room.
    Encoder,
    /// The peer's decoder: what it says of sections that we sent, of which none needs its word.
    Decoder,
}

/// An instruction that cannot be: the connection ends with `QPACK_ENCODER_STREAM_ERROR` or `QPACK_DECODER_STREAM_ERROR`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InstructionError {
    /// A capacity above the 0 that we announced (RFC 9204, section 4.3.1).
    #[error("the peer sets a capacity of the dynamic table above 0")]
    Capacity,
    /// An entry that cannot fit (RFC 9204, section 3.2.2), or a copy of one that there is not.
    #[error("the peer inserts into a dynamic table without room")]
    Insert,
    /// A section acknowledged that had no dynamic entry (RFC 9204, section 4.4.1).
    #[error("the peer acknowledges a section that needs no acknowledgement")]
    Acknowledgement,
    /// An increment of what was never inserted (RFC 9204, section 4.4.3).
    #[error("the peer counts insertions that were not made")]
    Increment,
    /// An integer above 62 bits.
    #[error("an integer of an instruction is too large")]
    Overflow,
}

/// Reads the instructions of one stream, which arrive in pieces.
#[derive(Debug)]
pub struct Instructions {
    side: Side,
    held: [u8; LONGEST],
    length: usize,
}

impl Instructions {
    /// For a new stream.
    pub fn new(side: Side) -> Self {
        Self {
            side,
            held: [0; LONGEST],
            length: 0,
        }
    }

    /// Takes what arrived. Those few that change nothing are passed over: a capacity of 0, and cancelled streams.
    ///
    /// # Errors
    /// `InstructionError`, upon which the connection must be closed.
    pub fn handle(&mut self, bytes: &[u8]) -> Result<(), InstructionError> {
        for &byte in bytes {
            self.held[self.length] = byte;
            self.length += 1;
            if self.instruction()? {
                self.length = 0;
            }
        }
        Ok(())
    }

    /// Whether an instruction is complete.
    fn instruction(&self) -> Result<bool, InstructionError> {
        let first = self.held[0];
        let prefix = match self.side {
            Side::Encoder if first & 0xe0 == 0x20 => 5,
            Side::Encoder => return Err(InstructionError::Insert),
            Side::Decoder if first & 0x80 != 0 => return Err(InstructionError::Acknowledgement),
            Side::Decoder if first & 0x40 == 0 => return Err(InstructionError::Increment),
            Side::Decoder => 6,
        };
        match integer::decode(prefix, &mut &self.held[..self.length]) {
            Ok(None) if self.length < LONGEST => Ok(false),
            Ok(Some(capacity)) if self.side == Side::Encoder && capacity > 0 => {
                Err(InstructionError::Capacity)
            }
            Ok(Some(_)) => Ok(true),
            Ok(None) | Err(QpackError::Overflow) | Err(_) => Err(InstructionError::Overflow),
        }
    }
}

/// Reads arbitrary bytes, whole and byte by byte, on both sides: the outcome is the same.
pub(super) fn fuzz_one(data: &[u8]) {
    for side in [Side::Encoder, Side::Decoder] {
        let whole = Instructions::new(side).handle(data);
        let mut pieces = Instructions::new(side);
        let pieces = data
            .iter()
            .try_for_each(|byte| pieces.handle(std::slice::from_ref(byte)));
        assert_eq!(whole, pieces);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoder(bytes: &[u8]) -> Result<(), InstructionError> {
        Instructions::new(Side::Encoder).handle(bytes)
    }

    fn decoder(bytes: &[u8]) -> Result<(), InstructionError> {
        Instructions::new(Side::Decoder).handle(bytes)
    }

    #[test]
    fn refuses_the_encoder_instructions_of_rfc_9204_appendix_b() {
        assert_eq!(encoder(b"\x3f\xbd\x01"), Err(InstructionError::Capacity));
        assert_eq!(
            encoder(b"\xc0\x0fwww.example.com"),
            Err(InstructionError::Insert)
        );
        assert_eq!(
            encoder(b"\x4acustom-key\x0ccustom-value"),
            Err(InstructionError::Insert)
        );
        assert_eq!(encoder(b"\x02"), Err(InstructionError::Insert));
        assert_eq!(
            encoder(b"\x81\x0dcustom-value2"),
            Err(InstructionError::Insert)
        );
    }

    #[test]
    fn takes_a_capacity_of_zero_as_often_as_it_comes() {
        assert_eq!(encoder(&[0x20; 100]), Ok(()));
        assert_eq!(encoder(b"\x20\x21"), Err(InstructionError::Capacity));
    }

    #[test]
    fn refuses_what_a_decoder_cannot_say_and_takes_cancellations() {
        assert_eq!(decoder(b"\x84"), Err(InstructionError::Acknowledgement));
        assert_eq!(decoder(b"\x01"), Err(InstructionError::Increment));
        assert_eq!(decoder(b"\x00"), Err(InstructionError::Increment));
        assert_eq!(decoder(b"\x48\x7f\xff\x01\x48"), Ok(()));
        assert_eq!(
            decoder(&[&[0x7f][..], &[0xff; 10]].concat()),
            Err(InstructionError::Overflow)
        );
    }
}
