//! Reading the content of a message (RFC 9112 6, 7).

use bytes::{Buf, Bytes, BytesMut};

use super::chunk::decode_chunk_line;
use super::error::{DecodeError, DecodeErrorKind as Kind};
use super::framing::Framing;
use super::limits::MessageLimits;
use super::trailers::{TrailerRules, TrailersOf, decode_trailers};
use crate::fields::Fields;

/// A piece of content, or its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyEvent {
    /// Some bytes, never empty; the pieces have nothing to do with the chunks of the sender.
    Data(Bytes),
    /// The trailer fields, never empty. This *is* the end: no `End` follows it.
    Trailers(Fields),
    /// The end, without trailers.
    End,
}

/// Takes the content of one message out of a connection's bytes, and nothing after it.
#[derive(Debug)]
pub struct BodyDecoder {
    state: BodyDecodeState,
    /// In 32 bits, as those of trailers: a decoder lies in every stream.
    chunk_extension_bytes: u32,
    trailers: TrailerRules,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BodyDecodeState {
    /// This many bytes are still to come.
    Length(u64),
    /// Everything is content.
    UntilClose,
    /// A chunk line is next.
    ChunkLine,
    /// This many bytes of a chunk are still to come, then CRLF.
    Chunk(u64),
    /// The trailer section is next.
    Trailers,
    /// `End` or `Trailers` was given.
    Done,
}

impl BodyDecoder {
    /// A decoder for one message.
    pub fn new(framing: Framing, limits: &MessageLimits) -> Self {
        let state = match framing {
            Framing::Empty => BodyDecodeState::Length(0),
            Framing::Length(length) => BodyDecodeState::Length(length),
            Framing::Chunked => BodyDecodeState::ChunkLine,
            Framing::UntilClose => BodyDecodeState::UntilClose,
        };
        Self {
            state,
            chunk_extension_bytes: capped(limits.chunk_extension_bytes),
            trailers: TrailerRules {
                of: TrailersOf::Request,
                fields: capped(limits.fields),
                bytes: capped(limits.trailer_bytes),
            },
        }
    }

    /// The same for a response: its trailers are repaired where those of a request would be
    /// refused.
    #[must_use]
    pub fn of_response(mut self) -> Self {
        self.trailers.of = TrailersOf::Response;
        self
    }

    /// Takes the next piece from the front of `buf`; `None` means that more bytes are needed.
    ///
    /// After the end it gives `End` again and leaves `buf` alone.
    ///
    /// # Errors
    /// The first rule that the bytes broke. The decoder and the connection must not be used again.
    pub fn decode(&mut self, buf: &mut BytesMut) -> Result<Option<BodyEvent>, DecodeError> {
        loop {
            match self.state {
                BodyDecodeState::Length(0) | BodyDecodeState::Done => {
                    return Ok(Some(self.end(BodyEvent::End)));
                }
                BodyDecodeState::Length(left) => {
                    return Ok(self.data(buf, left, BodyDecodeState::Length));
                }
                BodyDecodeState::UntilClose => {
                    return Ok(self.data(buf, u64::MAX, |_| BodyDecodeState::UntilClose));
                }
                BodyDecodeState::Chunk(left) if left > 0 => {
                    return Ok(self.data(buf, left, BodyDecodeState::Chunk));
                }
                BodyDecodeState::Chunk(_) => match chunk_end(buf)? {
                    None => return Ok(None),
                    Some(next) => self.state = next,
                },
                BodyDecodeState::ChunkLine => match chunk_line(buf, self.chunk_extension_bytes)? {
                    None => return Ok(None),
                    Some(next) => self.state = next,
                },
                BodyDecodeState::Trailers => {
                    let trailers = decode_trailers(buf, self.trailers)?;
                    return Ok(trailers.map(|trailers| self.trailers(trailers)));
                }
            }
        }
    }

    /// Says that the peer sends no more; call it when `decode` has taken all there was.
    ///
    /// # Errors
    /// `Truncated`, unless the content ends where the connection does or is complete already (RFC 9112 8).
    pub fn end_of_input(&mut self) -> Result<BodyEvent, DecodeError> {
        match self.state {
            BodyDecodeState::UntilClose | BodyDecodeState::Length(0) | BodyDecodeState::Done => {
                Ok(self.end(BodyEvent::End))
            }
            _ => Err(Kind::Truncated.into()),
        }
    }

    /// Whether `End` or `Trailers` was given.
    pub fn is_done(&self) -> bool {
        self.state == BodyDecodeState::Done
    }

    /// Bytes of content that come next without framing: the announced length, `u64::MAX` up to the
    /// end of the connection, 0 for chunks.
    pub fn unframed(&self) -> u64 {
        match self.state {
            BodyDecodeState::Length(left) => left,
            BodyDecodeState::UntilClose => u64::MAX,
            BodyDecodeState::ChunkLine
            | BodyDecodeState::Chunk(_)
            | BodyDecodeState::Trailers
            | BodyDecodeState::Done => 0,
        }
    }

    /// Another reader took this many of the [`Self::unframed`] bytes from the connection.
    pub fn passed(&mut self, bytes: u64) {
        if let BodyDecodeState::Length(left) = &mut self.state {
            *left = left.saturating_sub(bytes);
        }
    }

    /// Takes at most `left` bytes, and goes on with the remainder.
    fn data(
        &mut self,
        buf: &mut BytesMut,
        left: u64,
        next: impl FnOnce(u64) -> BodyDecodeState,
    ) -> Option<BodyEvent> {
        if buf.is_empty() {
            return None;
        }
        let length = usize::try_from(left).map_or(buf.len(), |left| left.min(buf.len()));
        self.state = next(left - length as u64);
        Some(BodyEvent::Data(buf.split_to(length).freeze()))
    }

    fn trailers(&mut self, trailers: Fields) -> BodyEvent {
        if trailers.is_empty() {
            return self.end(BodyEvent::End);
        }
        self.end(BodyEvent::Trailers(trailers))
    }

    fn end(&mut self, event: BodyEvent) -> BodyEvent {
        self.state = BodyDecodeState::Done;
        event
    }
}

/// A limit in 32 bits.
fn capped(limit: usize) -> u32 {
    limit.try_into().unwrap_or(u32::MAX)
}

/// Takes a chunk line and returns the state behind it; `None` when more bytes are needed.
fn chunk_line(buf: &mut BytesMut, extension_bytes: u32) -> Result<Option<BodyDecodeState>, Kind> {
    let Some(line) = decode_chunk_line(buf, extension_bytes as usize)? else {
        return Ok(None);
    };
    buf.advance(line.length);
    Ok(Some(match line.size {
        0 => BodyDecodeState::Trailers,
        size => BodyDecodeState::Chunk(size),
    }))
}

/// Takes the CRLF after the bytes of a chunk and returns the state behind it; `None` when more
/// bytes are needed.
fn chunk_end(buf: &mut BytesMut) -> Result<Option<BodyDecodeState>, Kind> {
    match buf[..] {
        [] | [b'\r'] => Ok(None),
        [b'\r', b'\n', ..] => {
            buf.advance(2);
            Ok(Some(BodyDecodeState::ChunkLine))
        }
        // More bytes than the size announced: to resynchronize is to let the sender choose what counts as a request.
        _ => Err(Kind::MissingChunkEnd),
    }
}
