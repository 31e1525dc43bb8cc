//! Content that arrives on an HTTP/1.1 connection, or the plain bytes of a tunnel.

use std::io::ErrorKind;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use hermes_net::ReadHalf;
use hermes_net::memory::FieldsCharge;
use hermes_proto::h1::{BodyDecoder, BodyEvent, DecodeErrorKind, Framing, MessageLimits};
use tokio::net::TcpStream;

use super::connection::{READ_ROOM, poll_step, take};
use super::{BodySender, ReadSide, WayBack};
use crate::Frame;
use crate::error::{Cause, NO_ROOM, StreamError};
use crate::pace::Pace;

/// The receiving half.
#[derive(Debug)]
pub struct BodyReceiver {
    read: Option<ReadSide>,
    mode: Mode,
    way_back: Option<WayBack<ReadSide>>,
    length: Option<u64>,
    pace: Pace,
    done: bool,
    /// The last read filled the room that there was.
    full: bool,
    /// The charge of the head before it, until that has left; then, of incomplete trailers.
    charge: FieldsCharge,
}

/// How the bytes of a tunnel may end under TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    /// With `close_notify` only: without it they were cut off (RFC 8446, 6.1).
    Notified,
    /// As the connection does. A speaker of an upgrade's protocol, such as WebSocket, knows its end
    /// from its own frames, and many close without TLS's `close_notify`; a reset would overtake
    /// their last bytes.
    Closed,
}

#[derive(Debug)]
enum Mode {
    Content(BodyDecoder),
    Bytes(Ends),
}

impl BodyReceiver {
    /// Content framed as `framing` says; the connection goes home afterwards.
    pub(crate) fn content(
        read: ReadSide,
        framing: Framing,
        limits: &MessageLimits,
        way_back: WayBack<ReadSide>,
    ) -> Self {
        let length = match framing {
            Framing::Empty => Some(0),
            Framing::Length(length) => Some(length),
            Framing::Chunked | Framing::UntilClose => None,
        };

        let done = length == Some(0);
        let decoder = BodyDecoder::new(framing, limits);
        let mode = Mode::Content(if way_back.is_server() {
            decoder
        } else {
            decoder.of_response()
        });

        Self {
            read: Some(read),
            mode,
            way_back: Some(way_back),
            length,
            pace: Pace::default(),
            done,
            full: false,
            charge: FieldsCharge::default(),
        }
    }

    /// The content of a response, with the charge of its head.
    pub(crate) fn charged(mut self, charge: FieldsCharge) -> Self {
        self.charge = charge;
        self
    }

    /// Holds the client to a rate.
    pub(crate) fn pace(&mut self, pace: Pace) {
        self.pace = pace;
    }

    /// The plain bytes of a connection's reading half.
    pub fn bytes(half: ReadHalf) -> Self {
        Self::tunnel(ReadSide::new(half, BytesMut::new()), Ends::Notified)
    }

    pub(crate) fn tunnel(read: ReadSide, ends: Ends) -> Self {
        Self {
            read: Some(read),
            mode: Mode::Bytes(ends),
            way_back: None,
            length: None,
            pace: Pace::default(),
            done: false,
            full: false,
            charge: FieldsCharge::default(),
        }
    }

    /// Turns the (empty) content of a request into the bytes of the tunnel that was accepted.
    pub(crate) fn into_tunnel(mut self, ends: Ends) -> Option<Self> {
        self.way_back = None;
        self.read.take().map(|read| Self::tunnel(read, ends))
    }

    /// Leaves the TLS of a tunnel to the kernel, if possible; `other` is its other half.
    pub(crate) fn leave_tls_to_kernel(
        &mut self,
        other: &mut BodySender,
    ) -> Result<(), StreamError> {
        match &mut self.read {
            Some(read) => other.leave_tls_to_kernel(read),
            None => Ok(()),
        }
    }

    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame, StreamError>>> {
        // No content is asked for before the head has left.
        self.charge.clear();
        let Some(read) = self.read.as_mut().filter(|_| !self.done) else {
            return Poll::Ready(None);
        };
        let polled = match &mut self.mode {
            Mode::Content(decoder) => poll_content(read, decoder, cx),
            Mode::Bytes(ends) => poll_bytes(read, *ends, cx),
        };

        // Only a client that is waited for can be too slow, or leave trailers that are not whole.
        let polled = match polled {
            Poll::Ready(polled) => polled,
            Poll::Pending => match self
                .charge
                .hold(&read.half.info().peer, read.buffer.capacity())
            {
                Ok(()) => Some(Err(ready!(self.pace.poll_slow(cx)))),
                Err(_) => Some(Err(StreamError::new(Cause::Memory(NO_ROOM)))),
            },
        };

        if let Some(Ok(Frame::Data(data))) = &polled {
            self.pace.moved(data.len());
        }
        self.done = !matches!(polled, Some(Ok(Frame::Data(_))));
        self.full = matches!(&polled, Some(Ok(Frame::Data(data))) if data.len() >= READ_ROOM);

        // Where the content ends is unknown, so no other message can follow on this connection.
        if let (Some(Err(_)), Some(way_back)) = (&polled, &self.way_back) {
            way_back.spoil();
        }
        if self.done && self.way_back.as_ref().is_some_and(WayBack::is_server) {
            self.part();
        }

        Poll::Ready(polled)
    }

    /// Gives the connection back, if the message was read to its end.
    pub(crate) fn part(&mut self) {
        if self.is_end()
            && let Some(way_back) = self.way_back.take()
            && let Some(read) = self.read.take()
        {
            self.done = true;
            way_back.give(read);
        }
    }

    /// Reads no more at once than the other side has room for.
    pub(crate) fn limit(&mut self, most: usize) {
        if let Some(read) = &mut self.read {
            read.limit(most);
        }
    }

    /// Reads the available bytes of a tunnel at once.
    pub(crate) fn look(&mut self) {
        if let Some(read) = self
            .read
            .as_mut()
            .filter(|read| read.buffer.is_empty() && !self.done)
        {
            read.half.look();
        }
    }

    /// Puts bytes in front of the next ones.
    pub(crate) fn unread(&mut self, data: &[u8]) {
        if let Some(read) = &mut self.read {
            let mut buffer = BytesMut::from(data);
            buffer.unsplit(std::mem::take(&mut read.buffer));
            read.buffer = buffer;
        }
    }

    pub(crate) fn is_end(&self) -> bool {
        self.done || matches!(&self.mode, Mode::Content(decoder) if decoder.is_done())
    }

    pub(crate) fn length(&self) -> Option<u64> {
        self.length
    }

    /// The connection itself, and the number of bulk bytes that come on it without framing, if none
    /// are buffered here.
    pub(crate) fn bulk(&self) -> Option<(&TcpStream, u64)> {
        let read = self
            .read
            .as_ref()
            // Buffered bytes come first, and a pipe to the kernel pays for bulk only: a read that filled its room is the sign of it.
            .filter(|read| self.full && !self.done && read.buffer.is_empty())?;
        let most = match &self.mode {
            Mode::Bytes(_) => u64::MAX,
            Mode::Content(_) if self.pace.is_held() => return None,
            Mode::Content(decoder) => decoder.unframed(),
        };

        Some((read.half.tcp().filter(|_| most > 0)?, most))
    }

    /// Counts bulk bytes that were taken from the connection itself.
    pub(crate) fn passed(&mut self, bytes: u64) {
        if let Mode::Content(decoder) = &mut self.mode {
            decoder.passed(bytes);
        }
    }
}

fn poll_bytes(
    read: &mut ReadSide,
    ends: Ends,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<Frame, StreamError>>> {
    if !read.buffer.is_empty() {
        // The tunnel needs the buffer no more.
        let mut buffer = std::mem::take(&mut read.buffer);
        return Poll::Ready(Some(Ok(Frame::Data(take(&mut buffer)))));
    }
    Poll::Ready(match ready!(read.poll_take(cx)) {
        Ok(bytes) => (!bytes.is_empty()).then(|| Ok(Frame::Data(bytes))),
        Err(error) if ends == Ends::Closed && error.kind() == ErrorKind::UnexpectedEof => None,
        Err(error) => Some(Err(error.into())),
    })
}

fn poll_content(
    read: &mut ReadSide,
    decoder: &mut BodyDecoder,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<Frame, StreamError>>> {
    let event = match ready!(poll_step(read, cx, |buffer| decoder
        .decode(buffer)
        .transpose()))
    {
        Ok(Some(event)) => event,
        // Whether that is an error depends on the framing: content without a length ends so (RFC 9112, 6.3).
        Ok(None) => decoder.end_of_input(),
        Err(error) => return Poll::Ready(Some(Err(error.into()))),
    };

    Poll::Ready(match event {
        Ok(BodyEvent::Data(data)) => Some(Ok(Frame::Data(data))),
        Ok(BodyEvent::Trailers(trailers)) => Some(Ok(Frame::Trailers(trailers))),
        Ok(BodyEvent::End) => None,
        Err(error) if error.kind() == DecodeErrorKind::Truncated => {
            Some(Err(StreamError::new(Cause::Incomplete)))
        }
        Err(error) => Some(Err(error.into())),
    })
}

impl Drop for BodyReceiver {
    fn drop(&mut self) {
        let (Some(read), Some(way_back)) = (self.read.take(), self.way_back.take()) else {
            return;
        };
        if !self.is_end() {
            // The unread rest would be taken for the next message.
            way_back.abandon(&read);
        }
        way_back.give(read);
    }
}
