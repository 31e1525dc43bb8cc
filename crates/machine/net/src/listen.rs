//! Listening sockets that several workers can share.

use std::fs::{self, Permissions};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, TcpKeepalive, Type};
use tokio::net::{TcpListener, TcpStream, UnixListener};

use crate::descriptors::{Shortage, claim, is_kept_back, noted};
use crate::host_capture::has_foreign_mark;
use crate::os;
use crate::own_mark::marked;
use crate::stream::Stream;

/// Connections that wait to be accepted: a burst of clients; the kernel may lower it
/// (`net.core.somaxconn`).
#[doc(alias = "bound")]
pub(crate) const BACKLOG: i32 = 4096;

/// Bytes of a UDP socket's buffer, each way, where the system allows that much: about 40 ms at 800
/// Mbit/s.
#[doc(alias = "bound")]
pub(crate) const UDP_BUFFER: usize = 4 << 20;

/// A silent TCP connection is probed after this time, because TCP tunnels have no time-out.
#[doc(alias = "bound")]
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);

/// Time between two such probes.
#[doc(alias = "bound")]
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// Connections of one socket that were opened with bytes and are not confirmed yet; beyond them it goes as ever.
#[doc(alias = "bound")]
const FAST_OPEN_WAITING: i32 = 256;

/// Whether a connection begins with these options of its listener's socket: that spares four system calls for each.
const INHERITED: bool = cfg!(target_os = "linux");

/// First pause when no descriptor is left; doubled up to [`LONGEST_PAUSE`].
#[doc(alias = "bound")]
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// Longest pause when no descriptor is left: clients wait no longer than that once there is one.
#[doc(alias = "bound")]
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Opens a TCP listener: shared address and port (`SO_REUSEADDR`, `SO_REUSEPORT`), non-blocking.
/// `[::]` listens for IPv4 as well; any other IPv6 address for IPv6 alone.
///
/// # Errors
/// When the address is taken by a socket that does not share it, or may not be used.
pub fn tcp(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    bound_stream(ip_socket(address, Type::STREAM, Protocol::TCP)?, address)
}

/// As [`tcp`], for clients of Multipath TCP (RFC 8684) as well; where the system has none, for those of TCP alone.
///
/// # Errors
/// As there.
pub fn multipath(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    match ip_socket(address, Type::STREAM, Protocol::MPTCP) {
        Ok(socket) => bound_stream(socket, address),
        Err(error) => {
            tracing::warn!(%address, %error, "`multipath` has no effect: the system cannot do it");
            tcp(address)
        }
    }
}

fn bound_stream(socket: Socket, address: SocketAddr) -> io::Result<std::net::TcpListener> {
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Opens a UDP socket: shared port (`SO_REUSEPORT`), non-blocking, large buffers where allowed.
/// `[::]` receives IPv4 as well.
///
/// # Errors
/// As for [`tcp`].
pub fn udp(address: SocketAddr) -> io::Result<std::net::UdpSocket> {
    let socket = ip_socket(address, Type::DGRAM, Protocol::UDP)?;
    enlarge_buffers(&SockRef::from(&socket));
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// The content of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carries {
    /// TCP connections.
    Tcp,
    /// UDP datagrams.
    Udp,
}

/// Checks that no one has the port yet. Shared ports need this: a second process that shared them would silently take a part
/// of the traffic.
///
/// # Errors
/// When the address is taken, or may not be used.
pub fn check_free(address: SocketAddr, carries: Carries) -> io::Result<()> {
    let (kind, protocol) = match carries {
        Carries::Tcp => (Type::STREAM, Protocol::TCP),
        Carries::Udp => (Type::DGRAM, Protocol::UDP),
    };

    let socket = family_socket(address, kind, protocol)?;
    // Connections of an earlier process that are still closing do not count.
    socket.set_reuse_address(carries == Carries::Tcp)?;
    socket.bind(&address.into())
}

fn ip_socket(address: SocketAddr, kind: Type, protocol: Protocol) -> io::Result<Socket> {
    let socket = family_socket(address, kind, protocol)?;
    #[cfg(not(any(target_os = "solaris", target_os = "illumos")))]
    socket.set_reuse_port(true)?;
    Ok(socket)
}

fn family_socket(address: SocketAddr, kind: Type, protocol: Protocol) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))?;
    let socket = marked(socket)?;
    socket.set_nonblocking(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    Ok(socket)
}

/// Asks for [`UDP_BUFFER`]; the system silently grants less.
pub(crate) fn enlarge_buffers(socket: &SockRef<'_>) {
    enlarge_receive_buffer(socket);
    enlarge_send_buffer(socket);
}

/// As [`enlarge_buffers`], for receiving.
pub(crate) fn enlarge_receive_buffer(socket: &SockRef<'_>) {
    drop(socket.set_recv_buffer_size(UDP_BUFFER));
}

/// As [`enlarge_buffers`], for sending.
pub(crate) fn enlarge_send_buffer(socket: &SockRef<'_>) {
    drop(socket.set_send_buffer_size(UDP_BUFFER));
}

/// Opens a Unix listener with a file of `mode` (`0o600`: this user only) from the start. A stale
/// socket file is removed first.
///
/// # Errors
/// [`io::ErrorKind::AddrInUse`] when a process listens there, [`io::ErrorKind::AlreadyExists`] when
/// the file is not a socket, or the system's error.
pub fn unix(path: &Path, mode: u32) -> io::Result<std::os::unix::net::UnixListener> {
    remove_stale(path)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SockAddr::unix(path)?)?;
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

fn remove_stale(path: &Path) -> io::Result<()> {
    let kind = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };

    if !kind.is_socket() {
        let reason = format!("{} exists and is not a socket", path.display());
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, reason));
    }

    // Non-blocking: a live listener with a full queue answers `WouldBlock` instead of keeping us
    // waiting.
    let probe = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    probe.set_nonblocking(true)?;
    match probe.connect(&SockAddr::unix(path)?) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(error),
        Ok(()) | Err(_) => {
            let reason = format!("someone is listening on {}", path.display());
            Err(io::Error::new(io::ErrorKind::AddrInUse, reason))
        }
    }
}

/// A stream listener that is not bound to a runtime yet, so that it can be passed to any worker.
#[derive(Debug)]
pub enum Listener {
    /// TCP.
    Tcp(std::net::TcpListener),
    /// A Unix socket.
    Unix(std::os::unix::net::UnixListener),
}

impl Listener {
    /// A second descriptor of the same socket, for another worker.
    ///
    /// # Errors
    /// When no descriptor is left.
    pub fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::Tcp(listener) => listener.try_clone().map(Self::Tcp),
            Self::Unix(listener) => listener.try_clone().map(Self::Unix),
        }
    }

    /// The IP address it listens on (with the port the system chose for port 0); `None` for Unix.
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr().ok(),
            Self::Unix(_) => None,
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(listener) => listener.as_fd(),
        }
    }
}

impl From<std::net::TcpListener> for Listener {
    fn from(listener: std::net::TcpListener) -> Self {
        Self::Tcp(listener)
    }
}

impl From<std::os::unix::net::UnixListener> for Listener {
    fn from(listener: std::os::unix::net::UnixListener) -> Self {
        Self::Unix(listener)
    }
}

/// Accepts streams on the runtime that it was made on.
#[derive(Debug)]
pub enum Acceptor {
    /// TCP.
    Tcp {
        /// The socket.
        listener: TcpListener,
        /// The address of all its connections, if they have the same.
        local: Option<SocketAddr>,
        /// Whether it has a mark of its own, which its connections keep.
        keeps_mark: bool,
    },
    /// A Unix socket.
    Unix(UnixListener),
}

impl Acceptor {
    /// Registers `listener` with the current runtime.
    ///
    /// # Errors
    /// When the runtime refuses the descriptor.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn new(listener: Listener) -> io::Result<Self> {
        match listener {
            Listener::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                tune(&listener);
                Ok(Self::Tcp {
                    local: shared_address(&listener),
                    keeps_mark: has_foreign_mark(&listener),
                    listener: TcpListener::from_std(listener)?,
                })
            }
            Listener::Unix(listener) => {
                listener.set_nonblocking(true)?;
                UnixListener::from_std(listener).map(Self::Unix)
            }
        }
    }

    /// Takes the first bytes of clients with the packet that opens their connection (TCP Fast Open, RFC 7413), or does so no longer. A client
    /// shows a cookie for it; but the packet may come twice, and its bytes with it.
    ///
    /// # Errors
    /// It is no socket of TCP, or the system has no such option.
    pub fn take_fast_open(&self, takes: bool) -> io::Result<()> {
        match self {
            Self::Tcp { listener, .. } => {
                os::take_fast_open(listener, if takes { FAST_OPEN_WAITING } else { 0 })
            }
            Self::Unix(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// The next stream, with `TCP_NODELAY` and keep-alive set. Never fails: a connection that is gone
    /// before it was accepted is skipped, and while no descriptor is left it waits for one.
    ///
    /// Dropping the future loses no connection.
    pub async fn accept(&self) -> Stream {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.accept_once().await {
                Ok(stream) => return stream,
                Err(error) if is_about_one_connection(&error) => {}
                Err(error) => {
                    // The watcher of [`descriptors::shortages`] says more, once for all listeners and workers.
                    let error = noted(error);
                    if Shortage::of(&error).is_none() {
                        tracing::warn!(%error, ?pause, "cannot accept; trying again");
                    }
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    async fn accept_once(&self) -> io::Result<Stream> {
        match self {
            // There is no TCP_DEFER_ACCEPT: the first bytes of a connection are read in the same
            // turn of the worker anyway, and a listener that closes would reset those with their
            // first bytes still on the way.
            Self::Tcp {
                listener,
                local,
                keeps_mark,
            } => {
                let (tcp, peer) = listener.accept().await?;
                let Ok(tcp) = claim_or_reset(tcp) else {
                    return Err(io::ErrorKind::ConnectionAborted.into());
                };
                // The connection may be older than the mark of its listener.
                let tcp = match keeps_mark {
                    false => marked(tcp).map_err(|_| io::ErrorKind::ConnectionAborted)?,
                    true => tcp,
                };

                if !INHERITED {
                    tune(&tcp);
                }
                let local = local.or_else(|| tcp.local_addr().ok());
                Ok(Stream::between(tcp, local, peer))
            }
            Self::Unix(listener) => {
                let (unix, _) = listener.accept().await?;
                let unix = claim(unix).map_err(|_| io::ErrorKind::ConnectionAborted)?;
                Ok(Stream::unix(unix))
            }
        }
    }
}

/// The local address of a listener's connections, so that the system is not asked for each: that of
/// the listener, unless it listens on all addresses, or takes connections to other addresses as a
/// transparent proxy.
fn shared_address(listener: &std::net::TcpListener) -> Option<SocketAddr> {
    let local = listener.local_addr().ok()?;
    let is_only_one = !local.ip().is_unspecified() && !os::is_transparent(listener);
    is_only_one.then_some(local)
}

/// Resets a connection with a descriptor of the reserve: its client knows at once, and the next one
/// can be accepted.
fn claim_or_reset(tcp: TcpStream) -> io::Result<TcpStream> {
    if is_kept_back(&tcp) {
        drop(SockRef::from(&tcp).set_linger(Some(Duration::ZERO)));
    }
    claim(tcp)
}

/// Linux passes errors of the new connection itself through `accept` (accept(2), "Error handling").
fn is_about_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::ConnectionAborted
            | Kind::ConnectionReset
            | Kind::ConnectionRefused
            | Kind::Interrupted
            | Kind::NetworkDown
            | Kind::NetworkUnreachable
            | Kind::HostUnreachable
            | Kind::TimedOut
    )
}

/// Small writes leave at once; a peer that vanished is noticed. A socket that refuses is about to fail anyway.
pub(crate) fn tune(tcp: &impl AsFd) {
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_IDLE)
        .with_interval(KEEPALIVE_INTERVAL);
    let socket = SockRef::from(tcp);
    drop(socket.set_tcp_nodelay(true));
    drop(socket.set_tcp_keepalive(&keepalive));
}
