//! A tunnel's two halves as one stream of bytes.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use hermes_http::{Cause, Frame, Incoming, Outgoing, StreamError};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::endpoint::Active;

/// Bytes taken over by one write: this bounds the copied bytes before the tunnel has room.
#[doc(alias = "bound")]
const PIECE: usize = 64 * 1024;

/// Reads from an [`Incoming`], writes to an [`Outgoing`].
///
/// A write is taken over as a whole and sent while the next one is awaited, so an error shows one call later. Shutting down
/// ends the sending half only. Dropped before that, the sending half resets the tunnel.
pub(crate) struct TunnelIo {
    incoming: Incoming,
    unread: Bytes,
    sending: Sending,
    _active: Active,
}

type Sent = (Outgoing, Result<(), StreamError>);

enum Sending {
    Idle(Outgoing),
    Busy(Pin<Box<dyn Future<Output = Sent> + Send>>),
    Failed(io::ErrorKind),
}

impl TunnelIo {
    pub(crate) fn new(incoming: Incoming, outgoing: Outgoing) -> Self {
        Self {
            incoming,
            unread: Bytes::new(),
            sending: Sending::Idle(outgoing),
            _active: Active::default(),
        }
    }

    /// Counts the tunnel as long as it is there.
    pub(crate) fn holding(self, active: Active) -> Self {
        Self {
            _active: active,
            ..self
        }
    }

    /// Waits until the bytes taken over are sent.
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let sent = match &mut self.sending {
            Sending::Idle(_) => return Poll::Ready(Ok(())),
            Sending::Failed(kind) => return Poll::Ready(Err((*kind).into())),
            Sending::Busy(future) => ready!(future.as_mut().poll(cx)),
        };

        let (outgoing, result) = sent;
        match result {
            Ok(()) => {
                self.sending = Sending::Idle(outgoing);
                Poll::Ready(Ok(()))
            }
            Err(error) => {
                let error = to_io(error);
                self.sending = Sending::Failed(error.kind());
                Poll::Ready(Err(error))
            }
        }
    }

    /// Begins to send; the next polls drive the future of `begin`.
    fn start<F>(&mut self, begin: impl FnOnce(Outgoing) -> F)
    where
        F: Future<Output = Sent> + Send + 'static,
    {
        let idle = std::mem::replace(
            &mut self.sending,
            Sending::Failed(io::ErrorKind::BrokenPipe),
        );
        self.sending = match idle {
            Sending::Idle(outgoing) => Sending::Busy(Box::pin(begin(outgoing))),
            other => other,
        };
    }
}

fn to_io(error: StreamError) -> io::Error {
    let kind = match &error.cause {
        Cause::Reset(_) | Cause::Closing | Cause::Silent(_) | Cause::Memory(_) => {
            io::ErrorKind::ConnectionReset
        }
        Cause::Incomplete => io::ErrorKind::UnexpectedEof,
        Cause::Io(inner) => inner.kind(),
        Cause::Slow => io::ErrorKind::TimedOut,
        Cause::Protocol(_) | Cause::Invalid(_) | Cause::Unsupported(_) | Cause::Alert { .. } => {
            io::ErrorKind::InvalidData
        }
    };
    io::Error::new(kind, error)
}

impl AsyncRead for TunnelIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.unread.is_empty() {
            match ready!(self.incoming.poll_frame(cx)) {
                Some(Ok(Frame::Data(data))) => self.unread = data,
                // A tunnel has no trailers; no bytes follow them in any case.
                Some(Ok(Frame::Trailers(_))) | None => return Poll::Ready(Ok(())),
                Some(Err(error)) => return Poll::Ready(Err(to_io(error))),
            }
        }

        let count = self.unread.len().min(buf.remaining());
        buf.put_slice(&self.unread[..count]);
        self.unread.advance(count);

        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for TunnelIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_idle(cx))?;
        let piece = Bytes::copy_from_slice(&data[..data.len().min(PIECE)]);
        let count = piece.len();

        if count == 0 {
            return Poll::Ready(Ok(0));
        }
        self.start(|mut outgoing| async move {
            let result = outgoing.data(piece, false).await;
            (outgoing, result)
        });

        // The bytes are ours now; whether they are sent already makes no difference to the caller.
        match self.poll_idle(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(Ok(count)),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_idle(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_idle(cx))?;
        self.start(|mut outgoing| async move {
            let result = outgoing.finish(None).await;
            (outgoing, result)
        });
        self.poll_idle(cx)
    }
}

#[cfg(test)]
mod tests {
    use hermes_http::{Reset, h1};
    use hermes_net::Stream;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    /// A tunnel over a connection of its own, and the other end of that.
    async fn tunnel() -> (TunnelIo, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (near, far) = tokio::join!(
            TcpStream::connect(listener.local_addr().unwrap()),
            listener.accept()
        );
        let (read, write) = Stream::from(near.unwrap()).split();
        let incoming = Incoming::H1(h1::BodyReceiver::bytes(read));
        (
            TunnelIo::new(incoming, Outgoing::H1(h1::BodySender::bytes(write))),
            far.unwrap().0,
        )
    }

    #[tokio::test]
    async fn what_a_read_leaves_is_read_next() {
        let (mut io, mut far) = tunnel().await;
        far.write_all(b"hello").await.unwrap();
        let mut piece = [0; 2];
        for expected in [b"he", b"ll"] {
            io.read_exact(&mut piece).await.unwrap();
            assert_eq!(&piece, expected);
        }
        far.shutdown().await.unwrap();
        let mut rest = Vec::new();
        io.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"o");
    }

    #[tokio::test]
    async fn shutdown_ends_one_direction_only() {
        let (mut io, mut far) = tunnel().await;
        io.write_all(b"question").await.unwrap();
        io.shutdown().await.unwrap();
        io.shutdown().await.unwrap();
        let mut got = String::new();
        far.read_to_string(&mut got).await.unwrap();
        far.write_all(b"answer").await.unwrap();
        drop(far);
        let mut answer = String::new();
        io.read_to_string(&mut answer).await.unwrap();
        assert_eq!((got.as_str(), answer.as_str()), ("question", "answer"));
    }

    #[tokio::test]
    async fn large_writes_arrive_whole_while_the_reader_is_slow() {
        let (mut io, mut far) = tunnel().await;
        let sent: Vec<u8> = (0..5_000_000_u32).map(|number| number as u8).collect();
        let writer = async {
            io.write_all(&sent).await.unwrap();
            io.shutdown().await.unwrap();
        };
        let mut got = Vec::new();
        let (read, ()) = tokio::join!(far.read_to_end(&mut got), writer);
        read.unwrap();
        assert!(got == sent);
    }

    #[tokio::test]
    async fn a_reset_is_an_error_and_not_an_end() {
        let (mut io, far) = tunnel().await;
        far.set_zero_linger().unwrap();
        drop(far);
        assert_eq!(
            io.read_u8().await.unwrap_err().kind(),
            io::ErrorKind::ConnectionReset
        );
        while io.write_all(b"x").await.is_ok() {
            tokio::task::yield_now().await;
        }
        assert!(io.write_all(b"x").await.is_err(), "an error stays");
    }

    #[tokio::test]
    async fn a_tunnel_that_is_dropped_is_reset() {
        let (io, mut far) = tunnel().await;
        drop(io);
        assert_eq!(
            far.read_u8().await.unwrap_err().kind(),
            io::ErrorKind::ConnectionReset
        );
    }

    #[test]
    fn errors_keep_their_meaning() {
        let kind = |cause| to_io(StreamError::new(cause)).kind();
        assert_eq!(
            kind(Cause::Reset(Reset::Cancel)),
            io::ErrorKind::ConnectionReset
        );
        assert_eq!(kind(Cause::Incomplete), io::ErrorKind::UnexpectedEof);
        assert_eq!(
            kind(Cause::Protocol(String::new())),
            io::ErrorKind::InvalidData
        );
    }
}
