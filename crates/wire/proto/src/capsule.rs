//! The Capsule Protocol (RFC 9297, section 3): typed, length-prefixed messages in a tunnel's byte stream.
//!
//! ```text
//! Capsule { Type (varint), Length (varint), Value (Length bytes) }
//! ```

mod cursor;
mod reader;
mod sift;

use bytes::{Bytes, BytesMut};

use crate::varint;

/// The field that says that a stream consists of capsules (RFC 9297, section 3.4).
pub const CAPSULE_PROTOCOL: http::HeaderName = http::HeaderName::from_static("capsule-protocol");
pub use cursor::CapsuleCursor;
pub(crate) use reader::{CapsuleHeader, CapsulePart, CapsuleReader};
pub use sift::{CapsuleSieve, Sifted};

/// The longest header, in bytes: two variable-length integers.
pub const MAX_HEADER: usize = 2 * varint::MAX_SIZE;

/// Types of capsules, from the registry "HTTP Capsule Types".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CapsuleType {
    /// `0x00`: an HTTP datagram (RFC 9297, section 3.5).
    Datagram,
    /// `0x01`: addresses for the peer (RFC 9484, section 4.7.1).
    AddressAssign,
    /// `0x02`: a wish for addresses (RFC 9484, section 4.7.2).
    AddressRequest,
    /// `0x03`: ranges that can be reached (RFC 9484, section 4.7.3).
    RouteAdvertisement,
    /// `0x2d7c51a9`: ours, [how large UDP payloads may be](crate::datagram_limit) that go on.
    DatagramLimit,
    /// `0x2d7c51b0`: ours, a super-packet of IP, or whether one end takes such (`hermes_ip::offload`).
    SuperPacket,
    /// A type without a name here.
    Other(u64),
}

impl CapsuleType {
    /// The number on the wire.
    pub fn code(self) -> u64 {
        match self {
            Self::Datagram => 0x00,
            Self::AddressAssign => 0x01,
            Self::AddressRequest => 0x02,
            Self::RouteAdvertisement => 0x03,
            Self::DatagramLimit => 0x2d7c_51a9,
            Self::SuperPacket => 0x2d7c_51b0,
            Self::Other(code) => code,
        }
    }
}

impl From<u64> for CapsuleType {
    fn from(code: u64) -> Self {
        match code {
            0x00 => Self::Datagram,
            0x01 => Self::AddressAssign,
            0x02 => Self::AddressRequest,
            0x03 => Self::RouteAdvertisement,
            0x2d7c_51a9 => Self::DatagramLimit,
            0x2d7c_51b0 => Self::SuperPacket,
            _ => Self::Other(code),
        }
    }
}

/// One capsule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capsule {
    /// The type.
    pub kind: CapsuleType,
    /// The value. It may share memory with the chunk it arrived in: copy it if you keep it for
    /// long.
    pub value: Bytes,
}

/// Why a stream of capsules must be aborted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CapsuleError {
    /// A capsule of a known type is longer than this side takes.
    #[error("a capsule of type {code:#x} has {length} bytes, above the limit of {limit}")]
    TooLong {
        /// Its type on the wire.
        code: u64,
        /// Its length in bytes, as announced.
        length: u64,
        /// The decoder's limit in bytes.
        limit: u64,
    },
    /// The stream ended inside a capsule: the message is malformed (RFC 9297, section 3.3).
    #[error("the stream ended inside a capsule")]
    Truncated,
}

/// Appends the header of a capsule with a value of `length` bytes.
///
/// # Panics
/// When the type or the length is above [`varint::MAX`].
pub fn encode_header(kind: CapsuleType, length: u64, output: &mut BytesMut) {
    varint::encode(kind.code(), output);
    varint::encode(length, output);
}

/// Finds capsules in a stream that arrives in chunks.
///
/// Push a chunk, then take capsules until there is none, then push the next. A value within one chunk is a slice of it;
/// one that spans chunks is put together, never beyond the limit. A capsule of an unknown type above the limit is
/// dropped as it passes (RFC 9297, section 3.2 asks to skip such types) and counted; one of a known type is an error.
#[derive(Debug)]
pub struct CapsuleDecoder {
    limit: u64,
    reader: CapsuleReader,
    discarded: u64,
    failed: Option<CapsuleError>,
}

impl CapsuleDecoder {
    /// A decoder of values up to `max_length` bytes.
    pub fn new(max_length: u64) -> Self {
        Self {
            limit: max_length,
            reader: CapsuleReader::default(),
            discarded: 0,
            failed: None,
        }
    }

    /// Adds received bytes. Meant to be called when [`next`](Self::next) has nothing left; earlier,
    /// bytes are copied.
    pub fn push(&mut self, chunk: Bytes) {
        if self.failed.is_some() {
            return;
        }
        let input = std::mem::take(&mut self.reader.input);
        if input.is_empty() {
            self.reader.push(chunk);
            return;
        }

        let mut joined = BytesMut::with_capacity(input.len() + chunk.len());
        joined.extend_from_slice(&input);
        joined.extend_from_slice(&chunk);
        self.reader.push(joined.freeze());
    }

    /// The next whole capsule, or `None` when more bytes are needed.
    ///
    /// # Errors
    /// [`CapsuleError::TooLong`]. The stream must then be aborted; the decoder repeats the error and takes no more bytes.
    #[expect(
        clippy::should_implement_trait,
        reason = "None is not the end: more may be pushed"
    )]
    pub fn next(&mut self) -> Result<Option<Capsule>, CapsuleError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        while let Some(part) = self.reader.next() {
            match part {
                CapsulePart::Header(header) => self.begin(header)?,
                // Values are gathered or skipped.
                CapsulePart::Piece(_) => {}
                CapsulePart::Value(code, value) => {
                    let kind = CapsuleType::from(code);
                    return Ok(Some(Capsule { kind, value }));
                }
            }
        }
        Ok(None)
    }

    /// Says whether the stream may end here.
    ///
    /// # Errors
    /// [`CapsuleError::Truncated`] inside a capsule (RFC 9297, section 3.3), or the error that came before.
    pub fn finish(&self) -> Result<(), CapsuleError> {
        match self.failed {
            Some(error) => Err(error),
            None if self.reader.is_between() && self.reader.input.is_empty() => Ok(()),
            None => Err(CapsuleError::Truncated),
        }
    }

    /// Bytes that are kept until the capsule that they begin is whole.
    pub fn buffered(&self) -> usize {
        self.reader.held()
    }

    /// How many capsules of unknown types were dropped for their length.
    pub fn discarded(&self) -> u64 {
        self.discarded
    }

    /// Decides whether to gather or to skip the value behind a header.
    fn begin(&mut self, header: CapsuleHeader) -> Result<(), CapsuleError> {
        let Err(error) = self.reader.gather(header, self.limit) else {
            return Ok(());
        };
        if matches!(CapsuleType::from(header.code), CapsuleType::Other(_)) {
            self.discarded += 1;
            self.reader.skip();
            return Ok(());
        }

        self.reader.input = Bytes::new();
        self.failed = Some(error);
        Err(error)
    }
}

/// Decodes arbitrary bytes, whole and in pieces: both find the same capsules and the same end,
/// nothing above the limit is held, and capsules survive a round trip.
///
/// The first byte sets the limit, the second the length of the pieces.
#[cfg(test)]
pub(crate) fn fuzz_one(data: &[u8]) {
    sift::fuzz_one(data);
    let [limit, piece, stream @ ..] = data else {
        return;
    };

    let limit = u64::from(*limit);
    let whole = decode_all(stream, limit, stream.len().max(1));
    let pieces = decode_all(stream, limit, usize::from(*piece).max(1));
    assert_eq!(whole, pieces);

    let mut again = BytesMut::new();
    for capsule in &whole.0 {
        assert!(capsule.value.len() as u64 <= limit);
        encode_header(capsule.kind, capsule.value.len() as u64, &mut again);
        again.extend_from_slice(&capsule.value);
    }

    assert_eq!(decode_all(&again, limit, 1), (whole.0, 0, Ok(())));
}

#[cfg(test)]
fn decode_all(
    stream: &[u8],
    limit: u64,
    piece: usize,
) -> (Vec<Capsule>, u64, Result<(), CapsuleError>) {
    let mut decoder = CapsuleDecoder::new(limit);
    let mut capsules = Vec::new();
    for chunk in stream.chunks(piece) {
        decoder.push(Bytes::copy_from_slice(chunk));
        while let Ok(Some(capsule)) = decoder.next() {
            capsules.push(capsule);
        }
        assert!(decoder.reader.input.is_empty());
        assert!(decoder.reader.held() <= MAX_HEADER.max(limit as usize));
    }

    (capsules, decoder.discarded(), decoder.finish())
}

#[cfg(test)]
mod tests;
