//! The Capsule Protocol (RFC 9297, section 3): typed, length-prefixed messages in a tunnel's byte stream.
//!
//! ```text
//! Capsule { Type (varint), Length (varint), Value (Length bytes) }
//! ```

mod cursor;
mod sift;

use bytes::{Bytes, BytesMut};

use crate::gathered::Gathered;
use crate::varint;

/// The field that says that a stream consists of capsules (RFC 9297, section 3.4).
pub const CAPSULE_PROTOCOL: http::HeaderName = http::HeaderName::from_static("capsule-protocol");
pub use cursor::CapsuleCursor;
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
    input: Bytes,
    state: CapsuleState,
    discarded: u64,
}

#[derive(Debug)]
enum CapsuleState {
    Header {
        bytes: [u8; MAX_HEADER],
        length: usize,
    },
    Value {
        kind: CapsuleType,
        length: usize,
        gathered: Gathered,
    },
    Discard {
        left: u64,
    },
    Failed(CapsuleError),
}

const AT_START: CapsuleState = CapsuleState::Header {
    bytes: [0; MAX_HEADER],
    length: 0,
};

impl CapsuleDecoder {
    /// A decoder of values up to `max_length` bytes.
    pub fn new(max_length: u64) -> Self {
        Self {
            limit: max_length,
            input: Bytes::new(),
            state: AT_START,
            discarded: 0,
        }
    }

    /// Adds received bytes. Meant to be called when [`next`](Self::next) has nothing left; earlier,
    /// bytes are copied.
    pub fn push(&mut self, chunk: Bytes) {
        if matches!(self.state, CapsuleState::Failed(_)) {
            return;
        }
        if self.input.is_empty() {
            self.input = chunk;
            return;
        }

        let mut joined = BytesMut::with_capacity(self.input.len() + chunk.len());
        joined.extend_from_slice(&self.input);
        joined.extend_from_slice(&chunk);
        self.input = joined.freeze();
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
        loop {
            let progress = match &self.state {
                CapsuleState::Header { .. } => self.header(),
                CapsuleState::Value { .. } => match self.value() {
                    None => false,
                    capsule => return Ok(capsule),
                },
                CapsuleState::Discard { .. } => self.discard(),
                CapsuleState::Failed(error) => return Err(*error),
            };
            if !progress {
                return Ok(None);
            }
        }
    }

    /// Says whether the stream may end here.
    ///
    /// # Errors
    /// [`CapsuleError::Truncated`] inside a capsule (RFC 9297, section 3.3), or the error that came before.
    pub fn finish(&self) -> Result<(), CapsuleError> {
        match &self.state {
            CapsuleState::Header { length: 0, .. } if self.input.is_empty() => Ok(()),
            CapsuleState::Failed(error) => Err(*error),
            _ => Err(CapsuleError::Truncated),
        }
    }

    /// How many capsules of unknown types were dropped for their length.
    pub fn discarded(&self) -> u64 {
        self.discarded
    }

    /// Reads the header; false when bytes are missing, which then all are kept.
    fn header(&mut self) -> bool {
        let CapsuleState::Header {
            bytes,
            length: held,
        } = &mut self.state
        else {
            return false;
        };

        let added = self.input.len().min(MAX_HEADER - *held);
        bytes[*held..*held + added].copy_from_slice(&self.input[..added]);
        let available = *held + added;
        let mut rest = &bytes[..available];
        let Some((code, length)) = varint::decode(&mut rest).zip(varint::decode(&mut rest)) else {
            *held = available;
            let _ = self.input.split_to(added);
            return false;
        };

        let used = available - rest.len() - *held;
        let _ = self.input.split_to(used);
        self.state = self.begin(code, length);

        true
    }

    /// Chooses the state behind the header of a capsule.
    fn begin(&mut self, code: u64, length: u64) -> CapsuleState {
        let kind = CapsuleType::from(code);
        match usize::try_from(length) {
            Ok(length) if length as u64 <= self.limit => CapsuleState::Value {
                kind,
                length,
                gathered: Gathered::default(),
            },
            _ if matches!(kind, CapsuleType::Other(_)) => {
                self.discarded += 1;
                CapsuleState::Discard { left: length }
            }
            _ => CapsuleState::Failed(self.fail(code, length)),
        }
    }

    fn fail(&mut self, code: u64, length: u64) -> CapsuleError {
        self.input = Bytes::new();
        CapsuleError::TooLong {
            code,
            length,
            limit: self.limit,
        }
    }

    /// Completes the value, or keeps the part that is here.
    fn value(&mut self) -> Option<Capsule> {
        let CapsuleState::Value {
            kind,
            length,
            gathered,
        } = &mut self.state
        else {
            return None;
        };

        let value = gathered.take(*length, &mut self.input)?;
        let kind = *kind;
        self.state = AT_START;
        Some(Capsule { kind, value })
    }

    /// Drops the part of a capsule that is here; false when more of it is to come.
    fn discard(&mut self) -> bool {
        let CapsuleState::Discard { left } = &mut self.state else {
            return false;
        };
        let dropped = self
            .input
            .len()
            .min(usize::try_from(*left).unwrap_or(usize::MAX));
        *left -= dropped as u64;
        let _ = self.input.split_to(dropped);

        if *left > 0 {
            return false;
        }
        self.state = AT_START;
        true
    }

    /// Bytes held between chunks.
    #[cfg(test)]
    fn held(&self) -> usize {
        match &self.state {
            CapsuleState::Header { length, .. } => *length,
            CapsuleState::Value { gathered, .. } => gathered.len(),
            CapsuleState::Discard { .. } | CapsuleState::Failed(_) => 0,
        }
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
        assert!(decoder.input.is_empty());
        assert!(decoder.held() <= MAX_HEADER.max(limit as usize));
    }

    (capsules, decoder.discarded(), decoder.finish())
}

#[cfg(test)]
mod tests;
