//! The two directions of a connection whose TLS the kernel carries: content, and control records.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::io::Errno;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, tcp};

use super::kernel::RECORD;
use crate::os;

/// The direction from the peer to us.
pub(crate) struct KernelReadHalf {
    tcp: tcp::OwnedReadHalf,
    /// The peer has said that nothing follows.
    ended: bool,
}

/// The direction from us to the peer.
pub(crate) struct KernelWriteHalf {
    tcp: tcp::OwnedWriteHalf,
    /// Records that its key may still make.
    left: u64,
    /// The peer was told that nothing follows.
    ended: bool,
}

impl KernelReadHalf {
    pub(crate) fn new(tcp: tcp::OwnedReadHalf) -> Self {
        Self { tcp, ended: false }
    }

    pub(crate) fn tcp(&self) -> &TcpStream {
        self.tcp.as_ref()
    }

    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        while !self.ended {
            match ready!(Pin::new(&mut self.tcp).poll_read(cx, buf)) {
                // RFC 8446, 6.1: an end of the connection alone may be someone else's.
                Ok(()) if buf.filled().len() == before && buf.remaining() > 0 => {
                    return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
                }
                Err(error) if Errno::from_io_error(&error) == Some(Errno::IO) => {
                    self.ended = self.control()?;
                }
                read => return Poll::Ready(read),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Takes the record that no plain read is given; whether it is the end.
    fn control(&self) -> io::Result<bool> {
        match os::take_tls_control(self.tcp()) {
            Ok(record) => record.is_end(),
            // The read failed for another reason than such a record.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(Errno::IO.into()),
            Err(error) => Err(error),
        }
    }
}

impl KernelWriteHalf {
    /// Its key may make `left` records.
    pub(crate) fn new(tcp: tcp::OwnedWriteHalf, left: u64) -> Self {
        Self {
            tcp,
            left,
            ended: false,
        }
    }

    pub(crate) fn tcp(&self) -> &TcpStream {
        self.tcp.as_ref()
    }

    /// Bytes that its key is good for at least.
    pub(crate) fn room(&self) -> u64 {
        self.left.saturating_mul(RECORD)
    }

    /// Counts bytes that were written at once.
    pub(crate) fn passed(&mut self, bytes: u64) {
        self.left = self.left.saturating_sub(bytes.div_ceil(RECORD));
    }

    /// Dropped, it sends nothing.
    pub(crate) fn forget(self) {
        self.tcp.forget();
    }

    fn written(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = &written {
            self.passed(*bytes as u64);
        }
        written
    }

    fn used_up() -> io::Error {
        io::Error::other(
            "a TLS key has made as many records as it may, and is not changed where the kernel carries TLS",
        )
    }
}

impl AsyncWrite for KernelWriteHalf {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.left == 0 {
            return Poll::Ready(Err(Self::used_up()));
        }
        let written = Pin::new(&mut self.tcp).poll_write(cx, data);
        self.written(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.left == 0 {
            return Poll::Ready(Err(Self::used_up()));
        }
        let written = Pin::new(&mut self.tcp).poll_write_vectored(cx, data);
        self.written(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.ended {
            let tcp = self.tcp();
            ready!(tcp.poll_write_ready(cx))?;
            match tcp.try_io(Interest::WRITABLE, || os::send_close_notify(tcp)) {
                Ok(()) => self.ended = true,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}
