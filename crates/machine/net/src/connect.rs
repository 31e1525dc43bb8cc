//! Opening connections: one address after the other, overlapping (RFC 8305, "Happy Eyeballs").

use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use socket2::{Domain, SockRef};
use tokio::io::Interest;
use tokio::net::{TcpSocket, TcpStream, UnixStream};
use tokio::time::{sleep, timeout};

use crate::descriptors::{self, Shortage, claim, noted};
use crate::dns::{DnsError, DnsErrorKind};
use crate::listen::tune;
use crate::local_end::{LocalEnd, Port, is_unusable};
use crate::os;
use crate::own_mark::marked;

/// Pause between the starts of two attempts (RFC 8305 section 8: 250 ms is recommended).
#[doc(alias = "bound")]
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// Why no connection came about.
#[derive(Debug)]
pub struct ConnectError {
    /// The kind of failure.
    pub kind: ConnectErrorKind,
    /// The address that was tried; of several, the one with the most telling failure.
    pub address: Remote,
    /// The system's error, if there was one.
    pub source: Option<io::Error>,
}

/// The kind of a [`ConnectError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConnectErrorKind {
    /// No socket listens there.
    Refused,
    /// No answer in time.
    Timeout,
    /// There is no way to the address.
    Unreachable,
    /// A name could not be resolved.
    Dns(DnsErrorKind),
    /// There was no address to try.
    NoAddress,
    /// No descriptor is left, or only those that are kept back.
    Descriptors,
    /// No local port is left towards the address.
    Ports,
    /// This machine could not try, for instance because it is not permitted.
    Local,
    /// Anything else.
    Other,
}

/// The destination of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remote {
    /// An IP address and port.
    Ip(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
    /// A name that gave no address.
    Name(String),
    /// Nothing: the list of addresses was empty.
    Nothing,
}

/// Connects to the first of `addresses` that answers, within `limit` altogether. The stream has
/// `TCP_NODELAY` and keep-alive set.
///
/// The families are interleaved, beginning with that of the first address. An attempt starts when the one
/// before has failed, or 250 ms after it; the first to succeed ends the others.
///
/// # Errors
/// When all attempts failed: the error of the one that got furthest.
pub async fn tcp(addresses: &[SocketAddr], limit: Duration) -> Result<TcpStream, ConnectError> {
    tcp_from(addresses, limit, &LocalEnd::ANY).await
}

/// As [`tcp`], from this end.
///
/// # Errors
/// As for [`tcp`]; `Local` where nothing can be opened from there.
pub async fn tcp_from(
    addresses: &[SocketAddr],
    limit: Duration,
    from: &LocalEnd,
) -> Result<TcpStream, ConnectError> {
    let mut last = None;
    if let Ok(done) = timeout(limit, race(addresses, from, &mut last)).await {
        return done;
    }

    let address = last.map_or(Remote::Nothing, Remote::Ip);
    Err(ConnectError {
        kind: ConnectErrorKind::Timeout,
        address,
        source: None,
    })
}

/// Connects to a Unix socket.
///
/// # Errors
/// The system's error; a listener with a full queue refuses.
pub async fn unix(path: &Path) -> Result<UnixStream, ConnectError> {
    UnixStream::connect(path)
        .await
        .and_then(claim)
        .map_err(|error| {
            let kind = match error.kind() {
                io::ErrorKind::WouldBlock => ConnectErrorKind::Refused,
                io::ErrorKind::NotFound => ConnectErrorKind::Unreachable,
                _ => kind_of(&error),
            };
            ConnectError {
                kind,
                address: Remote::Unix(path.to_owned()),
                source: Some(error),
            }
        })
}

type Attempt<'a> = Pin<Box<dyn Future<Output = Result<TcpStream, ConnectError>> + Send + 'a>>;

/// Runs the attempts; `last` is the address whose attempt started last.
async fn race(
    addresses: &[SocketAddr],
    from: &LocalEnd,
    last: &mut Option<SocketAddr>,
) -> Result<TcpStream, ConnectError> {
    // The usual case: no list of attempts, and no timer.
    if let [only] = addresses {
        *last = Some(*only);
        return attempt(*only, from, from.is_fast).await;
    }

    let mut waiting = interleave(addresses).into_iter();
    let mut running: Vec<Attempt<'_>> = Vec::new();
    let mut worst: Option<ConnectError> = None;

    loop {
        if let Some(next) = waiting.next() {
            *last = Some(next);
            // Not with first bytes: two of them could hear the same.
            running.push(Box::pin(attempt(next, from, false)));
        } else if running.is_empty() {
            let nothing = ConnectErrorKind::NoAddress;
            return Err(worst.unwrap_or(ConnectError::without_source(nothing, Remote::Nothing)));
        }

        let more = waiting.len() > 0;
        tokio::select! {
            done = first_done(&mut running) => match done {
                Ok(stream) => return Ok(stream),
                Err(error) => worst = Some(more_telling(worst, error)),
            },
            // RFC 8305, 5: the next address gets its turn while the earlier ones are still trying.
            () = sleep(ATTEMPT_DELAY), if more => {}
        }
    }
}

/// Waits for any of the attempts and removes it.
async fn first_done(running: &mut Vec<Attempt<'_>>) -> Result<TcpStream, ConnectError> {
    poll_fn(|cx| {
        for index in 0..running.len() {
            if let Poll::Ready(done) = running[index].as_mut().poll(cx) {
                // In any order: all of them are polled, and the first that is ready wins.
                drop(running.swap_remove(index));
                return Poll::Ready(done);
            }
        }
        Poll::Pending
    })
    .await
}

async fn attempt(
    address: SocketAddr,
    from: &LocalEnd,
    is_fast: bool,
) -> Result<TcpStream, ConnectError> {
    match connected(address, from, is_fast).await {
        Ok(tcp) => {
            tune(&tcp);
            Ok(tcp)
        }
        Err(error) => Err(ConnectError {
            kind: kind_of(&error),
            address: Remote::Ip(address),
            source: Some(noted(error)),
        }),
    }
}

async fn connected(address: SocketAddr, from: &LocalEnd, is_fast: bool) -> io::Result<TcpStream> {
    let socket = tcp_socket(address, from)?;
    // Claimed and marked before it is connected: a SYN would leave by the wrong route otherwise.
    let socket = marked(claimed(socket)?)?;
    from.bind(SockRef::from(&socket), address, Port::WhenConnected)?;
    if is_fast {
        // A system without it takes a round trip longer.
        let _ = os::wait_for_first_bytes(&socket);
    }
    socket.connect(address).await
}

/// A socket for a connection to this address: of Multipath TCP where that was asked for and the system has it.
fn tcp_socket(address: SocketAddr, from: &LocalEnd) -> io::Result<TcpSocket> {
    if from.is_multipath
        && let Ok(socket) = os::multipath_socket(Domain::for_address(address))
    {
        socket.set_nonblocking(true)?;
        return Ok(TcpSocket::from_std_stream(socket.into()));
    }
    match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }
}

/// Sends the first bytes of a connection that may [open with them](LocalEnd::opening_fast), and waits until it is open; says how many were
/// taken.
///
/// # Errors
/// There is no connection.
pub async fn open_with(tcp: &TcpStream, first: &[u8]) -> Result<usize, ConnectError> {
    let opened = async {
        tcp.writable().await?;
        let taken = match tcp.try_write(first) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            taken => taken?,
        };
        tcp.async_io(Interest::WRITABLE, || {
            if let Some(error) = tcp.take_error()? {
                return Err(error);
            }
            match tcp.peer_addr() {
                // The packet with them was not answered yet.
                Err(error) if error.kind() == io::ErrorKind::NotConnected => {
                    Err(io::ErrorKind::WouldBlock.into())
                }
                known => known.map(drop),
            }
        })
        .await?;
        Ok(taken)
    };
    let opened: io::Result<usize> = opened.await;
    opened.map_err(|error| ConnectError {
        kind: kind_of(&error),
        address: Remote::Nothing,
        source: Some(error),
    })
}

/// As [`claim`]; it is counted with the error that the attempt comes to.
fn claimed(socket: TcpSocket) -> io::Result<TcpSocket> {
    if descriptors::is_kept_back(&socket) {
        Err(rustix::io::Errno::MFILE.into())
    } else {
        Ok(socket)
    }
}

/// Alternates the families, beginning with that of the first address (RFC 8305 section 4). The order within
/// a family stays.
fn interleave(addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let Some(first) = addresses.first() else {
        return Vec::new();
    };
    let same = |address: &&SocketAddr| address.is_ipv6() == first.is_ipv6();
    let mut preferred = addresses.iter().filter(same);
    let mut other = addresses.iter().filter(|address| !same(address));
    let mut order = Vec::with_capacity(addresses.len());

    while order.len() < addresses.len() {
        order.extend(preferred.next());
        order.extend(other.next());
    }

    order
}

/// Of two failures, the one of the attempt that got further.
fn more_telling(one: Option<ConnectError>, two: ConnectError) -> ConnectError {
    let rank = |kind: ConnectErrorKind| match kind {
        ConnectErrorKind::Timeout => 5,
        ConnectErrorKind::Refused => 4,
        ConnectErrorKind::Other => 3,
        ConnectErrorKind::Unreachable => 2,
        ConnectErrorKind::Descriptors | ConnectErrorKind::Ports => 1,
        ConnectErrorKind::Local | ConnectErrorKind::Dns(_) => 1,
        ConnectErrorKind::NoAddress => 0,
    };
    match one {
        Some(one) if rank(one.kind) >= rank(two.kind) => one,
        _ => two,
    }
}

fn kind_of(error: &io::Error) -> ConnectErrorKind {
    use io::ErrorKind as Kind;
    if is_unusable(error) {
        return ConnectErrorKind::Local;
    }
    match (error.kind(), Shortage::of(error)) {
        (_, Some(Shortage::Descriptors)) => ConnectErrorKind::Descriptors,
        (_, Some(Shortage::Ports)) => ConnectErrorKind::Ports,
        (kind, None) => match kind {
            Kind::ConnectionRefused | Kind::ConnectionReset => ConnectErrorKind::Refused,
            Kind::TimedOut => ConnectErrorKind::Timeout,
            Kind::NetworkUnreachable | Kind::HostUnreachable | Kind::NetworkDown => {
                ConnectErrorKind::Unreachable
            }
            Kind::PermissionDenied | Kind::AddrInUse | Kind::OutOfMemory => ConnectErrorKind::Local,
            _ if error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error()) => {
                ConnectErrorKind::Local
            }
            _ => ConnectErrorKind::Other,
        },
    }
}

impl ConnectError {
    /// A failure that the system said nothing about.
    #[must_use]
    pub fn without_source(kind: ConnectErrorKind, address: Remote) -> Self {
        Self {
            kind,
            address,
            source: None,
        }
    }
}

impl From<DnsError> for ConnectError {
    fn from(error: DnsError) -> Self {
        let kind = ConnectErrorKind::Dns(error.kind);
        let address = Remote::Name(error.name.clone());
        Self {
            kind,
            address,
            source: Some(io::Error::other(error)),
        }
    }
}

impl fmt::Display for ConnectErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refused => "connection refused",
            Self::Timeout => "no answer in time",
            Self::Unreachable => "unreachable",
            Self::Dns(kind) => return kind.fmt(f),
            Self::NoAddress => "no address to connect to",
            Self::Descriptors => "no descriptor is left for a connection",
            Self::Ports => "no local port is left towards this address",
            Self::Local => "this machine could not open a connection",
            Self::Other => "connection failed",
        })
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Name(name) => f.write_str(name),
            Self::Nothing => f.write_str("(no address)"),
        }
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.kind, &self.source) {
            (ConnectErrorKind::NoAddress, _) => self.kind.fmt(f),
            // These kinds say too little by themselves.
            (ConnectErrorKind::Local | ConnectErrorKind::Other, Some(source)) => {
                write!(f, "{}: {}: {source}", self.address, self.kind)
            }
            (kind, _) => write!(f, "{}: {kind}", self.address),
        }
    }
}

impl std::error::Error for ConnectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_alternate_and_keep_their_order() {
        let of = |text: &str| text.parse::<SocketAddr>().unwrap();
        let (a, b, c) = (of("[::1]:1"), of("[::1]:2"), of("[::1]:3"));
        let (x, y) = (of("127.0.0.1:1"), of("127.0.0.1:2"));
        assert_eq!(interleave(&[a, b, c, x, y]), [a, x, b, y, c]);
        assert_eq!(interleave(&[x, a, b]), [x, a, b]);
        assert_eq!(interleave(&[]), []);
    }

    #[test]
    fn a_refusal_tells_more_than_a_missing_route() {
        let error = |kind| ConnectError::without_source(kind, Remote::Nothing);
        let refused = Some(error(ConnectErrorKind::Refused));
        let kept = more_telling(refused, error(ConnectErrorKind::Unreachable));
        assert_eq!(kept.kind, ConnectErrorKind::Refused);
    }

    #[tokio::test]
    async fn an_empty_list_is_said_to_be_empty() {
        let error = tcp(&[], Duration::from_secs(60)).await.unwrap_err();
        assert_eq!(error.to_string(), "no address to connect to");
    }
}
