//! One connection as a stream of bytes, over any transport.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Once};
use std::task::{Context, Poll};

use bytes::{Buf, Bytes, BytesMut};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_util::io::poll_read_buf;

use crate::peer::{PeerAddress, StreamInfo, canonical};
use crate::split::{ReadHalf, WriteHalf, halves, rejoined};
use crate::tls::KeptRecords;

/// Anything that reads and writes: a tunnel through another proxy, a pipe in a test.
pub trait ReadWrite: AsyncRead + AsyncWrite {}

impl<T: AsyncRead + AsyncWrite + ?Sized> ReadWrite for T {}

/// The transport of a stream.
pub enum Transport {
    /// TCP without TLS.
    Tcp(TcpStream),
    /// A Unix socket.
    Unix(UnixStream),
    /// TLS that we accepted, over any other stream.
    TlsServer(Box<tokio_rustls::server::TlsStream<Stream>>),
    /// TLS that we opened, over any other stream.
    TlsClient(Box<tokio_rustls::client::TlsStream<Stream>>),
    /// Something that is not a socket of ours.
    Other(Box<dyn ReadWrite + Send + Unpin>),
}

/// A connection: its transport, bytes that were read ahead, and the properties of its peer.
///
/// Dropping it closes it. [`Self::set_abort`] makes that close a TCP reset.
pub struct Stream {
    transport: Transport,
    unread: Bytes,
    info: Arc<StreamInfo>,
    /// Reads more than it is asked for, for a reader that asks for little at a time.
    ahead: bool,
    /// See [`Self::batch_records`].
    batches: bool,
    /// The records of TLS over it, if there is.
    records: Option<Box<KeptRecords>>,
}

/// Bytes that are read at once for TLS, which asks for one record at most; the rest waits for its
/// reader.
#[doc(alias = "bound")]
const AHEAD_BYTES: usize = 64 * 1024;

/// Bytes of TLS records that a link may have ready for its socket: they leave in one write instead
/// of rustls' several small ones.
#[doc(alias = "bound")]
const RECORDS: usize = 256 * 1024;

thread_local! {
    /// The buffer of the next such read. It is shared by the thread: a waiting connection has no
    /// buffer.
    static AHEAD: RefCell<BytesMut> = RefCell::new(BytesMut::new());
}

impl AsMut<Self> for Stream {
    fn as_mut(&mut self) -> &mut Self {
        self
    }
}

impl Stream {
    /// A stream over `transport`, described by `info`.
    #[must_use]
    pub fn new(transport: Transport, info: StreamInfo) -> Self {
        Self {
            transport,
            unread: Bytes::new(),
            info: Arc::new(info),
            ahead: false,
            batches: false,
            records: None,
        }
    }

    /// A TCP stream with the address of its peer.
    #[must_use]
    pub fn tcp(tcp: TcpStream, peer: SocketAddr) -> Self {
        let local = tcp.local_addr().ok();
        Self::between(tcp, local, peer)
    }

    /// A TCP stream with both addresses.
    pub(crate) fn between(tcp: TcpStream, local: Option<SocketAddr>, peer: SocketAddr) -> Self {
        let local = local.map(canonical);
        let peer = PeerAddress::Ip(canonical(peer));
        Self::new(
            Transport::Tcp(tcp),
            StreamInfo {
                peer,
                local,
                tls: None,
                origin: None,
            },
        )
    }

    /// A Unix stream; the peer's user is asked of the system.
    #[must_use]
    pub fn unix(unix: UnixStream) -> Self {
        let uid = crate::os::peer_uid(&unix);
        let info = StreamInfo {
            peer: PeerAddress::Unix { uid },
            local: None,
            tls: None,
            origin: None,
        };
        Self::new(Transport::Unix(unix), info)
    }

    /// A stream over something that is not a socket, e.g. a tunnel through another proxy.
    #[must_use]
    pub fn other(io: Box<dyn ReadWrite + Send + Unpin>, info: StreamInfo) -> Self {
        Self::new(Transport::Other(io), info)
    }

    /// The properties known since the stream was accepted or connected.
    #[must_use]
    pub fn info(&self) -> &Arc<StreamInfo> {
        &self.info
    }

    /// Reads ahead from now on, for TLS over it, which is handed to the kernel later where `is_left`.
    pub(crate) fn below_tls(mut self, is_left: bool) -> Self {
        self.ahead = true;
        self.records = Some(Box::new(KeptRecords::new(is_left)));
        self
    }

    /// TLS over it has delivered all whole records.
    pub(crate) fn delivered(&mut self) {
        if let Some(records) = &mut self.records {
            records.delivered();
        }
    }

    /// Whether the bytes read of it end between two records of TLS, and none of them wait here.
    pub(crate) fn is_between_records(&self) -> bool {
        let records = self.records.as_ref();
        self.unread.is_empty() && records.is_some_and(|records| records.is_between())
    }

    /// Lets TLS have many records ready at once, for a connection that many share and that carries bulk.
    pub fn batch_records(&mut self) {
        self.batches = true;
        self.limit_records(RECORDS);
    }

    /// Limits the unsent bytes in the system to about this many, instead of megabytes, and to twice
    /// as many in TLS with [`Self::batch_records`]: so frames for a slow link wait where the order
    /// can still be chosen. No effect without TCP, or if the system refuses.
    pub fn limit_unsent(&mut self, bytes: u32) {
        if self.batches {
            self.limit_records(2 * bytes as usize);
        }
        match &mut self.transport {
            Transport::Tcp(tcp) => drop(SockRef::from(&*tcp).set_tcp_notsent_lowat(bytes)),
            Transport::TlsServer(tls) => tls.get_mut().0.limit_unsent(bytes),
            Transport::TlsClient(tls) => tls.get_mut().0.limit_unsent(bytes),
            Transport::Unix(_) | Transport::Other(_) => {}
        }
    }

    fn limit_records(&mut self, bytes: usize) {
        let bytes = Some(bytes.min(RECORDS));
        match &mut self.transport {
            Transport::TlsServer(tls) => tls.get_mut().1.set_buffer_limit(bytes),
            Transport::TlsClient(tls) => tls.get_mut().1.set_buffer_limit(bytes),
            Transport::Tcp(_) | Transport::Unix(_) | Transport::Other(_) => {}
        }
    }

    /// Reads into the buffer of this thread, and keeps the bytes that do not fit `buf`: few bytes
    /// in a buffer of their own.
    fn poll_read_ahead(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut room = AHEAD.take();
        room.reserve(AHEAD_BYTES);
        let read = poll_read_buf(Pin::new(&mut self.transport), cx, &mut room);

        if room.len() <= buf.remaining() {
            buf.put_slice(&room);
            room.clear();
        } else {
            buf.put_slice(&room.split_to(buf.remaining()));
            // A few bytes must not keep all the room alive while they wait.
            let few = room.len() < AHEAD_BYTES / 8;
            self.unread = if few {
                Bytes::copy_from_slice(&room)
            } else {
                room.split().freeze()
            };

            room.clear();
        }

        AHEAD.set(room);
        read.map_ok(drop)
    }

    /// Bytes that were read ahead, or the next ones.
    fn poll_read_next(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if serve_unread(&mut self.unread, buf) {
            return Poll::Ready(Ok(()));
        }
        if self.ahead && buf.remaining() < AHEAD_BYTES {
            return self.poll_read_ahead(cx, buf);
        }
        Pin::new(&mut self.transport).poll_read(cx, buf)
    }

    /// Puts other addresses in the description: those that a PROXY header gives.
    pub fn readdress(&mut self, peer: SocketAddr, local: SocketAddr) {
        let info = Arc::make_mut(&mut self.info);
        info.peer = PeerAddress::Ip(canonical(peer));
        info.local = Some(canonical(local));
    }

    /// The transport.
    #[must_use]
    pub fn transport(&self) -> &Transport {
        &self.transport
    }

    /// Whether it is a connection of Multipath TCP whose peer takes part (RFC 8684), without TLS.
    #[must_use]
    pub fn is_multipath(&self) -> bool {
        matches!(&self.transport, Transport::Tcp(tcp) if crate::os::is_multipath(tcp))
    }

    /// Chooses the congestion control of a connection of TCP by its name in the kernel. Where the machine has none of this name, the
    /// connection keeps its own, and the log says so once.
    pub fn control_congestion(&self, name: &str) {
        static SAID: Once = Once::new();
        let Transport::Tcp(tcp) = &self.transport else {
            return;
        };
        if let Err(error) = crate::os::set_congestion(tcp, name) {
            SAID.call_once(|| {
                tracing::warn!(%error, "`congestion: {name}` has no effect on TCP: the system does not have it, or does not allow it (`modprobe tcp_{name}`, `sysctl net.ipv4.tcp_allowed_congestion_control`)");
            });
        }
    }

    /// Puts `bytes` in front of the next read: those that a protocol detector or parser has read
    /// too many.
    pub fn unread(&mut self, bytes: Bytes) {
        if self.unread.is_empty() {
            self.unread = bytes;
        } else if !bytes.is_empty() {
            // Rare, and short: what a detector puts back in front of what another did.
            self.unread = [bytes, std::mem::take(&mut self.unread)].concat().into();
        }
    }

    /// The transport, the bytes read ahead of it, and the description: for forwarding in the kernel.
    #[must_use]
    pub fn into_parts(self) -> (Transport, Bytes, Arc<StreamInfo>) {
        (self.transport, self.unread, self.info)
    }

    /// Makes the coming close a TCP reset; see [`Transport::set_abort`].
    pub fn set_abort(&self) {
        self.transport.set_abort();
    }

    /// Closes at once, with a TCP reset where there is TCP underneath.
    pub fn abort(self) {
        self.set_abort();
    }

    /// Ready when bytes, an end or an error can be read. Ready always, if only its reader can tell.
    ///
    /// Asks the socket: the runtime takes a new one for ready until a read has failed.
    pub fn poll_said(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.unread.is_empty()
            || !matches!(self.transport, Transport::Tcp(_) | Transport::Unix(_))
        {
            return Poll::Ready(());
        }

        // No room of the caller's: all that is read is kept for the next read.
        let mut none = [];
        let mut none = ReadBuf::new(&mut none);
        self.poll_read_ahead(cx, &mut none).map(drop)
    }

    /// The two directions as values of their own. TCP and Unix sockets split without a lock.
    ///
    /// Dropping one half sends nothing: a direction is closed by `shutdown` on the write half, and the
    /// connection when both halves are gone.
    #[must_use]
    pub fn split(self) -> (ReadHalf, WriteHalf) {
        halves(self)
    }

    /// Puts the halves of one stream of TCP or of a Unix socket together again. Others keep theirs.
    ///
    /// # Errors
    /// The halves, where they do not fit.
    pub fn rejoin(read: ReadHalf, write: WriteHalf) -> Result<Self, (ReadHalf, WriteHalf)> {
        rejoined(read, write)
    }

    /// A stream of its parts, the opposite of [`Self::into_parts`].
    pub(crate) fn of_parts(transport: Transport, unread: Bytes, info: Arc<StreamInfo>) -> Self {
        Self {
            transport,
            unread,
            info,
            ahead: false,
            batches: false,
            records: None,
        }
    }
}

impl Transport {
    /// Makes the coming close a TCP reset (RFC 9293 section 3.10.4: ABORT sends RST), through TLS too.
    /// Does nothing on a Unix socket, or on a transport that is not ours.
    pub fn set_abort(&self) {
        match self {
            // A socket that refuses the option is already gone.
            Self::Tcp(tcp) => drop(tcp.set_zero_linger()),
            Self::TlsServer(tls) => tls.get_ref().0.set_abort(),
            Self::TlsClient(tls) => tls.get_ref().0.set_abort(),
            Self::Unix(_) | Self::Other(_) => {}
        }
    }
}

impl From<TcpStream> for Stream {
    fn from(tcp: TcpStream) -> Self {
        // A connection that was reset meanwhile has no peer any more; its first read says so.
        let gone = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        let peer = tcp.peer_addr().unwrap_or(gone);
        Self::tcp(tcp, peer)
    }
}

impl From<UnixStream> for Stream {
    fn from(unix: UnixStream) -> Self {
        Self::unix(unix)
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream")
            .field("info", &self.info)
            .finish_non_exhaustive()
    }
}

/// Moves bytes that fit from `unread` into `buf`; false if there were none.
pub(crate) fn serve_unread(unread: &mut Bytes, buf: &mut ReadBuf<'_>) -> bool {
    if unread.is_empty() {
        return false;
    }
    let count = unread.len().min(buf.remaining());
    buf.put_slice(&unread[..count]);
    unread.advance(count);
    if unread.is_empty() {
        // Even an empty view keeps its buffer.
        *unread = Bytes::new();
    }
    true
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = self.poll_read_next(cx, buf);
        let Self { records, info, .. } = &mut *self;
        if let Some(records) = records {
            match read {
                Poll::Pending => records.wait(&info.peer)?,
                Poll::Ready(_) => records.pass(&buf.filled()[before..]),
            }
        }
        read
    }
}

/// Writing to this type is writing to the transport in its field `transport`.
macro_rules! write_to_transport {
    ($type:ty) => {
        impl AsyncWrite for $type {
            fn poll_write(
                mut self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                data: &[u8],
            ) -> Poll<io::Result<usize>> {
                Pin::new(&mut self.transport).poll_write(cx, data)
            }

            fn poll_write_vectored(
                mut self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                data: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                Pin::new(&mut self.transport).poll_write_vectored(cx, data)
            }

            fn is_write_vectored(&self) -> bool {
                self.transport.is_write_vectored()
            }

            fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                Pin::new(&mut self.transport).poll_flush(cx)
            }

            fn poll_shutdown(
                mut self: Pin<&mut Self>,
                cx: &mut Context<'_>,
            ) -> Poll<io::Result<()>> {
                Pin::new(&mut self.transport).poll_shutdown(cx)
            }
        }
    };
}
pub(crate) use write_to_transport;

write_to_transport!(Stream);

/// Calls one method on whichever transport it is.
macro_rules! each {
    ($transport:expr, $io:ident => $call:expr) => {
        match $transport {
            Transport::Tcp($io) => $call,
            Transport::Unix($io) => $call,
            Transport::TlsServer($io) => $call,
            Transport::TlsClient($io) => $call,
            Transport::Other($io) => $call,
        }
    };
}

impl AsyncRead for Transport {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let transport = self.get_mut();
        let read = each!(&mut *transport, io => Pin::new(io).poll_read(cx, buf));
        if buf.filled().len() > before {
            match transport {
                Self::TlsServer(tls) => tls.get_mut().0.delivered(),
                Self::TlsClient(tls) => tls.get_mut().0.delivered(),
                Self::Tcp(_) | Self::Unix(_) | Self::Other(_) => {}
            }
        }
        read
    }
}

impl AsyncWrite for Transport {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        each!(self.get_mut(), io => Pin::new(io).poll_write(cx, data))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        each!(self.get_mut(), io => Pin::new(io).poll_write_vectored(cx, data))
    }

    fn is_write_vectored(&self) -> bool {
        each!(self, io => io.is_write_vectored())
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self.get_mut(), io => Pin::new(io).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self.get_mut(), io => Pin::new(io).poll_shutdown(cx))
    }
}
