//! Messages of the relay: publish and subscribe over HTTP.
//!
//! The answer to a subscription is one content without end. In its native form, [`MEDIA_TYPE`], that is a stream of capsules (RFC 9297,
//! section 3), each an *application data unit* (ADU) of the channel or a word about it:
//!
//! ```text
//! ADU       { Sequence (varint), Flags (8), [Length (varint), Content-Type], [Length (varint), Topic],
//!             [Length (varint), Proof], Data }
//! MORE      { Sequence (varint), Flags (8), Data }
//! ABORT     { Sequence (varint) }
//! GAP       { Count (varint), Reason (varint) }
//! HEARTBEAT { Sequence (varint) }
//! MOVED     { URI }
//! END       { Reason (varint), Text }
//! ```
//!
//! A message that is too long to be kept comes in pieces: an ADU with a flag that says so, and MORE behind it, until one is the last, or ABORT
//! says that none will be.
//!
//! A publisher may send a content of the same form, whose ADUs are published one by one; their sequences are its own. The fields are in
//! [`fields`], positions in [`Position`].

pub mod fields;
mod position;
mod stripe;

use bytes::{Buf, BufMut, Bytes, BytesMut};

pub use position::{Position, PositionError};
pub use stripe::{MAX_SHARES, Stripe, StripeError};

use crate::capsule::{Capsule, CapsuleType, encode_header};
use crate::varint;

/// The media type of a stream of these capsules.
pub const MEDIA_TYPE: &str = "application/hermes-adu";

/// An ADU.
const ADU: u64 = 0x2d7c_51c0;

/// Messages that the subscription has lost.
const GAP: u64 = 0x2d7c_51c1;

/// A sign of life.
const HEARTBEAT: u64 = 0x2d7c_51c2;

/// The channel goes on elsewhere.
const MOVED: u64 = 0x2d7c_51c3;

/// The end of the subscription.
const END: u64 = 0x2d7c_51c4;

/// A further piece of a long message.
const MORE: u64 = 0x2d7c_51c5;

/// The end of a long message that did not come whole.
const ABORT: u64 = 0x2d7c_51c6;

/// The flag of a piece behind which none comes.
const IS_LAST: u8 = 0x01;

/// The flag of an ADU that names its content type.
const HAS_TYPE: u8 = 0x01;

/// The flag of an ADU that names its topic.
const HAS_TOPIC: u8 = 0x02;

/// The flag of an ADU that must not be lost for a receiver without room. Only relays are told so, which have receivers of their own.
const IS_RELIABLE: u8 = 0x04;

/// The flag of an ADU that carries the proof of its sender.
const HAS_PROOF: u8 = 0x08;

/// The flag of an ADU that is the first piece of a long message.
const IS_BEGUN: u8 = 0x10;

/// The longest proof of a sender, in bytes.
#[doc(alias = "bound")]
pub const MAX_PROOF: usize = 8192;

/// Bytes of an ADU beside its content, at most.
pub const MAX_BESIDE: usize = MAX_PROOF + 2 * MAX_LABEL + 32;

/// The longest content type or topic, in bytes: a capsule may begin with both.
#[doc(alias = "bound")]
pub const MAX_LABEL: usize = 255;

/// One message of a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adu {
    /// Its number in the channel, from 1 on; in a publisher's content, the publisher's own.
    pub sequence: u64,
    /// Its media type; the receiver knows it otherwise if there is none.
    pub content_type: Option<Bytes>,
    /// Its topic: a later message of the same topic replaces it where it still waits.
    pub topic: Option<Bytes>,
    /// Whether a relay that passes it on waits for receivers without room, instead of losing it for them.
    pub is_reliable: bool,
    /// The proof of its sender, where the channel is certified by a key.
    pub proof: Option<Bytes>,
    /// Its content.
    pub data: Bytes,
}

/// One capsule of the relay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RelayFrame {
    /// A message.
    Adu(Adu),
    /// The first piece of a long message.
    Begin(Adu),
    /// A further piece of it.
    More(AduPiece),
    /// The message of this number does not come whole.
    Abort(u64),
    /// Messages that are lost for this subscription.
    Gap(Gap),
    /// Nothing has happened since this message.
    Heartbeat(u64),
    /// The channel goes on at this URI, which is a subscription that waits there for the subscriber. The last capsule.
    Moved(Bytes),
    /// The subscription is over.
    End(End, Bytes),
    /// A capsule of another type, to be skipped.
    Unknown,
}

/// A piece of a long message, behind the first one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AduPiece {
    /// The number of the message.
    pub sequence: u64,
    /// Whether the message ends with it.
    pub is_last: bool,
    /// Its part of the content, which may be empty.
    pub data: Bytes,
}

/// Lost messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// Their number; 0 if no one knows it.
    pub count: u64,
    /// The reason.
    pub reason: GapReason,
}

/// A reason for which a subscription misses messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GapReason {
    /// 0: its queue was full.
    Full,
    /// 1: they were too old when their turn came.
    Expired,
    /// 2: they were sent while the subscription had no stream, and were not kept.
    Away,
    /// 3: the position is of a channel that has begun anew.
    Restarted,
    /// 4: it was too long to be kept, and passed those by that do not take pieces.
    Long,
    /// Another number.
    Other(u64),
}

/// A reason for which a subscription ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// 0: its time is over.
    Timeout,
    /// 1: the subscriber has left, by another request.
    Left,
    /// 2: it was too far behind.
    Lagging,
    /// 3: the relay stops.
    Stopping,
    /// 4: another stream has taken the subscription.
    Taken,
    /// Another number.
    Other(u64),
}

/// The reason for which a capsule cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RelayFrameError {
    /// It ends before its fields do.
    #[error("a capsule of the relay ends before its fields do")]
    Short,
    /// A content type, topic or proof is too long.
    #[error(
        "a content type or topic is longer than {MAX_LABEL} bytes, or a proof than {MAX_PROOF}"
    )]
    Label,
    /// A flag that no one has defined is set: the rest cannot be understood.
    #[error("an ADU has the unknown flags {0:#04x}")]
    Flags(u8),
}

impl RelayFrame {
    /// Reads a capsule.
    ///
    /// # Errors
    /// It is of a type of the relay, and malformed: abort the stream.
    pub fn decode(capsule: &Capsule) -> Result<Self, RelayFrameError> {
        let mut value = capsule.value.clone();
        match capsule.kind.code() {
            ADU => decode_adu(value),
            MORE => decode_piece(value).map(Self::More),
            ABORT => number(&mut value).map(Self::Abort),
            GAP => Ok(Self::Gap(Gap {
                count: number(&mut value)?,
                reason: number(&mut value)?.into(),
            })),
            HEARTBEAT => number(&mut value).map(Self::Heartbeat),
            MOVED => Ok(Self::Moved(value)),
            END => Ok(Self::End(number(&mut value)?.into(), value)),
            _ => Ok(Self::Unknown),
        }
    }

    /// Appends the capsule; nothing for [`Self::Unknown`].
    pub fn encode(&self, output: &mut BytesMut) {
        match self {
            Self::Adu(adu) => {
                encode_adu_header(adu, output);
                output.put_slice(&adu.data);
            }
            Self::Begin(adu) => {
                encode_first_piece_header(adu, output);
                output.put_slice(&adu.data);
            }
            Self::More(piece) => {
                encode_piece_header(piece, output);
                output.put_slice(&piece.data);
            }
            Self::Abort(sequence) => {
                header(ABORT, varint::size(*sequence), output);
                varint::encode(*sequence, output);
            }
            Self::Gap(gap) => {
                let reason = gap.reason.code();
                let length = varint::size(gap.count) + varint::size(reason);
                header(GAP, length, output);
                varint::encode(gap.count, output);
                varint::encode(reason, output);
            }
            Self::Heartbeat(sequence) => {
                header(HEARTBEAT, varint::size(*sequence), output);
                varint::encode(*sequence, output);
            }
            Self::Moved(uri) => {
                header(MOVED, uri.len(), output);
                output.put_slice(uri);
            }
            Self::End(reason, text) => {
                header(END, varint::size(reason.code()) + text.len(), output);
                varint::encode(reason.code(), output);
                output.put_slice(text);
            }
            Self::Unknown => {}
        }
    }
}

/// Appends an ADU without its data, which follows: a large one need not be copied.
pub fn encode_adu_header(adu: &Adu, output: &mut BytesMut) {
    encode_header_of(adu, 0, output);
}

/// Appends the first piece of a long message without its data, which follows.
pub fn encode_first_piece_header(adu: &Adu, output: &mut BytesMut) {
    encode_header_of(adu, IS_BEGUN, output);
}

/// Appends a further piece without its data, which follows.
pub fn encode_piece_header(piece: &AduPiece, output: &mut BytesMut) {
    let length = varint::size(piece.sequence) + 1 + piece.data.len();
    header(MORE, length, output);
    varint::encode(piece.sequence, output);
    output.put_u8(if piece.is_last { IS_LAST } else { 0 });
}

fn encode_header_of(adu: &Adu, more_flags: u8, output: &mut BytesMut) {
    let label = |label: &Option<Bytes>, most: usize| {
        let length = label.as_ref().map_or(0, |label| label.len().min(most));
        label.as_ref().map(|label| label.slice(..length))
    };
    let labels = [
        (HAS_TYPE, label(&adu.content_type, MAX_LABEL)),
        (HAS_TOPIC, label(&adu.topic, MAX_LABEL)),
        (HAS_PROOF, label(&adu.proof, MAX_PROOF)),
    ];
    let mut labels_length = 0;
    let mut flags = more_flags;
    if adu.is_reliable {
        flags |= IS_RELIABLE;
    }
    for (flag, label) in &labels {
        if let Some(label) = label {
            flags |= flag;
            labels_length += varint::size(label.len() as u64) + label.len();
        }
    }
    let length = varint::size(adu.sequence) + 1 + labels_length + adu.data.len();

    header(ADU, length, output);
    varint::encode(adu.sequence, output);
    output.put_u8(flags);
    for label in labels.iter().filter_map(|(_, label)| label.as_ref()) {
        varint::encode(label.len() as u64, output);
        output.put_slice(label);
    }
}

fn header(code: u64, length: usize, output: &mut BytesMut) {
    encode_header(CapsuleType::Other(code), length as u64, output);
}

fn decode_piece(mut value: Bytes) -> Result<AduPiece, RelayFrameError> {
    let sequence = number(&mut value)?;
    let flags = value.try_get_u8().map_err(|_| RelayFrameError::Short)?;
    if flags & !IS_LAST != 0 {
        return Err(RelayFrameError::Flags(flags));
    }
    Ok(AduPiece {
        sequence,
        is_last: flags & IS_LAST != 0,
        data: value,
    })
}

fn decode_adu(mut value: Bytes) -> Result<RelayFrame, RelayFrameError> {
    let sequence = number(&mut value)?;
    let flags = value.try_get_u8().map_err(|_| RelayFrameError::Short)?;
    if flags & !(HAS_TYPE | HAS_TOPIC | IS_RELIABLE | HAS_PROOF | IS_BEGUN) != 0 {
        return Err(RelayFrameError::Flags(flags));
    }
    let mut label = |flag: u8, most: usize| -> Result<Option<Bytes>, RelayFrameError> {
        if flags & flag == 0 {
            return Ok(None);
        }
        let length = number(&mut value)?;
        if length > most as u64 {
            return Err(RelayFrameError::Label);
        }
        let length = length as usize;
        if value.len() < length {
            return Err(RelayFrameError::Short);
        }
        Ok(Some(value.split_to(length)))
    };
    let content_type = label(HAS_TYPE, MAX_LABEL)?;
    let topic = label(HAS_TOPIC, MAX_LABEL)?;
    let proof = label(HAS_PROOF, MAX_PROOF)?;
    let adu = Adu {
        sequence,
        content_type,
        topic,
        is_reliable: flags & IS_RELIABLE != 0,
        proof,
        data: value,
    };
    Ok(match flags & IS_BEGUN {
        0 => RelayFrame::Adu(adu),
        _ => RelayFrame::Begin(adu),
    })
}

fn number(value: &mut Bytes) -> Result<u64, RelayFrameError> {
    let mut rest = &value[..];
    let number = varint::decode(&mut rest).ok_or(RelayFrameError::Short)?;
    let used = value.len() - rest.len();
    value.advance(used);
    Ok(number)
}

impl GapReason {
    /// The number on the wire.
    pub fn code(self) -> u64 {
        match self {
            Self::Full => 0,
            Self::Expired => 1,
            Self::Away => 2,
            Self::Restarted => 3,
            Self::Long => 4,
            Self::Other(code) => code,
        }
    }

    /// The word for it in forms that are text.
    pub fn word(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Expired => "expired",
            Self::Away => "away",
            Self::Restarted => "restarted",
            Self::Long => "long",
            Self::Other(_) => "other",
        }
    }
}

impl From<u64> for GapReason {
    fn from(code: u64) -> Self {
        match code {
            0 => Self::Full,
            1 => Self::Expired,
            2 => Self::Away,
            3 => Self::Restarted,
            4 => Self::Long,
            _ => Self::Other(code),
        }
    }
}

impl End {
    /// The number on the wire.
    pub fn code(self) -> u64 {
        match self {
            Self::Timeout => 0,
            Self::Left => 1,
            Self::Lagging => 2,
            Self::Stopping => 3,
            Self::Taken => 4,
            Self::Other(code) => code,
        }
    }

    /// The word for it in forms that are text.
    pub fn word(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Left => "left",
            Self::Lagging => "lagging",
            Self::Stopping => "stopping",
            Self::Taken => "taken",
            Self::Other(_) => "other",
        }
    }
}

impl From<u64> for End {
    fn from(code: u64) -> Self {
        match code {
            0 => Self::Timeout,
            1 => Self::Left,
            2 => Self::Lagging,
            3 => Self::Stopping,
            4 => Self::Taken,
            _ => Self::Other(code),
        }
    }
}

/// Decodes arbitrary bytes as a capsule of each type: what is read is the same after it was written.
#[cfg(test)]
pub(crate) fn fuzz_one(data: &[u8]) {
    for code in ADU..=ABORT + 1 {
        let capsule = Capsule {
            kind: CapsuleType::Other(code),
            value: Bytes::copy_from_slice(data),
        };
        let Ok(frame) = RelayFrame::decode(&capsule) else {
            continue;
        };
        if frame == RelayFrame::Unknown {
            continue;
        }

        let mut written = BytesMut::new();
        frame.encode(&mut written);
        let mut decoder = crate::capsule::CapsuleDecoder::new(written.len() as u64);
        decoder.push(written.freeze());
        let again = decoder.next().unwrap().unwrap();
        assert_eq!(RelayFrame::decode(&again), Ok(frame));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capsule::CapsuleDecoder;

    fn again(frame: &RelayFrame) -> RelayFrame {
        let mut written = BytesMut::new();
        frame.encode(&mut written);
        let mut decoder = CapsuleDecoder::new(1024);
        decoder.push(written.freeze());
        RelayFrame::decode(&decoder.next().unwrap().unwrap()).unwrap()
    }

    #[test]
    fn frames_survive_a_round_trip() {
        let adu = Adu {
            sequence: 4182,
            content_type: Some(Bytes::from_static(b"text/plain")),
            topic: Some(Bytes::from_static(b"t")),
            is_reliable: true,
            proof: Some(Bytes::from_static(b"signature: x")),
            data: Bytes::from_static(b"hi"),
        };
        let frames = [
            RelayFrame::Begin(adu.clone()),
            RelayFrame::Adu(adu),
            RelayFrame::More(AduPiece {
                sequence: 4182,
                is_last: false,
                data: Bytes::from_static(b" there"),
            }),
            RelayFrame::More(AduPiece {
                sequence: 4182,
                is_last: true,
                data: Bytes::new(),
            }),
            RelayFrame::Abort(4182),
            RelayFrame::Gap(Gap {
                count: 3,
                reason: GapReason::Away,
            }),
            RelayFrame::Heartbeat(7),
            RelayFrame::Moved(Bytes::from_static(b"https://b/c")),
            RelayFrame::End(End::Lagging, Bytes::from_static(b"too slow")),
        ];
        for frame in frames {
            assert_eq!(again(&frame), frame);
        }
    }

    #[test]
    fn a_small_message_costs_eight_bytes() {
        let adu = Adu {
            sequence: 60,
            content_type: None,
            topic: None,
            is_reliable: false,
            proof: None,
            data: Bytes::from(vec![0; 100]),
        };
        let mut written = BytesMut::new();
        RelayFrame::Adu(adu).encode(&mut written);
        assert_eq!(written.len(), 100 + 8);
    }

    #[test]
    fn malformed_capsules_are_refused() {
        let decode = |code, value: &'static [u8]| {
            RelayFrame::decode(&Capsule {
                kind: CapsuleType::Other(code),
                value: Bytes::from_static(value),
            })
        };
        assert_eq!(decode(ADU, &[]), Err(RelayFrameError::Short));
        assert_eq!(decode(ADU, &[1]), Err(RelayFrameError::Short));
        assert_eq!(decode(ADU, &[1, 32]), Err(RelayFrameError::Flags(32)));
        assert_eq!(decode(MORE, &[1]), Err(RelayFrameError::Short));
        assert_eq!(decode(MORE, &[1, 2]), Err(RelayFrameError::Flags(2)));
        assert_eq!(decode(ADU, &[1, 1, 5, b'a']), Err(RelayFrameError::Short));
        assert_eq!(
            decode(ADU, &[1, 2, 0x41, 0x00]),
            Err(RelayFrameError::Label)
        );
        assert_eq!(decode(GAP, &[1]), Err(RelayFrameError::Short));
        assert_eq!(decode(0x17, &[1]), Ok(RelayFrame::Unknown));
    }
}
