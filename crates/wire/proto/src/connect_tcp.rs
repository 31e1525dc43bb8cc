//! TCP in capsules: connect-tcp (draft-ietf-httpbis-connect-tcp): the data are the values of DATA
//! and FINAL_DATA.
//!
//! Capsules of other types are dropped as they pass, whatever their length; only the header of a
//! capsule is ever held.

use bytes::{Bytes, BytesMut};

use crate::capsule::{CapsuleError, CapsulePart, CapsuleReader, MAX_HEADER};
use crate::varint;

/// The upgrade token, and the value of `:protocol`.
pub const PROTOCOL: &str = "connect-tcp";

/// The type of DATA: bytes, and more may follow. The number is the draft's provisional one.
pub const DATA: u64 = 0x2028_d7f2;

/// The type of FINAL_DATA: the last bytes, and then the end, which is a FIN in TCP. The number is
/// provisional, too.
pub const FINAL_DATA: u64 = 0x2028_d7f3;

/// A piece of the received data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TcpPiece {
    /// Bytes, never empty.
    Data(Bytes),
    /// The end of this direction, once.
    End,
}

/// Why a stream must be aborted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConnectTcpError {
    /// DATA or FINAL_DATA after FINAL_DATA.
    #[error("data came after the capsule that ended them")]
    AfterEnd,
    /// The stream ended without FINAL_DATA: an unknown number of bytes is missing.
    #[error("the stream ended without FINAL_DATA")]
    NoEnd,
    /// The stream ended within a capsule.
    #[error(transparent)]
    Capsule(#[from] CapsuleError),
}

/// A capsule with `data`; the `last` one ends the direction.
pub fn encode(data: &[u8], last: bool) -> Bytes {
    let mut output = BytesMut::with_capacity(MAX_HEADER + data.len());
    varint::encode(if last { FINAL_DATA } else { DATA }, &mut output);
    varint::encode(data.len() as u64, &mut output);
    output.extend_from_slice(data);
    output.freeze()
}

/// Takes the bytes of TCP out of a stream of capsules, without waiting for whole ones.
///
/// Push a chunk, then take pieces until there is none, then push the next.
#[derive(Debug, Default)]
pub struct ConnectTcpDecoder {
    reader: CapsuleReader,
    /// The header of FINAL_DATA has come.
    last: bool,
    /// [`TcpPiece::End`] was given.
    ended: bool,
}

impl ConnectTcpDecoder {
    /// Adds received bytes, when [`next`](Self::next) has nothing left.
    pub fn push(&mut self, chunk: Bytes) {
        self.reader.push(chunk);
    }

    /// The next piece, or `None` when more bytes are needed.
    ///
    /// # Errors
    /// [`ConnectTcpError::AfterEnd`], upon which the stream must be aborted.
    #[expect(
        clippy::should_implement_trait,
        reason = "None is not the end: more may be pushed"
    )]
    pub fn next(&mut self) -> Result<Option<TcpPiece>, ConnectTcpError> {
        loop {
            if self.is_end() && !self.ended {
                self.ended = true;
                return Ok(Some(TcpPiece::End));
            }
            match self.reader.next() {
                None => return Ok(None),
                Some(CapsulePart::Header(header)) => match header.code {
                    DATA | FINAL_DATA if self.last => return Err(ConnectTcpError::AfterEnd),
                    code @ (DATA | FINAL_DATA) => self.last = code == FINAL_DATA,
                    _ => self.reader.skip(),
                },
                Some(CapsulePart::Piece(data) | CapsulePart::Value(_, data)) => {
                    return Ok(Some(TcpPiece::Data(data)));
                }
            }
        }
    }

    /// Whether all data were received and taken.
    pub fn is_end(&self) -> bool {
        self.last && !self.reader.has_pieces_left()
    }

    /// Says whether the stream may end here.
    ///
    /// # Errors
    /// Something is missing.
    pub fn finish(&self) -> Result<(), ConnectTcpError> {
        if !self.reader.is_between() {
            return Err(CapsuleError::Truncated.into());
        }
        if self.last {
            Ok(())
        } else {
            Err(ConnectTcpError::NoEnd)
        }
    }
}

/// Decodes arbitrary bytes, whole and in pieces: both find the same bytes and the same end, and these survive encoding.
///
/// The first byte sets the length of the pieces.
#[cfg(test)]
pub(crate) fn fuzz_one(data: &[u8]) {
    let [piece, stream @ ..] = data else { return };
    let whole = decode_all(stream, stream.len().max(1));
    assert_eq!(whole, decode_all(stream, usize::from(*piece).max(1)));
    let (bytes, ended, _) = whole;
    assert!(bytes.len() <= stream.len());
    let again = encode(&bytes, ended);
    assert_eq!((bytes, ended, ended), decode_all(&again, 1));
}

/// The bytes, whether their end was given, and whether the stream may end there.
#[cfg(test)]
fn decode_all(stream: &[u8], piece: usize) -> (Vec<u8>, bool, bool) {
    let mut decoder = ConnectTcpDecoder::default();
    let mut bytes = Vec::new();
    let mut ended = false;

    for chunk in stream.chunks(piece) {
        decoder.push(Bytes::copy_from_slice(chunk));
        loop {
            match decoder.next() {
                Ok(Some(TcpPiece::Data(data))) => {
                    assert!(!data.is_empty() && !ended);
                    bytes.extend_from_slice(&data);
                }
                Ok(Some(TcpPiece::End)) => {
                    assert!(!ended && decoder.is_end());
                    ended = true;
                }
                Ok(None) => break,
                Err(_) => return (bytes, ended, false),
            }
        }

        assert!(decoder.reader.input.is_empty());
    }

    (bytes, ended, decoder.finish().is_ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn other(kind: u64, length: usize) -> Vec<u8> {
        let mut output = BytesMut::new();
        varint::encode(kind, &mut output);
        varint::encode(length as u64, &mut output);
        output.extend(std::iter::repeat_n(7, length));
        output.to_vec()
    }

    fn stream(capsules: &[&[u8]]) -> Vec<u8> {
        capsules.concat()
    }

    #[test]
    fn writes_type_length_and_value() {
        assert_eq!(encode(b"abc", false)[..], *b"\xa0\x28\xd7\xf2\x03abc");
        assert_eq!(encode(b"", true)[..], *b"\xa0\x28\xd7\xf3\x00");
        assert_eq!(encode(&[1; 64], false)[4..6], [0x40, 0x40]);
    }

    #[test]
    fn data_are_joined_and_other_capsules_dropped() {
        let stream = stream(&[
            &encode(b"", false),
            &encode(b"abc", false),
            &other(0x1234, 5000),
            &other(0, 0),
            &encode(b"def", true),
            &other(0x1234, 3),
        ]);
        for piece in [1, 2, 5, 64, stream.len()] {
            assert_eq!(
                decode_all(&stream, piece),
                (b"abcdef".to_vec(), true, true),
                "in pieces of {piece}"
            );
        }
    }

    #[test]
    fn a_capsule_is_passed_on_before_it_is_whole() {
        let mut decoder = ConnectTcpDecoder::default();
        decoder.push(encode(b"abcdef", true).slice(..8));
        assert_eq!(
            decoder.next(),
            Ok(Some(TcpPiece::Data(Bytes::from_static(b"abc"))))
        );
        assert!(!decoder.is_end());
        assert_eq!(decoder.next(), Ok(None));
        decoder.push(Bytes::from_static(b"def"));
        assert_eq!(
            decoder.next(),
            Ok(Some(TcpPiece::Data(Bytes::from_static(b"def"))))
        );
        assert!(decoder.is_end());
        assert_eq!(decoder.next(), Ok(Some(TcpPiece::End)));
        assert_eq!(decoder.next(), Ok(None));
    }

    #[test]
    fn nothing_follows_the_end() {
        for more in [encode(b"", false), encode(b"x", true)] {
            let mut decoder = ConnectTcpDecoder::default();
            decoder.push(stream(&[&encode(b"", true), &more]).into());
            assert_eq!(decoder.next(), Ok(Some(TcpPiece::End)));
            assert_eq!(decoder.next(), Err(ConnectTcpError::AfterEnd));
        }
    }

    #[test]
    fn a_stream_that_just_ends_is_cut_off() {
        let finish = |bytes: &[u8]| {
            let mut decoder = ConnectTcpDecoder::default();
            decoder.push(Bytes::copy_from_slice(bytes));
            while decoder.next().unwrap().is_some() {}
            decoder.finish()
        };
        assert_eq!(finish(b""), Err(ConnectTcpError::NoEnd));
        assert_eq!(finish(&encode(b"abc", false)), Err(ConnectTcpError::NoEnd));
        assert_eq!(finish(&encode(b"abc", true)), Ok(()));
        let last = encode(b"abc", true);
        for cut in 1..last.len() {
            assert_eq!(
                finish(&last[..cut]),
                Err(ConnectTcpError::Capsule(CapsuleError::Truncated)),
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn a_length_costs_nothing() {
        let mut decoder = ConnectTcpDecoder::default();
        decoder.push(Bytes::from_static(
            b"\x21\xff\xff\xff\xff\xff\xff\xff\xffabc",
        ));
        assert_eq!(decoder.next(), Ok(None));
        assert!(decoder.reader.input.is_empty());
    }

    proptest! {
        #[test]
        fn pieces_change_nothing(
            capsules in proptest::collection::vec((0_u8..4, proptest::collection::vec(any::<u8>(), 0..80)), 0..8),
            piece in any::<u8>(),
        ) {
            let mut data = vec![piece];
            for (kind, value) in &capsules {
                match kind {
                    0 => data.extend_from_slice(&encode(value, true)),
                    1 => data.extend_from_slice(&other(0x99, value.len())),
                    _ => data.extend_from_slice(&encode(value, false)),
                }
            }
            fuzz_one(&data);
        }
    }
}
