//! A tunnel that is lent to HTTP/2: its lender has it back, or learns at least that it is no longer used.

use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_util::sync::DropGuard;

use crate::tunnel_io::TunnelIo;

/// How long the other side may take to end its half once this one has ended.
#[doc(alias = "bound")]
const FAREWELL: Duration = Duration::from_secs(2);

/// A tunnel, and its owner, who is told when it is no longer used.
pub(super) struct BorrowedTunnel<T: TunnelOwner> {
    /// Empty only while it is dropped.
    tunnel: Option<(TunnelIo, T)>,
}

/// Is told of the end of a loan.
pub(super) trait TunnelOwner: Unpin {
    /// Counts bytes read and written.
    fn moved(&self, read: u64, written: u64) {
        let _ = (read, written);
    }

    /// The tunnel comes back.
    fn returned(self, io: TunnelIo);
}

impl<T: TunnelOwner> BorrowedTunnel<T> {
    pub(super) fn new(io: TunnelIo, owner: T) -> Self {
        Self {
            tunnel: Some((io, owner)),
        }
    }

    fn moved(&self, read: usize, written: usize) {
        if let Some((_, owner)) = &self.tunnel
            && read + written > 0
        {
            owner.moved(read as u64, written as u64);
        }
    }

    fn io(&mut self) -> io::Result<Pin<&mut TunnelIo>> {
        self.tunnel
            .as_mut()
            .map(|(io, _)| Pin::new(io))
            .ok_or_else(|| io::ErrorKind::BrokenPipe.into())
    }
}

impl<T: TunnelOwner> Drop for BorrowedTunnel<T> {
    fn drop(&mut self) {
        if let Some((io, owner)) = self.tunnel.take() {
            owner.returned(io);
        }
    }
}

/// Counts the bytes of an attachment: from the node, and to it.
pub type Count = Box<dyn Fn(u64, u64) + Send>;

impl TunnelOwner for (DropGuard, Count) {
    fn moved(&self, read: u64, written: u64) {
        (self.1)(read, written);
    }

    fn returned(self, io: TunnelIo) {
        drop(io);
    }
}

impl TunnelOwner for oneshot::Sender<TunnelIo> {
    fn returned(self, io: TunnelIo) {
        // At the end of the process, no one waits for it.
        drop(self.send(io));
    }
}

/// The tunnel of an attachment when its exchanges are over.
pub struct Rest(oneshot::Receiver<TunnelIo>);

impl fmt::Debug for Rest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rest").finish_non_exhaustive()
    }
}

impl Rest {
    pub(super) fn lend(io: TunnelIo) -> (BorrowedTunnel<oneshot::Sender<TunnelIo>>, Self) {
        let (back, rest) = oneshot::channel();
        (BorrowedTunnel::new(io, back), Self(rest))
    }

    /// Ends the tunnel once it is not used any more, and waits until the other side has ended it
    /// too: only then have the last bytes surely arrived.
    pub async fn farewell(self) {
        let Ok(mut io) = self.0.await else { return };
        let ending = async {
            io.shutdown().await?;
            let mut unread = [0; 1024];
            while io.read(&mut unread).await? > 0 {}
            io::Result::Ok(())
        };

        // A tunnel that broke has ended, too.
        drop(timeout(FAREWELL, ending).await);
    }
}

impl<T: TunnelOwner> AsyncRead for BorrowedTunnel<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let read = self.io()?.poll_read(cx, into);
        self.moved(into.filled().len() - before, 0);
        read
    }
}

impl<T: TunnelOwner> AsyncWrite for BorrowedTunnel<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = self.io()?.poll_write(cx, data);
        if let Poll::Ready(Ok(count)) = written {
            self.moved(0, count);
        }
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = self.io()?.poll_write_vectored(cx, data);
        if let Poll::Ready(Ok(count)) = written {
            self.moved(0, count);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io()?.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io()?.poll_shutdown(cx)
    }
}
