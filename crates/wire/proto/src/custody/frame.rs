//! The frames in a sealed datagram.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::CustodyError;
use crate::varint;

/// Ranges that one REQ asks for: enough for the gaps of a few losses.
#[doc(alias = "bound")]
pub const MAX_RANGES: usize = 16;

/// The bit of an extent's byte that says that the total is known.
const TOTAL: u8 = 1;
/// The bit that says that the bytes were at hand when they were asked for.
const PROMPT: u8 = 2;

const PADDING: u64 = 0;
const REQ: u64 = 1;
const DATA: u64 = 2;
const STATUS: u64 = 3;
const ERR: u64 = 4;
const FIN: u64 = 5;
const OFFER: u64 = 6;
const CHALLENGE: u64 = 7;
const RESPONSE: u64 = 8;

/// Which part of an exchange an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectPart {
    /// Pulled by the side of the target.
    Request,
    /// Pulled by the side of the client.
    Response,
}

/// The name of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId {
    /// The exchange, drawn at random by the first node that took it into custody.
    pub exchange: [u8; 16],
    /// Which part of it.
    pub part: ObjectPart,
}

/// Bytes of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CustodyRange {
    /// Where they begin.
    pub offset: u64,
    /// How many; at least one.
    pub length: u64,
}

impl CustodyRange {
    /// Where they end: the first byte behind them.
    pub fn end(self) -> u64 {
        self.offset + self.length
    }
}

/// How much of an object there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extent {
    /// Its length, once that is known.
    pub total: Option<u64>,
    /// Bytes that are there from its beginning on, without a gap; at most the total.
    pub available: u64,
}

/// Why an object is not given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrCode {
    /// The object is not known here: it was never offered, or the node has lost it.
    Unknown,
    /// The object will not be made: there is no room, or the asking node may not have it.
    Refused,
    /// The object ended before it was whole, and will not go on.
    Broken,
    /// The object was kept for as long as agreed.
    Expired,
}

/// Why an object is let go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinCode {
    /// All of it has arrived.
    Complete,
    /// The object is not wanted any more.
    Cancelled,
}

/// A frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CustodyFrame {
    /// Asks for bytes of an object. Bytes that are not available yet may be sent later.
    Req {
        /// Which.
        object: ObjectId,
        /// The number of the REQ, from its sender; answers repeat it.
        serial: u64,
        /// The end of the bytes that the receiver has in custody: the sender can free everything
        /// before it.
        taken: u64,
        /// Bytes that may be sent for it.
        limit: u64,
        /// The wanted ranges, in order and without touching; 1 to [`MAX_RANGES`].
        ranges: Vec<CustodyRange>,
    },
    /// Bytes of an object.
    Data {
        /// Which.
        object: ObjectId,
        /// The serial of the answered REQ.
        serial: u64,
        /// How much there is.
        extent: Extent,
        /// Whether they were at hand when the REQ came.
        prompt: bool,
        /// Where they begin.
        offset: u64,
        /// The bytes, at least one.
        bytes: Bytes,
    },
    /// Nothing in the asked ranges is available yet.
    Status {
        /// Which object.
        object: ObjectId,
        /// The serial of the answered REQ.
        serial: u64,
        /// How much there is.
        extent: Extent,
    },
    /// The object will not come.
    Err {
        /// Which.
        object: ObjectId,
        /// Why.
        code: ErrCode,
    },
    /// The object can be let go.
    Fin {
        /// Which.
        object: ObjectId,
        /// Why.
        code: FinCode,
    },
    /// Offers a request, and asks for its response.
    Offer {
        /// The exchange.
        exchange: [u8; 16],
        /// How long the exchange is to be kept without an end, in seconds.
        keep: u32,
        /// The request may be acted on once. The answering side waits for a REQ without an OFFER:
        /// then the asking side has heard of its custody, and will never offer it again.
        once: bool,
        /// How much of the request there is.
        extent: Extent,
    },
    /// Asks a new address to repeat this.
    Challenge([u8; 8]),
    /// Repeats the challenge.
    Response([u8; 8]),
}

/// The frames of a datagram that was opened.
///
/// # Errors
/// A frame is malformed: the authenticated peer does not speak this protocol.
pub fn decode_frames(plain: &Bytes) -> Result<Vec<CustodyFrame>, CustodyError> {
    let mut rest = plain.clone();
    let mut frames = Vec::new();
    while rest.has_remaining() {
        let kind = number(&mut rest)?;
        if kind == PADDING {
            continue;
        }
        frames.push(CustodyFrame::decode(kind, &mut rest)?);
    }

    Ok(frames)
}

impl CustodyFrame {
    fn decode(kind: u64, rest: &mut Bytes) -> Result<Self, CustodyError> {
        Ok(match kind {
            REQ => {
                let object = ObjectId::decode(rest)?;
                let serial = number(rest)?;
                let taken = number(rest)?;
                let limit = number(rest)?;
                let ranges = decode_ranges(rest)?;
                Self::Req {
                    object,
                    serial,
                    taken,
                    limit,
                    ranges,
                }
            }
            DATA => decode_data(rest)?,
            STATUS => {
                let object = ObjectId::decode(rest)?;
                let serial = number(rest)?;
                let extent = Extent::decode(rest)?;
                Self::Status {
                    object,
                    serial,
                    extent,
                }
            }
            ERR => Self::Err {
                object: ObjectId::decode(rest)?,
                code: ErrCode::decode(byte(rest)?)?,
            },
            FIN => Self::Fin {
                object: ObjectId::decode(rest)?,
                code: FinCode::decode(byte(rest)?)?,
            },
            OFFER => {
                let exchange = array(rest)?;
                let keep = u32::from_be_bytes(array(rest)?);
                let once = match byte(rest)? {
                    0 => false,
                    1 => true,
                    _ => return Err(CustodyError::Invalid("the flags of OFFER")),
                };
                let extent = Extent::decode(rest)?;
                Self::Offer {
                    exchange,
                    keep,
                    once,
                    extent,
                }
            }
            CHALLENGE => Self::Challenge(array(rest)?),
            RESPONSE => Self::Response(array(rest)?),
            _ => return Err(CustodyError::Invalid("the type of a frame")),
        })
    }

    /// Appends the frame.
    ///
    /// # Panics
    /// A number is above [`varint::MAX`].
    pub fn encode(&self, output: &mut BytesMut) {
        match self {
            Self::Req {
                object,
                serial,
                taken,
                limit,
                ranges,
            } => {
                varint::encode(REQ, output);
                object.encode(output);
                varint::encode(*serial, output);
                varint::encode(*taken, output);
                varint::encode(*limit, output);
                encode_ranges(ranges, output);
            }
            Self::Data {
                object,
                serial,
                extent,
                prompt,
                offset,
                bytes,
            } => {
                varint::encode(DATA, output);
                object.encode(output);
                varint::encode(*serial, output);
                extent.encode_with(if *prompt { PROMPT } else { 0 }, output);
                varint::encode(*offset, output);
                varint::encode(bytes.len() as u64, output);
                output.put_slice(bytes);
            }
            Self::Status {
                object,
                serial,
                extent,
            } => {
                varint::encode(STATUS, output);
                object.encode(output);
                varint::encode(*serial, output);
                extent.encode_with(0, output);
            }
            Self::Err { object, code } => {
                varint::encode(ERR, output);
                object.encode(output);
                output.put_u8(code.encode());
            }
            Self::Fin { object, code } => {
                varint::encode(FIN, output);
                object.encode(output);
                output.put_u8(code.encode());
            }
            Self::Offer {
                exchange,
                keep,
                once,
                extent,
            } => {
                varint::encode(OFFER, output);
                output.put_slice(exchange);
                output.put_u32(*keep);
                output.put_u8((*once).into());
                extent.encode_with(0, output);
            }
            Self::Challenge(token) => {
                varint::encode(CHALLENGE, output);
                output.put_slice(token);
            }
            Self::Response(token) => {
                varint::encode(RESPONSE, output);
                output.put_slice(token);
            }
        }
    }
}

fn decode_data(rest: &mut Bytes) -> Result<CustodyFrame, CustodyError> {
    let object = ObjectId::decode(rest)?;
    let serial = number(rest)?;
    let (flags, extent) = Extent::decode_with(PROMPT, rest)?;
    let offset = number(rest)?;
    let length = usize::try_from(number(rest)?).map_err(|_| CustodyError::Truncated)?;
    if length > rest.len() {
        return Err(CustodyError::Truncated);
    }

    // A sender has the bytes that it gives: an extent that ends before them contradicts itself.
    let end = offset.checked_add(length as u64);
    let within = |end: u64| extent.total.is_none_or(|total| end <= total);
    if length == 0 || !end.is_some_and(|end| end <= varint::MAX && within(end)) {
        return Err(CustodyError::Invalid("a range of DATA"));
    }

    Ok(CustodyFrame::Data {
        object,
        serial,
        extent,
        prompt: flags & PROMPT != 0,
        offset,
        bytes: rest.split_to(length),
    })
}

fn decode_ranges(rest: &mut Bytes) -> Result<Vec<CustodyRange>, CustodyError> {
    let count = number(rest)?;
    if count == 0 || count > MAX_RANGES as u64 {
        return Err(CustodyError::Invalid("the number of ranges"));
    }

    let mut ranges: Vec<CustodyRange> = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let gap = number(rest)?;
        let length = number(rest)?;
        let before = ranges.last().map(|before| before.end());
        // Two ranges that touch are one.
        let touches = before.is_some() && gap == 0;
        let offset = before.unwrap_or(0) + gap;
        if length == 0 || touches || offset + length > varint::MAX {
            return Err(CustodyError::Invalid("a range"));
        }
        ranges.push(CustodyRange { offset, length });
    }

    Ok(ranges)
}

fn encode_ranges(ranges: &[CustodyRange], output: &mut BytesMut) {
    debug_assert!((1..=MAX_RANGES).contains(&ranges.len()));
    varint::encode(ranges.len() as u64, output);
    let mut end = 0;
    for range in ranges {
        varint::encode(range.offset - end, output);
        varint::encode(range.length, output);
        end = range.end();
    }
}

impl ObjectId {
    fn decode(rest: &mut Bytes) -> Result<Self, CustodyError> {
        let exchange = array(rest)?;
        let part = match byte(rest)? {
            0 => ObjectPart::Request,
            1 => ObjectPart::Response,
            _ => return Err(CustodyError::Invalid("the part of an object")),
        };
        Ok(Self { exchange, part })
    }

    fn encode(&self, output: &mut BytesMut) {
        output.put_slice(&self.exchange);
        output.put_u8(match self.part {
            ObjectPart::Request => 0,
            ObjectPart::Response => 1,
        });
    }
}

impl Extent {
    /// Whether all of the object is there.
    pub fn is_whole(self) -> bool {
        self.total == Some(self.available)
    }

    fn decode(rest: &mut Bytes) -> Result<Self, CustodyError> {
        Self::decode_with(0, rest).map(|(_, extent)| extent)
    }

    /// With the flags beside, of which these may be set.
    fn decode_with(allowed: u8, rest: &mut Bytes) -> Result<(u8, Self), CustodyError> {
        let flags = byte(rest)?;
        if flags & !(TOTAL | allowed) != 0 {
            return Err(CustodyError::Invalid("the flags of an extent"));
        }

        let total = if flags & TOTAL == 0 {
            None
        } else {
            Some(number(rest)?)
        };
        let available = number(rest)?;
        if total.is_some_and(|total| available > total) {
            return Err(CustodyError::Invalid("an extent"));
        }
        Ok((flags, Self { total, available }))
    }

    fn encode_with(self, flags: u8, output: &mut BytesMut) {
        let known = if self.total.is_some() { TOTAL } else { 0 };
        output.put_u8(flags | known);
        if let Some(total) = self.total {
            varint::encode(total, output);
        }
        varint::encode(self.available, output);
    }
}

impl ErrCode {
    fn decode(code: u8) -> Result<Self, CustodyError> {
        Ok(match code {
            0 => Self::Unknown,
            1 => Self::Refused,
            2 => Self::Broken,
            3 => Self::Expired,
            _ => return Err(CustodyError::Invalid("the code of ERR")),
        })
    }

    fn encode(self) -> u8 {
        match self {
            Self::Unknown => 0,
            Self::Refused => 1,
            Self::Broken => 2,
            Self::Expired => 3,
        }
    }
}

impl FinCode {
    fn decode(code: u8) -> Result<Self, CustodyError> {
        Ok(match code {
            0 => Self::Complete,
            1 => Self::Cancelled,
            _ => return Err(CustodyError::Invalid("the code of FIN")),
        })
    }

    fn encode(self) -> u8 {
        match self {
            Self::Complete => 0,
            Self::Cancelled => 1,
        }
    }
}

fn number(rest: &mut Bytes) -> Result<u64, CustodyError> {
    let mut left = &rest[..];
    let number = varint::decode(&mut left).ok_or(CustodyError::Truncated)?;
    let taken = rest.len() - left.len();
    rest.advance(taken);
    Ok(number)
}

fn byte(rest: &mut Bytes) -> Result<u8, CustodyError> {
    rest.try_get_u8().map_err(|_| CustodyError::Truncated)
}

fn array<const N: usize>(rest: &mut Bytes) -> Result<[u8; N], CustodyError> {
    let taken = *rest.first_chunk().ok_or(CustodyError::Truncated)?;
    rest.advance(N);
    Ok(taken)
}

/// Frames that decode survive a round trip, and no range reaches beyond the largest number that can
/// be written.
#[cfg(test)]
pub(super) fn fuzz_one(data: &[u8]) {
    let Ok(frames) = decode_frames(&Bytes::copy_from_slice(data)) else {
        return;
    };

    let mut again = BytesMut::new();
    for frame in &frames {
        if let CustodyFrame::Req { ranges, .. } = frame {
            assert!(ranges.windows(2).all(|pair| pair[0].end() < pair[1].offset));
            assert!(ranges.iter().all(|range| range.end() <= varint::MAX));
        }
        frame.encode(&mut again);
    }
    assert!(again.len() <= data.len());
    assert_eq!(decode_frames(&again.freeze()), Ok(frames));
}

#[cfg(test)]
mod tests;
