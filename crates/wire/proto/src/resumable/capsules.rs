//! The capsules of a resumable tunnel.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::SESSION;
use crate::capsule::{CapsuleHeader, CapsulePart, CapsuleReader, MAX_HEADER};
use crate::connect_tcp::{DATA, FINAL_DATA};
use crate::varint;

/// The type of RESUME.
const RESUME: u64 = 0x2d7c_51aa;

/// The type of ACK.
const ACK: u64 = 0x2d7c_51ab;

/// The type of RESET.
const RESET: u64 = 0x2d7c_51ac;

/// Bytes of a reason that are sent and kept.
#[doc(alias = "bound")]
const MOST_REASON: usize = 240;

/// Bytes of the longest capsule that is no data: a RESET.
#[doc(alias = "bound")]
const MOST_CONTROL: u64 = (varint::MAX_SIZE + MOST_REASON) as u64;

/// The content of RESUME.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResumeOf {
    /// The session.
    pub session: [u8; SESSION],
    /// The process that keeps it.
    pub epoch: u64,
    /// Bytes received from the peer, with the end of its direction counted as a byte.
    pub received: u64,
}

/// A piece of the received data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResumablePiece {
    /// Bytes, never empty.
    Data(Bytes),
    /// The end of this direction.
    End,
    /// The peer has received so much.
    Ack(u64),
    /// The tunnel goes on here.
    Resume(ResumeOf),
    /// The tunnel is over: an error code of HTTP/2, and words.
    Reset(u64, String),
}

/// Why a path must be given up, and the tunnel with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ResumableError {
    /// Data after their end.
    #[error("data came after the capsule that ended them")]
    AfterEnd,
    /// A capsule of ours has a value that it cannot have.
    #[error("a capsule of type {0:#x} is malformed")]
    Malformed(u64),
    /// The peer acknowledges bytes that were never sent, or fewer than before.
    #[error("the peer acknowledges bytes that were not sent")]
    Unsent,
    /// The peer lacks bytes that are not kept any more.
    #[error("the peer asks for bytes that it has acknowledged")]
    Forgotten,
    /// RESUME is missing, comes twice, or names another session.
    #[error("the path belongs to another session")]
    OtherSession,
}

/// A capsule with bytes of the tunnel, and the length of its header.
pub(super) fn data(bytes: &[u8], last: bool) -> (Bytes, usize) {
    let mut output = BytesMut::with_capacity(MAX_HEADER + bytes.len());
    varint::encode(if last { FINAL_DATA } else { DATA }, &mut output);
    varint::encode(bytes.len() as u64, &mut output);

    let header = output.len();
    output.extend_from_slice(bytes);
    (output.freeze(), header)
}

pub(super) fn encode_ack(received: u64, output: &mut BytesMut) {
    varint::encode(ACK, output);
    varint::encode(varint::size(received) as u64, output);
    varint::encode(received, output);
}

pub(super) fn encode_resume(resume: &ResumeOf, output: &mut BytesMut) {
    let length = SESSION + 8 + varint::size(resume.received);
    varint::encode(RESUME, output);
    varint::encode(length as u64, output);

    output.extend_from_slice(&resume.session);
    output.put_u64(resume.epoch);
    varint::encode(resume.received, output);
}

pub(super) fn encode_reset(code: u64, reason: &str, output: &mut BytesMut) {
    let reason = &reason[..reason.floor_char_boundary(MOST_REASON)];
    varint::encode(RESET, output);
    varint::encode((varint::size(code) + reason.len()) as u64, output);

    varint::encode(code, output);
    output.extend_from_slice(reason.as_bytes());
}

/// Takes pieces out of a stream of capsules, without waiting for whole ones where they carry bytes. Capsules of unknown types are
/// dropped as they pass.
///
/// Push a chunk, then take pieces until there is none, then push the next.
#[derive(Debug, Default)]
pub struct ResumableDecoder {
    reader: CapsuleReader,
    /// The header of FINAL_DATA has come.
    last: bool,
    ended: bool,
    failed: Option<ResumableError>,
}

impl ResumableDecoder {
    /// Of a path that goes on: whether the peer's direction has ended already.
    pub fn after(ended: bool) -> Self {
        Self {
            last: ended,
            ended,
            ..Self::default()
        }
    }

    /// Adds received bytes, when [`next`](Self::next) has nothing left.
    pub fn push(&mut self, chunk: Bytes) {
        self.reader.push(chunk);
    }

    /// The next piece, or `None` when more bytes are needed.
    ///
    /// # Errors
    /// The path must be given up; every further call says so again.
    #[expect(
        clippy::should_implement_trait,
        reason = "None is not the end: more may be pushed"
    )]
    pub fn next(&mut self) -> Result<Option<ResumablePiece>, ResumableError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let next = self.step();
        self.failed = next.as_ref().err().copied();
        next
    }

    fn step(&mut self) -> Result<Option<ResumablePiece>, ResumableError> {
        loop {
            if self.last && !self.ended && !self.reader.has_pieces_left() {
                self.ended = true;
                return Ok(Some(ResumablePiece::End));
            }
            match self.reader.next() {
                None => return Ok(None),
                Some(CapsulePart::Header(header)) => self.begin(header)?,
                Some(CapsulePart::Piece(data)) => return Ok(Some(ResumablePiece::Data(data))),
                Some(CapsulePart::Value(kind, value)) => return control(kind, &value).map(Some),
            }
        }
    }

    /// Takes in the header of a capsule.
    fn begin(&mut self, header: CapsuleHeader) -> Result<(), ResumableError> {
        match header.code {
            DATA | FINAL_DATA if self.last => return Err(ResumableError::AfterEnd),
            code @ (DATA | FINAL_DATA) => self.last = code == FINAL_DATA,
            code @ (ACK | RESUME | RESET) => {
                let gathers = self.reader.gather(header, MOST_CONTROL);
                gathers.map_err(|_| ResumableError::Malformed(code))?;
            }
            _ => self.reader.skip(),
        }
        Ok(())
    }
}

fn control(kind: u64, mut value: &[u8]) -> Result<ResumablePiece, ResumableError> {
    let malformed = ResumableError::Malformed(kind);
    let piece = match kind {
        ACK => ResumablePiece::Ack(varint::decode(&mut value).ok_or(malformed)?),
        RESUME => {
            let (session, mut rest) = value.split_first_chunk().ok_or(malformed)?;
            let epoch = rest.try_get_u64().map_err(|_| malformed)?;
            value = rest;

            ResumablePiece::Resume(ResumeOf {
                session: *session,
                epoch,
                received: varint::decode(&mut value).ok_or(malformed)?,
            })
        }
        _ => {
            let code = varint::decode(&mut value).ok_or(malformed)?;
            let reason = String::from_utf8_lossy(std::mem::take(&mut value));
            // For a record: nothing in it may begin a line of its own.
            let reason = reason.replace(|letter: char| letter.is_control(), " ");
            ResumablePiece::Reset(code, reason)
        }
    };

    if value.is_empty() {
        Ok(piece)
    } else {
        Err(malformed)
    }
}

/// Decodes arbitrary bytes, whole and in pieces: both find the same.
///
/// The first byte sets the length of the pieces.
#[cfg(test)]
pub(super) fn fuzz_one(data: &[u8]) {
    let [piece, stream @ ..] = data else { return };
    let whole = decode_all(stream, stream.len().max(1));
    assert_eq!(whole, decode_all(stream, usize::from(*piece).max(1)));
}

/// The decoded pieces, with bytes joined; and the error, if there is one.
#[cfg(test)]
pub(super) fn decode_all(
    stream: &[u8],
    piece: usize,
) -> (Vec<u8>, Vec<ResumablePiece>, Option<ResumableError>) {
    let mut decoder = ResumableDecoder::default();
    let mut bytes = Vec::new();
    let mut pieces = Vec::new();

    for chunk in stream.chunks(piece) {
        decoder.push(Bytes::copy_from_slice(chunk));
        loop {
            match decoder.next() {
                Ok(Some(ResumablePiece::Data(data))) => {
                    assert!(!data.is_empty());
                    bytes.extend_from_slice(&data);
                }
                Ok(Some(piece)) => pieces.push(piece),
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(decoder.next(), Err(error), "it stays so");
                    return (bytes, pieces, Some(error));
                }
            }
        }
        assert!(decoder.reader.input.is_empty());
    }

    (bytes, pieces, None)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encoded(encode: impl FnOnce(&mut BytesMut)) -> Vec<u8> {
        let mut output = BytesMut::new();
        encode(&mut output);
        output.to_vec()
    }

    fn resume(received: u64) -> ResumeOf {
        ResumeOf {
            session: *b"0123456789abcdef",
            epoch: 0x0102_0304_0506_0708,
            received,
        }
    }

    #[test]
    fn the_layout_is_as_documented() {
        assert_eq!(
            encoded(|out| encode_ack(300, out)),
            b"\xad\x7c\x51\xab\x02\x41\x2c"
        );
        assert_eq!(
            encoded(|out| encode_resume(&resume(5), out)),
            b"\xad\x7c\x51\xaa\x190123456789abcdef\x01\x02\x03\x04\x05\x06\x07\x08\x05"
        );
        assert_eq!(
            encoded(|out| encode_reset(8, "gone", out)),
            b"\xad\x7c\x51\xac\x05\x08gone"
        );
        assert_eq!(&data(b"abc", true).0[..], b"\xa0\x28\xd7\xf3\x03abc");
    }

    #[test]
    fn capsules_survive_a_round_trip_in_pieces_of_any_length() {
        let long = "é".repeat(MOST_REASON);
        let stream = [
            encoded(|out| encode_resume(&resume(0), out)),
            data(b"abc", false).0.to_vec(),
            b"\x40\x99\x04skip".to_vec(),
            encoded(|out| encode_ack(varint::MAX, out)),
            data(b"def", true).0.to_vec(),
            encoded(|out| encode_reset(8, &long, out)),
        ]
        .concat();

        for piece in [1, 2, 7, 64, stream.len()] {
            let (bytes, pieces, error) = decode_all(&stream, piece);
            assert_eq!((&bytes[..], error), (&b"abcdef"[..], None));
            assert_eq!(
                pieces,
                [
                    ResumablePiece::Resume(resume(0)),
                    ResumablePiece::Ack(varint::MAX),
                    ResumablePiece::End,
                    ResumablePiece::Reset(8, long[..MOST_REASON].to_owned()),
                ]
            );
        }
    }

    #[test]
    fn malformed_capsules_are_errors() {
        let malformed = |stream: &[u8]| decode_all(stream, 3).2;
        let ack = Some(ResumableError::Malformed(ACK));
        assert_eq!(malformed(b"\xad\x7c\x51\xab\x00"), ack, "empty");
        assert_eq!(malformed(b"\xad\x7c\x51\xab\x02\x01\x01"), ack, "too long");
        assert_eq!(malformed(b"\xad\x7c\x51\xab\x01\x41"), ack, "cut off");
        assert_eq!(
            malformed(b"\xad\x7c\x51\xab\x61\x00"),
            ack,
            "beyond the bound"
        );
        assert_eq!(
            malformed(b"\xad\x7c\x51\xaa\x02ab"),
            Some(ResumableError::Malformed(RESUME))
        );

        let more = [data(b"", true).0, data(b"x", false).0].concat();
        assert_eq!(malformed(&more), Some(ResumableError::AfterEnd));
    }

    #[test]
    fn a_reason_holds_no_line_breaks() {
        let stream = encoded(|out| encode_reset(0, "a\nb\r\u{1b}c", out));
        assert_eq!(
            decode_all(&stream, 1).1,
            [ResumablePiece::Reset(0, "a b  c".to_owned())]
        );
    }

    proptest! {
        #[test]
        fn pieces_change_nothing(data in proptest::collection::vec(any::<u8>(), 0..200)) {
            fuzz_one(&data);
        }
    }
}
