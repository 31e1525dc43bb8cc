//! Writing the content of a message (RFC 9112 6, 7).

use bytes::{BufMut, Bytes, BytesMut};

use super::encode::put_lines;
use super::error::MessageEncodeError;
use super::framing::Framing;
use super::trailers::is_forbidden_trailer;
use crate::fields::{Class, Fields};

/// Wraps the content of one message as its framing demands.
///
/// The content itself is never copied: `out` gets the pieces of one vectored write.
#[derive(Debug)]
pub struct BodyEncoder {
    state: State,
    /// Room for the lines of chunks, used again once they were written.
    lines: BytesMut,
}

/// Bytes of the longest line of a chunk: 16 digits and CRLF.
const LINE: usize = 18;

/// Bytes of the room for such lines: that of several, so that one can be written while others wait.
const LINES: usize = 4 * LINE;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// This many bytes must still be written.
    Length(u64),
    Chunked,
    UntilClose,
    Finished,
}

impl BodyEncoder {
    /// An encoder for one message. For a response that has no content by rule (HEAD, 304) use `Framing::Empty`.
    pub fn new(framing: Framing) -> Self {
        let state = match framing {
            Framing::Empty => State::Length(0),
            Framing::Length(length) => State::Length(length),
            Framing::Chunked => State::Chunked,
            Framing::UntilClose => State::UntilClose,
        };
        Self {
            state,
            lines: BytesMut::new(),
        }
    }

    /// Appends one piece of content; an empty piece writes nothing.
    ///
    /// # Errors
    /// `TooMuchContent` beyond the announced length, `Finished` after the end; nothing is then appended.
    pub fn data(&mut self, data: Bytes, out: &mut Vec<Bytes>) -> Result<(), MessageEncodeError> {
        if data.is_empty() {
            return Ok(());
        }
        match self.state {
            State::Finished => return Err(MessageEncodeError::Finished),
            State::UntilClose => out.push(data),
            State::Length(left) => {
                let left = left.checked_sub(data.len() as u64);
                self.state = State::Length(left.ok_or(MessageEncodeError::TooMuchContent)?);
                out.push(data);
            }
            State::Chunked => {
                let line = self.line(data.len());
                out.extend([line, data, Bytes::from_static(b"\r\n")]);
            }
        }

        Ok(())
    }

    /// The line of a chunk of this size.
    fn line(&mut self, size: usize) -> Bytes {
        if self.lines.capacity() < LINE {
            self.lines.reserve(LINES);
        }
        let digits = (usize::BITS - size.leading_zeros()).div_ceil(4).max(1);
        for place in (0..digits).rev() {
            self.lines
                .put_u8(b"0123456789abcdef"[size >> (4 * place) & 0xf]);
        }

        self.lines.put_slice(b"\r\n");
        self.lines.split().freeze()
    }

    /// Bytes of content that may follow with nothing between them; see [`super::BodyDecoder::unframed`].
    pub fn unframed(&self) -> u64 {
        match self.state {
            State::Length(left) => left,
            State::UntilClose => u64::MAX,
            State::Chunked | State::Finished => 0,
        }
    }

    /// Another writer sent this many of the [`Self::unframed`] bytes.
    pub fn passed(&mut self, bytes: u64) {
        if let State::Length(left) = &mut self.state {
            *left = left.saturating_sub(bytes);
        }
    }

    /// Ends the content. Trailers are written with the chunked coding; elsewhere there is no place for them and they
    /// are dropped (RFC 9110 6.5.1 allows that).
    ///
    /// # Errors
    /// `TooLittleContent` when announced bytes are missing: the connection must then be closed, never reused.
    /// `ForbiddenTrailer` or a bad value: nothing is appended, and `finish` may be called again.
    pub fn finish(
        &mut self,
        trailers: Option<&Fields>,
        out: &mut Vec<Bytes>,
    ) -> Result<(), MessageEncodeError> {
        match self.state {
            State::Finished => return Err(MessageEncodeError::Finished),
            State::Length(left) if left > 0 => return Err(MessageEncodeError::TooLittleContent),
            State::Length(_) | State::UntilClose => {}
            State::Chunked => out.push(last_chunk(trailers)?),
        }

        self.state = State::Finished;
        Ok(())
    }
}

/// The last chunk and the trailer section.
fn last_chunk(trailers: Option<&Fields>) -> Result<Bytes, MessageEncodeError> {
    let Some(trailers) = trailers else {
        return Ok(Bytes::from_static(b"0\r\n\r\n"));
    };
    let mut end = BytesMut::from(&b"0\r\n"[..]);
    for name in trailers.names() {
        if is_forbidden_trailer(&name) {
            return Err(MessageEncodeError::ForbiddenTrailer(name.to_string()));
        }
    }
    put_lines(trailers, Class::NONE, &mut end);

    end.put_slice(b"\r\n");
    Ok(end.freeze())
}
