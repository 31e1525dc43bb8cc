//! A TLS alert that ends a connection after its handshake.
//!
//! With TLS 1.3 a client is done before the server has judged its certificate, so the refusal comes
//! with the first read. The alert is remembered for all exchanges that are opened later.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use hermes_net::Stream;
use hermes_net::tls::{TlsError, TlsErrorKind};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The alert that ended a connection, if one did.
#[derive(Debug, Clone, Default)]
pub(crate) struct Alert(Arc<OnceLock<(u8, String)>>);

impl Alert {
    /// Its number (RFC 8446, section 6) and the peer's reason.
    pub(crate) fn said(&self) -> Option<(u8, String)> {
        self.0.get().cloned()
    }

    fn note(&self, error: &io::Error) {
        let error = TlsError::from_io(error);
        if let TlsErrorKind::Alert { id } = error.kind {
            let _ = self.0.set((id, error.detail));
        }
    }
}

/// A stream that remembers the alert which ended it.
pub(crate) struct AlertedStream {
    stream: Stream,
    alert: Alert,
}

impl AsMut<Stream> for AlertedStream {
    fn as_mut(&mut self) -> &mut Stream {
        &mut self.stream
    }
}

impl AlertedStream {
    pub(crate) fn new(stream: Stream) -> (Self, Alert) {
        let alert = Alert::default();
        (
            Self {
                stream,
                alert: alert.clone(),
            },
            alert,
        )
    }

    /// A peer that closed with unread input resets the connection, and a write may learn of that before the alert was read; it
    /// still lies there.
    fn written<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let Poll::Ready(Err(error)) = &written else {
            return written;
        };
        if !matches!(
            error.kind(),
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
        ) {
            return written;
        }

        let mut room = [0; 256];
        let read = Pin::new(&mut *self).poll_read(cx, &mut ReadBuf::new(&mut room));

        // The runtime may not know yet that there is something to read. A connection that was reset always has: its end.
        if read.is_pending() {
            Poll::Pending
        } else {
            written
        }
    }
}

impl AsyncRead for AlertedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, into);
        if let Poll::Ready(Err(error)) = &read {
            self.alert.note(error);
        }
        read
    }
}

impl AsyncWrite for AlertedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, data);
        self.written(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, data);
        self.written(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.written(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
