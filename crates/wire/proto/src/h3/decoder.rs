//! Finding frames in a stream that arrives in pieces.

use std::time::{Duration, Instant};

use bytes::Bytes;

use super::code::{Code, Fault};
use super::frame::{Frame, FrameType, MAX_HEAD};
use crate::gathered::Gathered;
use crate::varint;

/// The longest frame of a control stream, in bytes: a hundred settings, or any sensible priority, fit.
#[doc(alias = "bound")]
pub const CONTROL_FRAME: usize = 4096;

/// How far empty and unknown frames may outnumber the others on a stream at once: they cost their sender
/// next to nothing.
#[doc(alias = "bound")]
pub const IDLE_FRAMES: u32 = 1024;

/// The time after which one such frame is forgotten: 20 a second may come for ever. A peer that
/// uses such frames as keep-alives sends a few a second, for months.
#[doc(alias = "bound")]
pub const IDLE_TIME: Duration = Duration::from_millis(50);

/// The kind of stream that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    /// A control stream (RFC 9114, section 6.2.1).
    Control,
    /// A request stream (RFC 9114, section 6.1).
    Request,
}

/// A frame, or a part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Some of the payload of a DATA frame; never empty.
    Data(Bytes),
    /// Any other frame.
    Frame(Frame),
}

/// Finds frames. Push a chunk, take pieces until there is none, push the next.
///
/// DATA passes through in slices of the pushed chunks. Other known frames are put together up to a
/// limit, unknown ones are dropped as they pass.
#[derive(Debug)]
pub struct FrameDecoder {
    on: On,
    /// Bytes of the longest frame that is held.
    limit: usize,
    input: Bytes,
    state: FrameState,
    /// A control stream has had its first frame.
    begun: bool,
    idle: u32,
    /// When the first of them was counted, or some were forgotten last.
    idle_since: Option<Instant>,
}

#[derive(Debug)]
enum FrameState {
    Head {
        bytes: [u8; MAX_HEAD],
        length: usize,
    },
    Data {
        left: u64,
    },
    Held {
        kind: FrameType,
        length: usize,
        gathered: Gathered,
    },
    Skip {
        left: u64,
    },
    Failed(Fault),
}

const AT_START: FrameState = FrameState::Head {
    bytes: [0; MAX_HEAD],
    length: 0,
};

impl FrameDecoder {
    /// For a control stream.
    pub fn control() -> Self {
        Self::new(On::Control, CONTROL_FRAME)
    }

    /// For a request stream, with field sections up to `section` bytes, as they are encoded.
    pub fn request(section: usize) -> Self {
        Self::new(On::Request, section)
    }

    fn new(on: On, limit: usize) -> Self {
        Self {
            on,
            limit,
            input: Bytes::new(),
            state: AT_START,
            begun: false,
            idle: 0,
            idle_since: None,
        }
    }

    /// Adds received bytes. Meant to be called when [`next`](Self::next) has nothing left; earlier,
    /// bytes are copied.
    pub fn push(&mut self, chunk: Bytes) {
        if self.input.is_empty() {
            self.input = chunk;
        } else {
            self.input = [&self.input[..], &chunk].concat().into();
        }
    }

    /// Whether empty and unknown frames are counted at the moment, so that it needs the time.
    pub fn is_counting(&self) -> bool {
        self.idle > 0
    }

    /// Forgets empty and unknown frames as time goes by.
    pub fn handle_time(&mut self, now: Instant) {
        let since = *self.idle_since.get_or_insert(now);
        let elapsed = now.saturating_duration_since(since);
        let times = u32::try_from(elapsed.as_millis() / IDLE_TIME.as_millis()).unwrap_or(u32::MAX);

        self.idle = self.idle.saturating_sub(times);
        self.idle_since = match self.idle {
            0 => None,
            // The rest of a period counts for the next.
            _ => since.checked_add(IDLE_TIME.saturating_mul(times)),
        };
    }

    /// Bytes of the frame that is put together, of which more are to come; 0 if there is no such
    /// frame.
    pub fn awaited(&self) -> usize {
        match &self.state {
            FrameState::Held { length, .. } => *length,
            _ => 0,
        }
    }

    /// The next piece, or `None` when more bytes are needed.
    ///
    /// # Errors
    /// A frame that cannot be, or not here. The decoder repeats the error and takes no more bytes.
    #[expect(
        clippy::should_implement_trait,
        reason = "None is not the end: more may be pushed"
    )]
    pub fn next(&mut self) -> Result<Option<Piece>, Fault> {
        let found = self.advance();
        if let Err(fault) = found {
            self.input = Bytes::new();
            // Sticky: a decoder that lost its place must not take payload for heads.
            self.state = FrameState::Failed(fault);
        }
        found
    }

    /// Says whether the stream may end here.
    ///
    /// # Errors
    /// The stream ended within a frame (RFC 9114, section 7.1), or had failed before.
    pub fn finish(&self) -> Result<(), Fault> {
        match &self.state {
            FrameState::Head { length: 0, .. } if self.input.is_empty() => Ok(()),
            FrameState::Failed(fault) => Err(*fault),
            _ => Err(Fault::connection(
                Code::FrameError,
                "a stream ended within a frame",
            )),
        }
    }

    fn advance(&mut self) -> Result<Option<Piece>, Fault> {
        loop {
            match &mut self.state {
                FrameState::Failed(fault) => return Err(*fault),
                FrameState::Head { .. } => {
                    if !self.head()? {
                        return Ok(None);
                    }
                }
                FrameState::Data { left: 0 } | FrameState::Skip { left: 0 } => {
                    self.state = AT_START
                }
                FrameState::Data { left } | FrameState::Skip { left } => {
                    if self.input.is_empty() {
                        return Ok(None);
                    }
                    let count = self
                        .input
                        .len()
                        .min(usize::try_from(*left).unwrap_or(usize::MAX));
                    *left -= count as u64;
                    let taken = self.input.split_to(count);

                    if matches!(self.state, FrameState::Data { .. }) {
                        self.idle = self.idle.saturating_sub(1);
                        return Ok(Some(Piece::Data(taken)));
                    }
                }
                FrameState::Held { .. } => return Ok(self.held()?.map(Piece::Frame)),
            }
        }
    }

    /// Reads the head of a frame; false when bytes are missing, which then all are kept.
    fn head(&mut self) -> Result<bool, Fault> {
        let FrameState::Head {
            bytes,
            length: held,
        } = &mut self.state
        else {
            return Ok(false);
        };

        // A head may be cut anywhere: it is tried anew with each chunk, over the bytes held from earlier ones.
        let added = self.input.len().min(MAX_HEAD - *held);
        bytes[*held..*held + added].copy_from_slice(&self.input[..added]);
        let available = *held + added;
        let mut rest = &bytes[..available];
        let Some((kind, length)) = varint::decode(&mut rest).zip(varint::decode(&mut rest)) else {
            *held = available;
            let _ = self.input.split_to(added);
            return Ok(false);
        };

        // Held bytes have left `input` before.
        let used = available - rest.len() - *held;
        let _ = self.input.split_to(used);
        self.state = self.begin(FrameType::from(kind), length)?;

        Ok(true)
    }

    /// Chooses the state behind the head of a frame.
    fn begin(&mut self, kind: FrameType, length: u64) -> Result<FrameState, Fault> {
        let first = !std::mem::replace(&mut self.begun, true);
        // RFC 9114, section 6.2.1: SETTINGS is the first frame of a control stream.
        if self.on == On::Control && first && kind != FrameType::Settings {
            return Err(Fault::connection(
                Code::MissingSettings,
                "the control stream does not begin with SETTINGS",
            ));
        }

        admit(kind, self.on)?;
        // Such frames cost their sender nothing, so they have a budget.
        if matches!(kind, FrameType::Other(_)) || (kind == FrameType::Data && length == 0) {
            self.idle += 1;
            if self.idle > IDLE_FRAMES {
                return Err(Fault::connection(
                    Code::ExcessiveLoad,
                    "too many frames that carry nothing",
                ));
            }
        }

        match kind {
            FrameType::Data => Ok(FrameState::Data { left: length }),
            FrameType::Other(_) => Ok(FrameState::Skip { left: length }),
            _ => match usize::try_from(length) {
                Ok(length) if length <= self.limit => Ok(FrameState::Held {
                    kind,
                    length,
                    gathered: Gathered::default(),
                }),
                // Only this stream fails: other requests may have smaller sections.
                _ if kind == FrameType::Headers => Err(Fault::stream(
                    Code::ExcessiveLoad,
                    "a field section is too large",
                )),
                _ => Err(Fault::connection(
                    Code::ExcessiveLoad,
                    "a frame of the control stream is too long",
                )),
            },
        }
    }

    /// Completes a frame, or keeps the part that is here.
    fn held(&mut self) -> Result<Option<Frame>, Fault> {
        let FrameState::Held {
            kind,
            length,
            gathered,
        } = &mut self.state
        else {
            return Ok(None);
        };
        let Some(payload) = gathered.take(*length, &mut self.input) else {
            return Ok(None);
        };

        let kind = *kind;
        self.state = AT_START;
        self.idle = self.idle.saturating_sub(1);

        decode_payload(kind, payload).map(Some)
    }
}

/// Whether a type may stand on a stream (RFC 9114, section 7, table 1, and 7.2.8).
fn admit(kind: FrameType, on: On) -> Result<(), Fault> {
    let fits = match kind {
        FrameType::Other(_) => true,
        FrameType::Http2(_) => false,
        FrameType::Data | FrameType::Headers | FrameType::PushPromise => on == On::Request,
        FrameType::CancelPush
        | FrameType::Settings
        | FrameType::Goaway
        | FrameType::MaxPushId
        | FrameType::PriorityUpdate
        | FrameType::PriorityUpdatePush => on == On::Control,
    };

    let reason = "a frame is not allowed on its stream";
    fits.then_some(())
        .ok_or(Fault::connection(Code::FrameUnexpected, reason))
}

fn decode_payload(kind: FrameType, payload: Bytes) -> Result<Frame, Fault> {
    let mut rest = &payload[..];
    match kind {
        FrameType::Headers => Ok(Frame::Headers(payload)),
        FrameType::Settings => Ok(Frame::Settings(payload)),
        FrameType::PushPromise => Ok(Frame::PushPromise),
        FrameType::PriorityUpdatePush => Ok(Frame::PriorityUpdatePush),
        FrameType::PriorityUpdate => {
            let stream = varint::decode(&mut rest).ok_or(SHAPE)?;
            Ok(Frame::PriorityUpdate {
                stream,
                value: payload.slice_ref(rest),
            })
        }
        _ => {
            let id = varint::decode(&mut rest)
                .filter(|_| rest.is_empty())
                .ok_or(SHAPE)?;
            Ok(match kind {
                FrameType::CancelPush => Frame::CancelPush(id),
                FrameType::Goaway => Frame::Goaway(id),
                _ => Frame::MaxPushId(id),
            })
        }
    }
}

/// RFC 9114, section 7.1: nothing may be missing from a payload, and nothing follow it.
const SHAPE: Fault = Fault::connection(
    Code::FrameError,
    "the payload of a frame is too short or too long",
);

/// Decodes arbitrary bytes, whole and in pieces: both find the same content, frames and end, and no more than the limit is
/// held. The first byte chooses the stream, the second the length of the pieces.
#[cfg(test)]
pub(super) fn fuzz_one(data: &[u8]) {
    let [stream, piece, bytes @ ..] = data else {
        return;
    };
    let decoder = || {
        if stream & 1 == 0 {
            FrameDecoder::control()
        } else {
            FrameDecoder::request(100)
        }
    };

    let whole = decode_all(decoder(), bytes, bytes.len().max(1));
    let pieces = decode_all(decoder(), bytes, usize::from(*piece).max(1));
    assert_eq!(whole, pieces);
}

/// Content, or a frame.
#[cfg(test)]
type Found = Result<Vec<u8>, Frame>;

/// Content and frames in their order, with neighbouring content joined; and how it ended.
#[cfg(test)]
fn decode_all(
    mut decoder: FrameDecoder,
    bytes: &[u8],
    piece: usize,
) -> (Vec<Found>, Result<(), Fault>) {
    let mut found: Vec<Found> = Vec::new();
    for chunk in bytes.chunks(piece) {
        decoder.push(Bytes::copy_from_slice(chunk));
        while let Ok(Some(piece)) = decoder.next() {
            match (piece, found.last_mut()) {
                (Piece::Data(data), Some(Ok(content))) => content.extend_from_slice(&data),
                (Piece::Data(data), _) => found.push(Ok(data.to_vec())),
                (Piece::Frame(frame), _) => found.push(Err(frame)),
            }
        }

        if let FrameState::Held { gathered, .. } = &decoder.state {
            assert!(gathered.len() <= decoder.limit);
        }
        assert!(decoder.input.is_empty());
    }

    (found, decoder.finish())
}

#[cfg(test)]
mod tests;
