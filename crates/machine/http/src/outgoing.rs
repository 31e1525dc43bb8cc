//! The output of a stream.

use std::future::{Future, ready};
use std::pin::Pin;

use bytes::Bytes;
use hermes_proto::fields::Fields;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio_util::either::Either;

use crate::connect_tcp::Wrapping;
use crate::error::{Cause, Reset, StreamError};
use crate::pace::Pace;
use crate::pipe::PipeSender;
use crate::{h1, h2, h3};

/// The sending half of a stream. Dropped before its end, it resets the stream.
#[derive(Debug)]
pub enum Outgoing {
    /// The message ended with its head.
    Ended,
    /// HTTP/1.1, or the plain bytes of a connection.
    H1(h1::BodySender),
    /// HTTP/2.
    H2(h2::StreamSender),
    /// HTTP/3.
    H3(h3::RequestStreamSender),
    /// Bytes that leave within the capsules of connect-tcp.
    Wrapped(Box<Wrapping>),
    /// To another task.
    Piped(PipeSender),
}

impl Outgoing {
    /// Sends bytes, and with `end` the end of the stream. Resolves when the stream has room for more. The bytes are taken at once, and
    /// leave when the future is polled.
    ///
    /// # Errors
    /// The peer reset the stream, the connection failed, or the length that was announced is not kept.
    pub fn data(
        &mut self,
        data: Bytes,
        end: bool,
    ) -> impl Future<Output = Result<(), StreamError>> + Send {
        // Not an `async fn`: its future would have room for the bytes beside that of the stream, in each tunnel twice.
        match self {
            Self::H1(outgoing) => Either::Left(Either::Left(outgoing.data(data, end))),
            Self::H2(outgoing) => Either::Left(Either::Right(outgoing.data(data, end))),
            Self::H3(outgoing) => Either::Right(boxed(outgoing.data(data, end))),
            Self::Wrapped(outgoing) => Either::Right(boxed(outgoing.data(data, end))),
            Self::Piped(outgoing) => Either::Right(boxed(outgoing.data(data, end))),
            Self::Ended => Either::Right(boxed(ready(Ok(())))),
        }
    }

    /// Sends several pieces, which others may share, in as few writes as the version allows. Resolves as [`Self::data`] does.
    ///
    /// # Errors
    /// As for [`Outgoing::data`].
    pub async fn pieces(&mut self, pieces: Vec<Bytes>) -> Result<(), StreamError> {
        match self {
            Self::H1(outgoing) => outgoing.pieces(pieces).await,
            Self::H3(outgoing) => Box::pin(outgoing.pieces(pieces)).await,
            // The connection of HTTP/2 joins its streams' output at each write.
            Self::H2(_) | Self::Wrapped(_) | Self::Piped(_) | Self::Ended => {
                for piece in pieces {
                    self.data(piece, false).await?;
                }
                Ok(())
            }
        }
    }

    /// How many bytes this stream takes now; 0 until those sent before have left.
    pub fn room(&self) -> usize {
        match self {
            Self::Ended | Self::H1(_) => usize::MAX,
            Self::H2(outgoing) => outgoing.room(),
            Self::H3(outgoing) => outgoing.room(),
            Self::Wrapped(outgoing) => outgoing.room(),
            Self::Piped(outgoing) => outgoing.room(),
        }
    }

    /// Waits until some may; how many.
    ///
    /// # Errors
    /// The reader is slower than it may be.
    pub async fn roomy(&mut self) -> Result<usize, StreamError> {
        match self {
            Self::Ended | Self::H1(_) => Ok(usize::MAX),
            Self::H2(outgoing) => outgoing.roomy().await,
            Self::H3(outgoing) => outgoing.roomy().await,
            Self::Wrapped(outgoing) => Box::pin(outgoing.roomy()).await,
            Self::Piped(outgoing) => Box::pin(outgoing.roomy()).await,
        }
    }

    /// Whether bytes of a tunnel may leave before it is answered. On HTTP/1.1 they may not: until
    /// the 101 they belong to the request's connection (RFC 9110, 7.8).
    pub fn takes_early(&self) -> bool {
        matches!(self, Self::H2(_) | Self::H3(_))
    }

    /// Sends a few bytes of a tunnel that is not answered yet; see [`Self::takes_early`]. Does not
    /// wait: bytes without room leave before the next ones.
    ///
    /// # Errors
    /// As for [`Outgoing::data`].
    pub fn early(&mut self, data: Bytes) -> Result<(), StreamError> {
        match self {
            Self::H2(outgoing) => outgoing.early(data),
            Self::H3(outgoing) => outgoing.early(data),
            Self::Ended | Self::H1(_) | Self::Wrapped(_) | Self::Piped(_) => Err(StreamError::new(
                Cause::Invalid("the tunnel is not answered".to_owned()),
            )),
        }
    }

    /// Ends the stream, with trailers if there are any. The opposite direction stays as it is.
    ///
    /// # Errors
    /// As for [`Outgoing::data`].
    pub async fn finish(&mut self, trailers: Option<Fields>) -> Result<(), StreamError> {
        match self {
            Self::Ended => Ok(()),
            Self::H1(outgoing) => outgoing.finish(trailers).await,
            Self::H2(outgoing) => outgoing.finish(trailers),
            Self::H3(outgoing) => Box::pin(outgoing.finish(trailers)).await,
            Self::Wrapped(outgoing) => Box::pin(outgoing.finish()).await,
            Self::Piped(outgoing) => {
                outgoing.finish(trailers);
                Ok(())
            }
        }
    }

    /// Sends bytes that were held back to be joined with the first ones; to be called before
    /// waiting for more to send.
    ///
    /// # Errors
    /// As for [`Outgoing::data`].
    pub async fn flush(&mut self) -> Result<(), StreamError> {
        match self {
            Self::Ended | Self::H2(_) | Self::Piped(_) => Ok(()),
            Self::H3(outgoing) if !outgoing.holds() => Ok(()),
            Self::H3(outgoing) => Box::pin(outgoing.flush()).await,
            Self::H1(outgoing) => outgoing.flush().await,
            Self::Wrapped(outgoing) => Box::pin(outgoing.flush()).await,
        }
    }

    /// Keeps no room for further output: none may come for long.
    pub fn rest(&mut self) {
        if let Self::H1(outgoing) = self {
            outgoing.rest();
        }
    }

    /// Holds the reader to a rate; the default sets no rate.
    pub(crate) fn paced(mut self, pace: Pace) -> Self {
        match &mut self {
            Self::H1(outgoing) => outgoing.pace(pace),
            Self::H2(outgoing) => outgoing.pace(pace),
            Self::H3(outgoing) => outgoing.pace(pace),
            _ => {}
        }
        self
    }

    /// The connection that bytes leave on, and how many may, where nothing stands between them and the kernel; see
    /// [`crate::Incoming::bulk`].
    pub fn plain(&self) -> Option<(&TcpStream, u64)> {
        match self {
            Self::H1(outgoing) => outgoing.plain(),
            Self::Ended | Self::H2(_) | Self::H3(_) | Self::Wrapped(_) | Self::Piped(_) => None,
        }
    }

    /// The kernel has moved this many bytes to the [`Self::plain`] connection.
    pub fn passed(&mut self, bytes: u64) {
        if let Self::H1(outgoing) = self {
            outgoing.passed(bytes);
        }
    }

    /// Breaks the stream off, so that the peer sees an error and not an end.
    pub fn reset(&mut self, reset: Reset) {
        match self {
            Self::Ended => {}
            Self::H1(outgoing) => outgoing.reset(),
            Self::H2(outgoing) => outgoing.reset(reset),
            Self::H3(outgoing) => outgoing.reset(reset),
            Self::Wrapped(outgoing) => outgoing.reset(reset),
            Self::Piped(outgoing) => outgoing.reset(reset),
        }
    }

    /// Waits until the peer breaks the stream off, which may be never.
    pub async fn broken(&mut self) -> Reset {
        match self {
            // Only TCP tells, and also while nothing is read or written. In one future, as every idle tunnel has room for this one.
            Self::H1(outgoing) => match outgoing.tcp() {
                Some(tcp) => {
                    // A runtime that is shutting down has no more to say either.
                    let _ = tcp.ready(Interest::ERROR).await;
                    Reset::Connect
                }
                None => std::future::pending().await,
            },
            Self::H2(outgoing) => outgoing.broken().await,
            Self::H3(outgoing) => outgoing.broken().await,
            Self::Wrapped(outgoing) => Box::pin(outgoing.broken()).await,
            Self::Piped(outgoing) => Box::pin(outgoing.broken()).await,
            Self::Ended => std::future::pending().await,
        }
    }

    /// Waits until the reader of an answer is known to be gone, which may be never: it broke the stream off, or over HTTP/1.1 ended its side,
    /// unless it may read on then.
    pub async fn gone(&mut self) -> Reset {
        if let Self::H1(outgoing) = self {
            return outgoing.gone().await;
        }
        self.broken().await
    }

    /// Sends bytes within the capsules of connect-tcp on this stream from now on. The end of the bytes is then not yet that of the
    /// stream, which [`Self::part`] is.
    #[must_use]
    pub fn wrapped(self) -> Self {
        Self::Wrapped(Box::new(Wrapping::new(self)))
    }

    /// Whether bytes leave within capsules.
    pub fn is_wrapped(&self) -> bool {
        matches!(self, Self::Wrapped(_))
    }

    /// Ends a stream after the end of the bytes in its capsules.
    ///
    /// # Errors
    /// As for [`Outgoing::data`].
    pub async fn part(&mut self) -> Result<(), StreamError> {
        match self {
            Self::Wrapped(outgoing) => Box::pin(outgoing.part()).await,
            _ => Ok(()),
        }
    }

    /// The way to send datagrams of a tunnel beside its capsules: over HTTP/3, where both sides said that they take them.
    pub fn datagrams(&self) -> Option<h3::DatagramSender> {
        match self {
            Self::H3(outgoing) => outgoing.datagrams(),
            _ => None,
        }
    }
}

/// The future of a send that is too large to be kept for every tunnel.
type BoxedSending<'a> = Pin<Box<dyn Future<Output = Result<(), StreamError>> + Send + 'a>>;

fn boxed<'a>(
    sending: impl Future<Output = Result<(), StreamError>> + Send + 'a,
) -> BoxedSending<'a> {
    Box::pin(sending)
}
