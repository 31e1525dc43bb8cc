//! A connection through a proxy of SOCKS6 whose replies were not awaited: bytes for the target follow the request at once, and the replies are
//! read before the target's first byte (draft-olteanu-intarea-socks-6-11, 11: false starts).

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hermes_net::Stream;
use hermes_proto::socks::SocksReply;
use hermes_proto::socks6::{self, Socks6Error};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes of one read of replies.
const READ: usize = 512;

/// Such a connection.
pub(super) struct OptimisticStream {
    stream: Stream,
    /// Bytes that have come and were not read yet.
    buffer: Vec<u8>,
    awaited: Awaited,
}

/// The reply that comes next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Awaited {
    Authentication,
    Operation,
    Nothing,
}

impl OptimisticStream {
    /// After the request was written.
    pub(super) fn new(stream: Stream) -> Self {
        Self {
            stream,
            buffer: Vec::new(),
            awaited: Awaited::Authentication,
        }
    }

    /// Takes the replies that are there; whether all are.
    fn take(&mut self) -> io::Result<bool> {
        let broken = |error: Socks6Error| io::Error::other(error);
        if self.awaited == Awaited::Authentication {
            let Some((reply, length)) = socks6::decode_auth_reply(&self.buffer).map_err(broken)?
            else {
                return Ok(false);
            };
            if !reply.is_success {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            self.buffer.drain(..length);
            self.awaited = Awaited::Operation;
        }
        if self.awaited == Awaited::Operation {
            let decoded = socks6::decode_operation_reply(&self.buffer).map_err(broken)?;
            let Some((reply, length)) = decoded else {
                return Ok(false);
            };
            if reply.reply != SocksReply::Succeeded {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            self.buffer.drain(..length);
            self.awaited = Awaited::Nothing;
        }
        Ok(true)
    }
}

impl AsyncRead for OptimisticStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while !self.take()? {
            let mut room = [0; READ];
            let mut read = ReadBuf::new(&mut room);
            ready!(Pin::new(&mut self.stream).poll_read(cx, &mut read))?;
            if read.filled().is_empty() {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
            self.buffer.extend(read.filled());
        }
        if self.buffer.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, into);
        }
        let length = self.buffer.len().min(into.remaining());
        into.put_slice(&self.buffer[..length]);
        self.buffer.drain(..length);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for OptimisticStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
