//! Frames (RFC 9114, section 7; RFC 9218, section 7.2): their types, and writing them.
//!
//! ```text
//! Frame { Type (varint), Length (varint), Payload (Length bytes) }
//! ```

use bytes::{Bytes, BytesMut};

use crate::varint;

/// The longest head of a frame, in bytes: two variable-length integers.
pub const MAX_HEAD: usize = 2 * varint::MAX_SIZE;

/// Types of frames, from the registry "HTTP/3 Frame Types".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FrameType {
    /// `0x00`: content.
    Data,
    /// `0x01`: a field section.
    Headers,
    /// `0x03`: a push is not wanted.
    CancelPush,
    /// `0x04`: settings.
    Settings,
    /// `0x05`: a push is announced.
    PushPromise,
    /// `0x07`: the connection is to end.
    Goaway,
    /// `0x0d`: pushes that may be announced.
    MaxPushId,
    /// `0xf0700`: another priority of a request (RFC 9218, section 7.2).
    PriorityUpdate,
    /// `0xf0701`: another priority of a push.
    PriorityUpdatePush,
    /// `0x02`, `0x06`, `0x08`, `0x09`: those that HTTP/2 has and HTTP/3 has not (RFC 9114, section 7.2.8).
    Http2(u8),
    /// A type without a name here, to be passed over; those of the form 0x1f * N + 0x21 never mean anything.
    Other(u64),
}

impl From<u64> for FrameType {
    fn from(number: u64) -> Self {
        match number {
            0x00 => Self::Data,
            0x01 => Self::Headers,
            0x03 => Self::CancelPush,
            0x04 => Self::Settings,
            0x05 => Self::PushPromise,
            0x07 => Self::Goaway,
            0x0d => Self::MaxPushId,
            0xf_0700 => Self::PriorityUpdate,
            0xf_0701 => Self::PriorityUpdatePush,
            0x02 | 0x06 | 0x08 | 0x09 => Self::Http2(number as u8),
            _ => Self::Other(number),
        }
    }
}

impl FrameType {
    /// The number on the wire.
    pub fn number(self) -> u64 {
        match self {
            Self::Data => 0x00,
            Self::Headers => 0x01,
            Self::CancelPush => 0x03,
            Self::Settings => 0x04,
            Self::PushPromise => 0x05,
            Self::Goaway => 0x07,
            Self::MaxPushId => 0x0d,
            Self::PriorityUpdate => 0xf_0700,
            Self::PriorityUpdatePush => 0xf_0701,
            Self::Http2(number) => u64::from(number),
            Self::Other(number) => number,
        }
    }
}

/// A frame that was read, except DATA, which is never held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// An encoded field section.
    Headers(Bytes),
    /// The payload of SETTINGS.
    Settings(Bytes),
    /// CANCEL_PUSH: a push ID.
    CancelPush(u64),
    /// GOAWAY: of a server a stream ID, of a client a push ID.
    Goaway(u64),
    /// MAX_PUSH_ID: a push ID.
    MaxPushId(u64),
    /// PUSH_PROMISE, of which nothing is read: no one may send us one.
    PushPromise,
    /// PRIORITY_UPDATE of a request.
    PriorityUpdate {
        /// Its stream.
        stream: u64,
        /// The value, as in the field `priority`.
        value: Bytes,
    },
    /// PRIORITY_UPDATE of a push.
    PriorityUpdatePush,
}

/// Appends the head of a frame with a payload of `length` bytes.
///
/// # Panics
/// When the type or the length is above [`varint::MAX`].
pub fn encode_head(kind: FrameType, length: u64, output: &mut BytesMut) {
    varint::encode(kind.number(), output);
    varint::encode(length, output);
}

/// Appends a frame with this payload.
pub fn encode(kind: FrameType, payload: &[u8], output: &mut BytesMut) {
    encode_head(kind, payload.len() as u64, output);
    output.extend_from_slice(payload);
}

/// Appends a GOAWAY.
///
/// # Panics
/// When the identifier is above [`varint::MAX`].
pub fn encode_goaway(id: u64, output: &mut BytesMut) {
    encode_head(FrameType::Goaway, varint::size(id) as u64, output);
    varint::encode(id, output);
}

/// Appends a PRIORITY_UPDATE of a request.
///
/// # Panics
/// When the identifier is above [`varint::MAX`].
pub fn encode_priority_update(stream: u64, value: &[u8], output: &mut BytesMut) {
    encode_head(
        FrameType::PriorityUpdate,
        (varint::size(stream) + value.len()) as u64,
        output,
    );
    varint::encode(stream, output);
    output.extend_from_slice(value);
}
