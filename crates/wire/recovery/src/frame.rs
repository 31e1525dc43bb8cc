//! The frames of a context of recovery: one in each HTTP Datagram, after the context ID.
//!
//! All numbers are in network byte order. Each frame begins with its type (1 byte) and the *tag* of the stream of datagrams that it is about
//! (2 bytes), which its sender draws anew for each path, so that frames of an earlier path are known.
//!
//! ```text
//! 0 DATA    number (4), datagram
//! 1 AGAIN   number (4), try (1), datagram
//! 2 PARITY  first number (4), datagrams (1), parities (1), index (1), shard
//! 3 PROBE   probe (4), next number (4), round trip in milliseconds (2)
//! 4 REPORT  probe (4), received (4), missing: first number (4), how many (1), ...
//! ```
//!
//! A number on the wire is the lower half of a number that never wraps. A shard of parity is a Reed-Solomon code over the datagrams of its
//! block, each with its length (2 bytes) before it and zeros behind it up to the length of the longest.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Bytes of a frame that carries a datagram for the first time which are not the datagram.
pub const DATA_OVERHEAD: usize = 7;

/// Runs of missing datagrams that one report names, at most.
#[doc(alias = "bound")]
pub const MISSING: usize = 64;

const DATA: u8 = 0;
const AGAIN: u8 = 1;
const PARITY: u8 = 2;
const PROBE: u8 = 3;
const REPORT: u8 = 4;

/// Why a frame is no good. It is dropped, as a datagram that was damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// It ends too early.
    #[error("a frame of recovery ends within its head")]
    Truncated,
    /// Its type is not known.
    #[error("a frame of recovery has the unknown type {0}")]
    UnknownType(u8),
    /// A block of parity that no sender makes.
    #[error(
        "a frame of parity is of no block: {data} datagrams, {parity} of parity, index {index}"
    )]
    NoBlock {
        /// Datagrams of the block.
        data: u8,
        /// Parities of the block.
        parity: u8,
        /// Which of the parities it is.
        index: u8,
    },
}

/// A frame, and the stream that it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The tag of the stream.
    pub tag: u16,
    /// The rest.
    pub body: FrameBody,
}

/// The body of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FrameBody {
    /// A datagram.
    Data {
        /// Its number.
        number: u32,
        /// Which try this is; 0 for the first.
        attempt: u8,
        /// The datagram.
        payload: Bytes,
    },
    /// Parity of a block.
    Parity {
        /// The block.
        block: BlockShape,
        /// Which of its parities this is.
        index: u8,
        /// The code.
        shard: Bytes,
    },
    /// Asks for a report, and says how far the sender is.
    Probe(Probe),
    /// Names received and missing datagrams.
    Report(Report),
}

/// A block of datagrams that have parity in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockShape {
    /// The number of the first.
    pub first: u32,
    /// How many they are: 1 to [`BLOCK`].
    pub data: u8,
    /// How many parities they have: 1 to [`BLOCK`].
    pub parity: u8,
}

/// Datagrams of a block, and parities of it, at most.
#[doc(alias = "bound")]
pub const BLOCK: u8 = 32;

/// The content of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// The number of the probe.
    pub id: u32,
    /// The number that the next new datagram will have.
    pub next: u32,
    /// The round trip that the sender has measured, in milliseconds; 0 for not yet.
    pub round_trip: u16,
}

/// The content of a report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The last probe that came; 0 for none.
    pub probe: u32,
    /// How many datagrams came at the first try, since the stream began; it wraps.
    pub received: u32,
    /// The missing datagrams that are asked for: the first number of each run, and its length.
    pub missing: Vec<(u32, u8)>,
}

impl Frame {
    /// Reads the value of an HTTP Datagram, without its context ID.
    ///
    /// # Errors
    /// [`FrameError`].
    pub fn decode(mut bytes: Bytes) -> Result<Self, FrameError> {
        let kind = bytes.try_get_u8().map_err(|_| FrameError::Truncated)?;
        let tag = bytes.try_get_u16().map_err(|_| FrameError::Truncated)?;
        let body = match kind {
            DATA | AGAIN => decode_data(bytes, kind == AGAIN),
            PARITY => decode_parity(bytes),
            PROBE => decode_probe(bytes),
            REPORT => decode_report(bytes),
            unknown => Err(FrameError::UnknownType(unknown)),
        };
        body.map(|body| Self { tag, body })
    }

    /// Writes it.
    pub fn encode(&self) -> Bytes {
        let mut bytes = BytesMut::new();
        match &self.body {
            FrameBody::Data {
                number,
                attempt,
                payload,
            } => {
                bytes.reserve(DATA_OVERHEAD + 1 + payload.len());
                self.begin(if *attempt == 0 { DATA } else { AGAIN }, &mut bytes);
                bytes.put_u32(*number);
                if *attempt > 0 {
                    bytes.put_u8(*attempt);
                }
                bytes.put_slice(payload);
            }
            FrameBody::Parity {
                block,
                index,
                shard,
            } => {
                self.begin(PARITY, &mut bytes);
                bytes.put_u32(block.first);
                bytes.put_slice(&[block.data, block.parity, *index]);
                bytes.put_slice(shard);
            }
            FrameBody::Probe(probe) => {
                self.begin(PROBE, &mut bytes);
                bytes.put_u32(probe.id);
                bytes.put_u32(probe.next);
                bytes.put_u16(probe.round_trip);
            }
            FrameBody::Report(report) => {
                self.begin(REPORT, &mut bytes);
                bytes.put_u32(report.probe);
                bytes.put_u32(report.received);
                for (first, count) in &report.missing {
                    bytes.put_u32(*first);
                    bytes.put_u8(*count);
                }
            }
        }
        bytes.freeze()
    }

    fn begin(&self, kind: u8, bytes: &mut BytesMut) {
        bytes.put_u8(kind);
        bytes.put_u16(self.tag);
    }
}

fn decode_data(mut bytes: Bytes, again: bool) -> Result<FrameBody, FrameError> {
    let number = bytes.try_get_u32().map_err(|_| FrameError::Truncated)?;
    let attempt = match again {
        true => bytes.try_get_u8().map_err(|_| FrameError::Truncated)?,
        false => 0,
    };
    Ok(FrameBody::Data {
        number,
        attempt,
        payload: bytes,
    })
}

fn decode_parity(mut bytes: Bytes) -> Result<FrameBody, FrameError> {
    if bytes.len() < 7 {
        return Err(FrameError::Truncated);
    }
    let first = bytes.get_u32();
    let [data, parity, index] = [bytes.get_u8(), bytes.get_u8(), bytes.get_u8()];

    let is_block = (1..=BLOCK).contains(&data) && (1..=BLOCK).contains(&parity) && index < parity;
    let is_shard = bytes.len() >= 2 && bytes.len().is_multiple_of(2);
    if !is_block || !is_shard {
        return Err(FrameError::NoBlock {
            data,
            parity,
            index,
        });
    }
    Ok(FrameBody::Parity {
        block: BlockShape {
            first,
            data,
            parity,
        },
        index,
        shard: bytes,
    })
}

fn decode_probe(mut bytes: Bytes) -> Result<FrameBody, FrameError> {
    if bytes.len() < 10 {
        return Err(FrameError::Truncated);
    }
    Ok(FrameBody::Probe(Probe {
        id: bytes.get_u32(),
        next: bytes.get_u32(),
        round_trip: bytes.get_u16(),
    }))
}

fn decode_report(mut bytes: Bytes) -> Result<FrameBody, FrameError> {
    if bytes.len() < 8 {
        return Err(FrameError::Truncated);
    }
    let mut report = Report {
        probe: bytes.get_u32(),
        received: bytes.get_u32(),
        missing: Vec::new(),
    };
    while bytes.len() >= 5 && report.missing.len() < MISSING {
        report.missing.push((bytes.get_u32(), bytes.get_u8()));
    }
    Ok(FrameBody::Report(report))
}

/// The number that `low` stands for: the one nearest to `near` with this lower half.
pub(crate) fn whole(low: u32, near: u64) -> u64 {
    let difference = low.wrapping_sub(near as u32).cast_signed();
    near.saturating_add_signed(i64::from(difference))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames() -> Vec<FrameBody> {
        vec![
            FrameBody::Data {
                number: 7,
                attempt: 0,
                payload: Bytes::from_static(b"first"),
            },
            FrameBody::Data {
                number: u32::MAX,
                attempt: 3,
                payload: Bytes::new(),
            },
            FrameBody::Parity {
                block: BlockShape {
                    first: 1,
                    data: BLOCK,
                    parity: 2,
                },
                index: 1,
                shard: Bytes::from_static(b"even"),
            },
            FrameBody::Probe(Probe {
                id: 5,
                next: 6,
                round_trip: 80,
            }),
            FrameBody::Report(Report {
                probe: 5,
                received: 9,
                missing: vec![(3, 1), (8, 255)],
            }),
        ]
    }

    #[test]
    fn frames_are_read_as_they_are_written() {
        for body in frames() {
            let frame = Frame { tag: 0xBEEF, body };
            assert_eq!(Frame::decode(frame.encode()), Ok(frame));
        }
    }

    #[test]
    fn a_cut_frame_is_an_error_or_shorter_and_never_a_panic() {
        for body in frames() {
            let whole = Frame { tag: 1, body }.encode();
            for length in 0..whole.len() {
                let _ = Frame::decode(whole.slice(..length));
            }
            assert_eq!(Frame::decode(whole.slice(..2)), Err(FrameError::Truncated));
        }
    }

    #[test]
    fn parity_of_no_block_is_refused() {
        for [data, parity, index] in [[0, 1, 0], [33, 1, 0], [1, 0, 0], [1, 33, 0], [4, 2, 2]] {
            let bytes = [2, 0, 0, 0, 0, 0, 0, data, parity, index, 1, 2];
            let error = Frame::decode(Bytes::copy_from_slice(&bytes)).unwrap_err();
            assert_eq!(
                error,
                FrameError::NoBlock {
                    data,
                    parity,
                    index
                }
            );
        }
    }

    #[test]
    fn numbers_go_on_where_their_lower_half_wraps() {
        let near = (1 << 32) - 2;
        assert_eq!(whole(3, near), (1 << 32) + 3);
        assert_eq!(whole(u32::MAX, near), (1 << 32) - 1);
        assert_eq!(whole(u32::MAX, 1 << 32), (1 << 32) - 1);
        assert_eq!(whole(u32::MAX, 0), 0, "before the first there is none");
    }
}
