//! The input of a stream: content and trailers of a message, or the bytes of a tunnel.

use std::future::poll_fn;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::net::TcpStream;

use crate::connect_tcp::Unwrapping;
use crate::error::StreamError;
use crate::frame::Frame;
use crate::pace::Pace;
use crate::pipe::PipeReceiver;
use crate::{h1, h2, h3};

/// The receiving half of a stream.
#[derive(Debug)]
pub enum Incoming {
    /// No input.
    Empty,
    /// Content that is already here.
    Full(Option<Bytes>),
    /// HTTP/1.1, or the plain bytes of a connection.
    H1(h1::BodyReceiver),
    /// HTTP/2.
    H2(h2::StreamReceiver),
    /// HTTP/3.
    H3(Box<h3::RequestStreamReceiver>),
    /// The bytes within the capsules of connect-tcp.
    Unwrapped(Box<Unwrapping>),
    /// From another task.
    Piped(PipeReceiver),
}

impl Incoming {
    /// The next frame; `None` at the end. Once a frame was taken, the room it used is given back to the peer when the next
    /// one is asked for, so a slow consumer slows the producer.
    ///
    /// # Errors
    /// The peer reset the stream, broke the protocol, or the connection failed.
    pub async fn frame(&mut self) -> Option<Result<Frame, StreamError>> {
        poll_fn(|cx| self.poll_frame(cx)).await
    }

    /// Polls for the next frame.
    pub fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, StreamError>>> {
        match self {
            Self::Empty => Poll::Ready(None),
            Self::Full(content) => Poll::Ready(content.take().map(|data| Ok(Frame::Data(data)))),
            Self::H1(incoming) => incoming.poll_frame(cx),
            Self::H2(incoming) => incoming.poll_frame(cx),
            Self::H3(incoming) => incoming.poll_frame(cx),
            Self::Unwrapped(incoming) => incoming.poll_frame(cx),
            Self::Piped(incoming) => incoming.poll_frame(cx),
        }
    }

    /// The other side has room for this many bytes: no more are read at once where that can be chosen.
    pub fn limit(&mut self, most: usize) {
        match self {
            Self::H1(incoming) => incoming.limit(most),
            Self::Unwrapped(incoming) => incoming.limit(most),
            Self::Empty | Self::Full(_) | Self::H2(_) | Self::H3(_) | Self::Piped(_) => {}
        }
    }

    /// To be polled while no frames are asked for. Packs small ones that have come: each unread one
    /// costs far more than its bytes. The credit of the sender is not changed. Ready once the
    /// stream was ended because its input was not asked for.
    pub fn poll_unasked(&mut self, cx: &mut Context<'_>) -> Poll<StreamError> {
        match self {
            Self::H3(incoming) => return incoming.poll_still(cx),
            Self::Unwrapped(incoming) => return incoming.poll_unasked(cx),
            Self::Empty | Self::Full(_) | Self::H1(_) | Self::H2(_) | Self::Piped(_) => {}
        }
        Poll::Pending
    }

    /// Holds the sender to a rate; the default sets no rate.
    pub(crate) fn pace(&mut self, pace: Pace) {
        match self {
            Self::H1(incoming) => incoming.pace(pace),
            Self::H2(incoming) => incoming.pace(pace),
            Self::H3(incoming) => incoming.pace(pace),
            _ => {}
        }
    }

    /// Asks the system at once for bytes of a plain connection, of which the runtime has not heard yet.
    pub fn look(&mut self) {
        if let Self::H1(incoming) = self {
            incoming.look();
        }
    }

    /// Puts the last bytes back: they arrive again. Only on a plain connection and over HTTP/2.
    pub fn unread(&mut self, data: Bytes) {
        match self {
            Self::H1(incoming) => incoming.unread(&data),
            Self::H2(incoming) => incoming.unread(data),
            Self::Empty | Self::Full(_) | Self::H3(_) | Self::Unwrapped(_) | Self::Piped(_) => {}
        }
    }

    /// Whether it is certain that nothing more arrives.
    pub fn is_end(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Full(content) => content.is_none(),
            Self::H1(incoming) => incoming.is_end(),
            Self::H2(incoming) => incoming.is_end(),
            Self::H3(incoming) => incoming.is_end(),
            Self::Unwrapped(incoming) => incoming.is_end(),
            Self::Piped(incoming) => incoming.is_end(),
        }
    }

    /// The connection that bytes come on in bulk, and how many, where nothing stands between them and the kernel: the forwarding loop
    /// them can have the kernel do it, and says so to [`Self::passed`].
    pub fn bulk(&self) -> Option<(&TcpStream, u64)> {
        match self {
            Self::H1(incoming) => incoming.bulk(),
            Self::Empty
            | Self::Full(_)
            | Self::H2(_)
            | Self::H3(_)
            | Self::Unwrapped(_)
            | Self::Piped(_) => None,
        }
    }

    /// The kernel has moved this many of the [`Self::bulk`] bytes.
    pub fn passed(&mut self, bytes: u64) {
        if let Self::H1(incoming) = self {
            incoming.passed(bytes);
        }
    }

    /// Bytes of content that will arrive, where the peer announced them.
    pub fn length(&self) -> Option<u64> {
        match self {
            Self::Empty => Some(0),
            Self::Full(content) => Some(content.as_ref().map_or(0, |data| data.len() as u64)),
            Self::H1(incoming) => incoming.length(),
            Self::H2(incoming) => incoming.length(),
            Self::H3(incoming) => incoming.length(),
            Self::Unwrapped(_) => None,
            Self::Piped(incoming) => incoming.length(),
        }
    }

    /// The bytes that come within the capsules of connect-tcp on this stream.
    #[must_use]
    pub fn unwrapped(self) -> Self {
        Self::Unwrapped(Box::new(Unwrapping::new(self)))
    }

    /// Waits for the end of a stream after the end of the bytes in its capsules.
    pub async fn parted(&mut self) {
        if let Self::Unwrapped(incoming) = self {
            poll_fn(|cx| incoming.poll_parted(cx)).await;
        }
    }

    /// The datagrams of a tunnel, which come beside its capsules: over HTTP/3, where both sides said that they take them. Once.
    pub fn datagrams(&mut self) -> Option<h3::DatagramReceiver> {
        match self {
            Self::H3(incoming) => incoming.datagrams(),
            _ => None,
        }
    }
}
