//! Frames on the wire (RFC 9113, sections 4.1 and 6).

use bytes::{BufMut, BytesMut};

use super::reason::{ConnectionError, Reason};

/// The first bytes of every client (RFC 9113, section 3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Bytes of a frame's head.
pub const FRAME_HEAD: usize = 9;

/// The least that the largest frame may be (RFC 9113, section 6.5.2).
pub const LEAST_FRAME_SIZE: u32 = 16 * 1024;

/// Flags (RFC 9113, section 6). ACK and END_STREAM share a bit.
pub(super) const ACK: u8 = 0x1;
pub(super) const END_STREAM: u8 = 0x1;
pub(super) const END_HEADERS: u8 = 0x4;
pub(super) const PADDED: u8 = 0x8;
pub(super) const PRIORITY: u8 = 0x20;

/// Frame types (RFC 9113, section 6; RFC 9218, section 7.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    /// `0x0`
    Data,
    /// `0x1`
    Headers,
    /// `0x2`: without meaning since RFC 9113.
    Priority,
    /// `0x3`
    RstStream,
    /// `0x4`
    Settings,
    /// `0x5`
    PushPromise,
    /// `0x6`
    Ping,
    /// `0x7`
    GoAway,
    /// `0x8`
    WindowUpdate,
    /// `0x9`
    Continuation,
    /// `0x10` (RFC 9218)
    PriorityUpdate,
    /// A type without a name here, to be passed over (RFC 9113, section 5.5).
    Unknown(u8),
}

impl FrameKind {
    /// The number on the wire.
    pub const fn number(self) -> u8 {
        match self {
            Self::Data => 0x0,
            Self::Headers => 0x1,
            Self::Priority => 0x2,
            Self::RstStream => 0x3,
            Self::Settings => 0x4,
            Self::PushPromise => 0x5,
            Self::Ping => 0x6,
            Self::GoAway => 0x7,
            Self::WindowUpdate => 0x8,
            Self::Continuation => 0x9,
            Self::PriorityUpdate => 0x10,
            Self::Unknown(number) => number,
        }
    }
}

impl From<u8> for FrameKind {
    fn from(number: u8) -> Self {
        match number {
            0x0 => Self::Data,
            0x1 => Self::Headers,
            0x2 => Self::Priority,
            0x3 => Self::RstStream,
            0x4 => Self::Settings,
            0x5 => Self::PushPromise,
            0x6 => Self::Ping,
            0x7 => Self::GoAway,
            0x8 => Self::WindowUpdate,
            0x9 => Self::Continuation,
            0x10 => Self::PriorityUpdate,
            number => Self::Unknown(number),
        }
    }
}

/// The head of a frame: `length (24), type (8), flags (8), reserved (1), stream (31)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHead {
    /// Bytes that follow.
    pub length: u32,
    /// The type.
    pub kind: FrameKind,
    /// The flags; the type defines their meaning.
    pub flags: u8,
    /// The stream; 0 for the connection.
    pub stream: u32,
}

impl FrameHead {
    /// Reads a head; its reserved bit is passed over.
    pub fn decode(bytes: &[u8; FRAME_HEAD]) -> Self {
        let [l0, l1, l2, kind, flags, s0, s1, s2, s3] = *bytes;
        Self {
            length: u32::from_be_bytes([0, l0, l1, l2]),
            kind: kind.into(),
            flags,
            stream: u32::from_be_bytes([s0 & 0x7f, s1, s2, s3]),
        }
    }

    /// The bytes of the head. A length above 24 bits cannot be said, and no frame here has one.
    pub fn encode(self) -> [u8; FRAME_HEAD] {
        let [_, l0, l1, l2] = self.length.to_be_bytes();
        let [s0, s1, s2, s3] = self.stream.to_be_bytes();
        [l0, l1, l2, self.kind.number(), self.flags, s0, s1, s2, s3]
    }

    pub(super) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends a small frame.
pub(super) fn put(output: &mut BytesMut, kind: FrameKind, flags: u8, stream: u32, content: &[u8]) {
    let head = FrameHead {
        length: content.len() as u32,
        kind,
        flags,
        stream,
    };

    output.reserve(FRAME_HEAD + content.len());
    output.put_slice(&head.encode());
    output.put_slice(content);
}

/// Appends HEADERS with the CONTINUATION frames that it needs.
pub(super) fn put_section(
    output: &mut BytesMut,
    stream: u32,
    end: bool,
    section: &[u8],
    most: usize,
) {
    let first = section.len().min(most);
    let (now, mut rest) = section.split_at(first);
    let mut flags = if end { END_STREAM } else { 0 };

    if rest.is_empty() {
        flags |= END_HEADERS;
    }
    put(output, FrameKind::Headers, flags, stream, now);
    // Appended in one go: no frame may come between (RFC 9113, section 4.3).
    while !rest.is_empty() {
        let (now, later) = rest.split_at(rest.len().min(most));
        rest = later;
        let flags = if rest.is_empty() { END_HEADERS } else { 0 };
        put(output, FrameKind::Continuation, flags, stream, now);
    }
}

/// The content of HEADERS without its padding and its priority (RFC 9113, section 6.2), and the stream that it depends on.
///
/// # Errors
/// There is less than the flags promise.
pub(super) fn strip_headers(
    head: FrameHead,
    mut content: BytesMut,
) -> Result<(BytesMut, Option<u32>), ConnectionError> {
    const SHORT: ConnectionError =
        ConnectionError::new(Reason::FRAME_SIZE_ERROR, "HEADERS too short for its flags");
    let mut padding = 0;
    if head.has(PADDED) {
        padding = usize::from(*content.first().ok_or(SHORT)?);
        let _ = content.split_to(1);
    }

    let mut dependency = None;
    if head.has(PRIORITY) {
        let (first, _) = content.split_first_chunk::<4>().ok_or(SHORT)?;
        dependency = Some(u32::from_be_bytes(*first) & 0x7fff_ffff);
        // Four bytes of the stream, one of the weight.
        if content.len() < 5 {
            return Err(SHORT);
        }
        let _ = content.split_to(5);
    }

    match content.len().checked_sub(padding) {
        Some(length) => {
            content.truncate(length);
            Ok((content, dependency))
        }
        None => Err(ConnectionError::protocol("more padding than content")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_survives_a_round_trip_and_loses_its_reserved_bit() {
        for number in 0..=u8::MAX {
            assert_eq!(FrameKind::from(number).number(), number);
        }
        let bytes = [1, 2, 3, 9, 5, 0x80, 0, 0, 7];
        let head = FrameHead::decode(&bytes);
        assert_eq!(
            head,
            FrameHead {
                length: 0x01_02_03,
                kind: FrameKind::Continuation,
                flags: 5,
                stream: 7
            }
        );
        assert_eq!(head.encode(), [1, 2, 3, 9, 5, 0, 0, 0, 7]);
    }

    #[test]
    fn a_long_section_goes_into_continuations() {
        let mut output = BytesMut::new();
        put_section(&mut output, 1, true, &[7; 25], 10);
        let mut frames = Vec::new();
        while !output.is_empty() {
            let head = FrameHead::decode(output.first_chunk().unwrap());
            let _ = output.split_to(FRAME_HEAD + head.length as usize);
            frames.push((head.kind, head.flags, head.length));
        }
        assert_eq!(
            frames,
            [
                (FrameKind::Headers, END_STREAM, 10),
                (FrameKind::Continuation, 0, 10),
                (FrameKind::Continuation, END_HEADERS, 5)
            ]
        );
    }

    #[test]
    fn padding_and_priority_are_taken_off() {
        let head = |flags| FrameHead {
            length: 0,
            kind: FrameKind::Headers,
            flags,
            stream: 1,
        };
        let content = BytesMut::from(&[2, 0x80, 0, 0, 3, 9, b'a', b'b', 0, 0][..]);
        let stripped = strip_headers(head(PADDED | PRIORITY), content).unwrap();
        assert_eq!(stripped, (BytesMut::from("ab"), Some(3)));
        for (flags, content) in [
            (PADDED, &[][..]),
            (PADDED, &[2, 1]),
            (PRIORITY, &[0, 0, 0, 0]),
        ] {
            assert!(strip_headers(head(flags), BytesMut::from(content)).is_err());
        }
    }
}
