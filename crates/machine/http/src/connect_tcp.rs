//! TCP within capsules: the two halves of a connect-tcp stream (draft-ietf-httpbis-connect-tcp), as bytes.

use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hermes_proto::connect_tcp::{ConnectTcpDecoder, ConnectTcpError, TcpPiece, encode};

use crate::error::{Cause, Reset, StreamError};
use crate::{Frame, Incoming, Outgoing};

/// Takes bytes out of the capsules that arrive. Capsules of other types are dropped: they are for
/// this end, which knows no such types.
#[derive(Debug)]
pub struct Unwrapping {
    stream: Incoming,
    decoder: ConnectTcpDecoder,
}

impl Unwrapping {
    pub(crate) fn new(stream: Incoming) -> Self {
        Self {
            stream,
            decoder: ConnectTcpDecoder::default(),
        }
    }

    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame, StreamError>>> {
        if self.decoder.is_end() {
            return Poll::Ready(None);
        }
        loop {
            match self.decoder.next() {
                Ok(Some(TcpPiece::Data(data))) => return Poll::Ready(Some(Ok(Frame::Data(data)))),
                Ok(Some(TcpPiece::End)) => return Poll::Ready(None),
                Ok(None) => {}
                Err(error) => return Poll::Ready(Some(Err(broken(error)))),
            }
            match ready!(self.stream.poll_frame(cx)) {
                Some(Ok(Frame::Data(chunk))) => self.decoder.push(chunk),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                // Section 3.4: the stream was cut off. There are no trailers.
                None | Some(Ok(Frame::Trailers(_))) => {
                    let error = self
                        .decoder
                        .finish()
                        .err()
                        .unwrap_or(ConnectTcpError::NoEnd);
                    return Poll::Ready(Some(Err(broken(error))));
                }
            }
        }
    }

    /// Drops bytes behind the last data, to the end of the stream.
    pub(crate) fn poll_parted(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while let Some(Ok(_)) = ready!(self.stream.poll_frame(cx)) {}
        Poll::Ready(())
    }

    pub(crate) fn limit(&mut self, most: usize) {
        self.stream.limit(most);
    }

    pub(crate) fn poll_unasked(&mut self, cx: &mut Context<'_>) -> Poll<StreamError> {
        self.stream.poll_unasked(cx)
    }

    pub(crate) fn is_end(&self) -> bool {
        self.decoder.is_end()
    }
}

/// The error of a malformed stream. A stream that was cut off looks like a connection that was.
fn broken(error: ConnectTcpError) -> StreamError {
    StreamError::new(match error {
        ConnectTcpError::AfterEnd => Cause::Protocol(error.to_string()),
        ConnectTcpError::NoEnd | ConnectTcpError::Capsule(_) => Cause::Incomplete,
    })
}

/// Puts bytes into capsules as they leave.
#[derive(Debug)]
pub struct Wrapping {
    stream: Outgoing,
    ended: bool,
}

impl Wrapping {
    pub(crate) fn new(stream: Outgoing) -> Self {
        Self {
            stream,
            ended: false,
        }
    }

    pub(crate) async fn data(&mut self, data: Bytes, end: bool) -> Result<(), StreamError> {
        self.ended |= end;
        // In one piece: frames as small as a header would use up the peer's budget for small
        // frames.
        self.stream.data(encode(&data, end), false).await
    }

    pub(crate) fn room(&self) -> usize {
        self.stream.room()
    }

    pub(crate) async fn roomy(&mut self) -> Result<usize, StreamError> {
        self.stream.roomy().await
    }

    /// Ends the bytes. The stream goes on, so that it can still be broken off if the other direction is.
    pub(crate) async fn finish(&mut self) -> Result<(), StreamError> {
        if !self.ended {
            self.data(Bytes::new(), true).await?;
        }
        self.stream.flush().await
    }

    pub(crate) async fn part(&mut self) -> Result<(), StreamError> {
        self.stream.finish(None).await
    }

    pub(crate) async fn flush(&mut self) -> Result<(), StreamError> {
        self.stream.flush().await
    }

    pub(crate) fn reset(&mut self, reset: Reset) {
        self.stream.reset(reset);
    }

    pub(crate) async fn broken(&mut self) -> Reset {
        self.stream.broken().await
    }
}
