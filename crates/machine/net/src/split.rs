//! The two directions of a stream, each a value of its own.

use std::io::{self, IoSlice};
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, Interest, ReadBuf};
use tokio::net::{TcpStream, tcp, unix};

use crate::peer::StreamInfo;
use crate::stream::{Stream, Transport, serve_unread, write_to_transport};
use crate::tls::{KernelReadHalf, KernelWriteHalf, leave_to_kernel};

/// Bytes of a new client's first message that are looked at before the runtime hears of it: most
/// protocols need less.
#[doc(alias = "bound")]
const LOOK: usize = 4096;

/// The direction from the peer to us.
pub struct ReadHalf {
    io: ReadIo,
    /// Read before the socket. Boxed, because a waiting connection has none.
    ahead: Option<Box<ReadAhead>>,
    info: Arc<StreamInfo>,
    abort: Arc<AtomicBool>,
}

/// Outcome of reads made before anyone asked for them.
enum ReadAhead {
    /// Never empty.
    Bytes(Bytes),
    /// The error that [`ReadHalf::look`] met, for the next read.
    Failed(io::Error),
}

impl ReadAhead {
    fn of(unread: Bytes) -> Option<Box<Self>> {
        (!unread.is_empty()).then(|| Box::new(Self::Bytes(unread)))
    }
}

/// The direction from us to the peer.
///
/// Dropping it sends nothing; [`Self::shutdown`] ends the direction.
pub struct WriteHalf {
    io: WriteIo,
    info: Arc<StreamInfo>,
    abort: Arc<AtomicBool>,
}

enum ReadIo {
    Tcp(tcp::OwnedReadHalf),
    /// TCP under TLS of the kernel.
    Kernel(KernelReadHalf),
    Unix(unix::OwnedReadHalf),
    Shared(tokio::io::ReadHalf<Abortable>),
    /// Only while the halves are handed to the kernel.
    Gone,
}

enum WriteIo {
    Tcp(tcp::OwnedWriteHalf),
    /// TCP under TLS of the kernel.
    Kernel(KernelWriteHalf),
    Unix(unix::OwnedWriteHalf),
    Shared(tokio::io::WriteHalf<Abortable>),
    /// Only while the half is being dropped, or handed to the kernel.
    Gone,
}

/// A transport that both halves share, and that is reset on its drop when one of them asked for that.
struct Abortable {
    transport: Transport,
    abort: Arc<AtomicBool>,
    /// A read has failed, and is not repeated: rustls would give the same error, but take bytes off the socket before.
    has_failed: bool,
}

impl Drop for Abortable {
    fn drop(&mut self) {
        if self.abort.load(Ordering::Relaxed) {
            self.transport.set_abort();
        }
    }
}

/// Splits `stream`; see [`Stream::split`].
pub(crate) fn halves(stream: Stream) -> (ReadHalf, WriteHalf) {
    let (transport, unread, info) = stream.into_parts();
    let abort = Arc::new(AtomicBool::new(false));
    let (read, write) = match transport {
        Transport::Tcp(tcp) => {
            let (read, write) = tcp.into_split();
            (ReadIo::Tcp(read), WriteIo::Tcp(write))
        }
        Transport::Unix(unix) => {
            let (read, write) = unix.into_split();
            (ReadIo::Unix(read), WriteIo::Unix(write))
        }
        transport => {
            let (read, write) = tokio::io::split(Abortable {
                transport,
                abort: abort.clone(),
                has_failed: false,
            });
            (ReadIo::Shared(read), WriteIo::Shared(write))
        }
    };

    let read = ReadHalf {
        io: read,
        ahead: ReadAhead::of(unread),
        info: info.clone(),
        abort: abort.clone(),
    };

    (
        read,
        WriteHalf {
            io: write,
            info,
            abort,
        },
    )
}

/// Puts the halves together again; see [`Stream::rejoin`].
pub(crate) fn rejoined(
    mut read: ReadHalf,
    mut write: WriteHalf,
) -> Result<Stream, (ReadHalf, WriteHalf)> {
    // A whole stream has no place for the failed read, which its reader must see.
    if matches!(read.ahead.as_deref(), Some(ReadAhead::Failed(_))) {
        return Err((read, write));
    }

    let transport = match (read.io, mem::replace(&mut write.io, WriteIo::Gone)) {
        (ReadIo::Tcp(from), WriteIo::Tcp(to)) => match from.reunite(to) {
            Ok(tcp) => Ok(Transport::Tcp(tcp)),
            Err(tcp::ReuniteError(from, to)) => Err((ReadIo::Tcp(from), WriteIo::Tcp(to))),
        },
        (ReadIo::Unix(from), WriteIo::Unix(to)) => match from.reunite(to) {
            Ok(unix) => Ok(Transport::Unix(unix)),
            Err(unix::ReuniteError(from, to)) => Err((ReadIo::Unix(from), WriteIo::Unix(to))),
        },
        others => Err(others),
    };

    match transport {
        Ok(transport) => {
            let unread = match read.ahead.map(|ahead| *ahead) {
                Some(ReadAhead::Bytes(unread)) => unread,
                Some(ReadAhead::Failed(_)) | None => Bytes::new(),
            };
            Ok(Stream::of_parts(transport, unread, read.info))
        }
        Err((from, to)) => {
            read.io = from;
            write.io = to;
            Err((read, write))
        }
    }
}

/// Has the kernel go on with the TLS of these two halves, if it can and no bytes are in between:
/// then they can be used with [`crate::splice()`]. Otherwise they do not change.
///
/// # Errors
/// The hand-over failed half-way: the connection is of no more use.
pub fn leave_tls_to_kernel(read: &mut ReadHalf, write: &mut WriteHalf) -> io::Result<()> {
    // Looked at before anything is moved: halves of two streams must stay as they are.
    let is_whole = match (&read.io, &write.io) {
        (ReadIo::Shared(from), WriteIo::Shared(to)) => from.is_pair_of(to),
        _ => false,
    };
    if !is_whole {
        return Ok(());
    }

    let from = mem::replace(&mut read.io, ReadIo::Gone);
    let to = mem::replace(&mut write.io, WriteIo::Gone);
    let (ReadIo::Shared(from), WriteIo::Shared(to)) = (from, to) else {
        return Ok(());
    };
    let mut whole = from.unsplit(to);
    // `Abortable` has a destructor, so that its transport can only be replaced, not moved out.
    let nothing = Transport::Other(Box::new(tokio::io::empty()));
    match leave_to_kernel(mem::replace(&mut whole.transport, nothing)) {
        Ok(left) => {
            let (tcp, records) = left?;
            let (from, to) = tcp.into_split();
            read.io = ReadIo::Kernel(KernelReadHalf::new(from));
            write.io = WriteIo::Kernel(KernelWriteHalf::new(to, records));
        }
        Err(transport) => {
            whole.transport = transport;
            let (from, to) = tokio::io::split(whole);
            read.io = ReadIo::Shared(from);
            write.io = WriteIo::Shared(to);
        }
    }
    Ok(())
}

impl ReadHalf {
    /// The properties known since the stream was accepted or connected.
    #[must_use]
    pub fn info(&self) -> &Arc<StreamInfo> {
        &self.info
    }

    /// Whether it is a socket by itself, without TLS.
    #[must_use]
    pub fn is_socket(&self) -> bool {
        matches!(self.io, ReadIo::Tcp(_) | ReadIo::Unix(_))
    }

    /// The socket, if it is plain TCP, or under TLS of the kernel, and nothing was read ahead, for [`crate::splice()`].
    #[must_use]
    pub fn tcp(&self) -> Option<&TcpStream> {
        match &self.io {
            ReadIo::Tcp(half) if self.ahead.is_none() => Some(half.as_ref()),
            ReadIo::Kernel(half) if self.ahead.is_none() => Some(half.tcp()),
            _ => None,
        }
    }

    /// Reads available bytes of a plain TCP socket, up to 4 KiB, for the next read. The runtime
    /// learns of the first bytes of a connection only when it is idle; often they are there before.
    pub fn look(&mut self) {
        let ReadIo::Tcp(half) = &self.io else { return };
        if self.ahead.is_some() {
            return;
        }

        // On the stack: most looks find nothing.
        let mut room = [0; LOOK];
        match rustix::net::recv(half.as_ref(), &mut room, RecvFlags::DONTWAIT) {
            // An end is told again to the next reader; an error is not.
            Ok((_, read)) => self.ahead = ReadAhead::of(Bytes::copy_from_slice(&room[..read])),
            Err(Errno::WOULDBLOCK | Errno::INTR) => {}
            Err(error) => self.ahead = Some(Box::new(ReadAhead::Failed(error.into()))),
        }
    }

    /// Serves a read from bytes that came before it, and keeps the rest of them.
    fn read_ahead(&mut self, ahead: ReadAhead, buf: &mut ReadBuf<'_>) -> io::Result<()> {
        match ahead {
            ReadAhead::Bytes(mut unread) => {
                serve_unread(&mut unread, buf);
                self.ahead = ReadAhead::of(unread);
                Ok(())
            }
            ReadAhead::Failed(error) => Err(error),
        }
    }

    /// Makes the close that follows when both halves are gone a TCP reset; see [`Transport::set_abort`].
    pub fn set_abort(&self) {
        self.abort.store(true, Ordering::Relaxed);
        let tcp = match &self.io {
            ReadIo::Tcp(half) => half.as_ref(),
            ReadIo::Kernel(half) => half.tcp(),
            ReadIo::Unix(_) | ReadIo::Shared(_) | ReadIo::Gone => return,
        };
        // A socket that refuses the option is already gone.
        drop(tcp.set_zero_linger());
    }

    /// Gives this direction up and marks the connection to be reset.
    pub fn abort(self) {
        self.set_abort();
    }
}

impl WriteHalf {
    /// The properties known since the stream was accepted or connected.
    #[must_use]
    pub fn info(&self) -> &Arc<StreamInfo> {
        &self.info
    }

    /// Ends this direction: sends buffered bytes, then `close_notify` (RFC 8446 section 6.1) on
    /// TLS, then FIN. The other direction goes on.
    ///
    /// # Errors
    /// The transport's error; the connection is gone then.
    pub async fn shutdown(&mut self) -> io::Result<()> {
        AsyncWriteExt::shutdown(self).await
    }

    /// Resolves when the peer resets the connection, also while nothing is read or written. Only TCP without TLS tells;
    /// elsewhere it never resolves.
    pub async fn broken(&mut self) {
        if let Some(tcp) = self.tcp() {
            // A runtime that is shutting down has no more to say either.
            let _ = tcp.ready(Interest::ERROR).await;
        } else {
            std::future::pending::<()>().await;
        }
    }

    /// The socket, where it is plain TCP, or under TLS of the kernel, for [`crate::splice()`].
    #[must_use]
    pub fn tcp(&self) -> Option<&TcpStream> {
        match &self.io {
            WriteIo::Tcp(half) => Some(half.as_ref()),
            WriteIo::Kernel(half) => Some(half.tcp()),
            _ => None,
        }
    }

    /// Bytes that may be written past this half, to its socket.
    #[must_use]
    pub fn room(&self) -> u64 {
        match &self.io {
            WriteIo::Kernel(half) => half.room(),
            _ => u64::MAX,
        }
    }

    /// Counts bytes that were written past this half.
    pub fn passed(&mut self, bytes: u64) {
        if let WriteIo::Kernel(half) = &mut self.io {
            half.passed(bytes);
        }
    }

    /// Makes the close that follows when both halves are gone a TCP reset; see [`Transport::set_abort`].
    pub fn set_abort(&self) {
        self.abort.store(true, Ordering::Relaxed);
        if let Some(tcp) = self.tcp() {
            // A socket that refuses the option is already gone.
            drop(tcp.set_zero_linger());
        }
    }

    /// Gives this direction up and marks the connection to be reset.
    pub fn abort(self) {
        self.set_abort();
    }
}

impl Drop for WriteHalf {
    /// A half that is dropped must not look like an orderly end, so the socket's own FIN is withheld.
    fn drop(&mut self) {
        match mem::replace(&mut self.io, WriteIo::Gone) {
            // tokio's half would send a FIN when it is dropped.
            WriteIo::Tcp(half) => half.forget(),
            WriteIo::Kernel(half) => half.forget(),
            WriteIo::Unix(half) => half.forget(),
            WriteIo::Shared(_) | WriteIo::Gone => {}
        }
    }
}

impl AsyncRead for ReadHalf {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(ahead) = self.ahead.take() {
            return Poll::Ready(self.read_ahead(*ahead, buf));
        }

        match &mut self.io {
            ReadIo::Tcp(io) => Pin::new(io).poll_read(cx, buf),
            ReadIo::Kernel(io) => io.poll_read(cx, buf),
            ReadIo::Unix(io) => Pin::new(io).poll_read(cx, buf),
            ReadIo::Shared(io) => Pin::new(io).poll_read(cx, buf),
            ReadIo::Gone => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }
}

/// Calls one method on whichever half it is.
macro_rules! each {
    ($half:expr, $io:ident => $call:expr) => {
        match $half {
            WriteIo::Tcp($io) => $call,
            WriteIo::Kernel($io) => $call,
            WriteIo::Unix($io) => $call,
            WriteIo::Shared($io) => $call,
            WriteIo::Gone => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    };
}

impl AsyncWrite for WriteHalf {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        each!(&mut self.io, io => Pin::new(io).poll_write(cx, data))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        each!(&mut self.io, io => Pin::new(io).poll_write_vectored(cx, data))
    }

    fn is_write_vectored(&self) -> bool {
        match &self.io {
            WriteIo::Tcp(io) => io.is_write_vectored(),
            WriteIo::Kernel(io) => io.is_write_vectored(),
            WriteIo::Unix(io) => io.is_write_vectored(),
            WriteIo::Shared(io) => io.is_write_vectored(),
            WriteIo::Gone => false,
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(&mut self.io, io => Pin::new(io).poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(&mut self.io, io => Pin::new(io).poll_shutdown(cx))
    }
}

impl AsyncRead for Abortable {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.has_failed {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        }

        let read = Pin::new(&mut self.transport).poll_read(cx, buf);
        self.has_failed = matches!(read, Poll::Ready(Err(_)));
        read
    }
}

write_to_transport!(Abortable);
