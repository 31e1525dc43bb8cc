//! UDP sockets that receive and send in batches (GRO and GSO on Linux).

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Once, OnceLock};

use quinn_udp::{Transmit, UdpSockRef, UdpSocketState};
use rustix::io::Errno;
use socket2::{Domain, SockRef, Socket};
use tokio::io::Interest;
use tokio::task::coop::consume_budget;

use crate::descriptors::{claim, noted};
use crate::listen::{enlarge_receive_buffer, enlarge_send_buffer};
use crate::local_end::{LocalEnd, Port};
use crate::os;
use crate::own_mark::marked;
use crate::peer::canonical;
use crate::udp_batch::RecvBatch;
use crate::udp_system;

/// The largest payload of one UDP datagram over IPv4: 65,535 less the headers of IPv4 and UDP.
pub const MAX_PAYLOAD: usize = 65_507;
/// Payload that fits an Ethernet frame over IPv6. Larger ones are sent one by one where the MTU is unknown: the
/// kernel refuses to segment beyond it, and such a refusal would switch GSO off for the socket's life.
const ETHERNET_PAYLOAD: usize = 1500 - IPV6_UDP_HEADERS;
/// Headers in front of a UDP payload, of each family.
const IPV4_UDP_HEADERS: usize = 28;
const IPV6_UDP_HEADERS: usize = 48;

/// Datagrams, or an ICMP message about an earlier one: Linux reports the latter as an error condition alone.
const INCOMING: Interest = Interest::READABLE.add(Interest::ERROR);

/// A UDP socket on the runtime it was made on. Fragmentation is forbidden (RFC 9298 section 3.1: a proxy must
/// not hide the path's MTU) unless it is [allowed](Self::allow_fragments), and datagrams leave as Not-ECT (section 5).
#[derive(Debug)]
pub struct UdpSocket {
    io: tokio::net::UdpSocket,
    state: Arc<UdpSocketState>,
    /// Segments that one send may have; 1 once an interface refused to segment. `state` would know too, but is shared.
    segments: AtomicUsize,
    remote: Option<SocketAddr>,
    /// An IPv6 socket: IPv4 destinations must be written in their mapped form.
    ipv6: bool,
    /// Largest segment that GSO may be asked for, in bytes of payload. Like the larger buffer for
    /// sending, most sockets never need it: system calls for each socket are a good part of the
    /// cost of a short session.
    largest_segment: OnceLock<usize>,
    /// Done once a send has found no room: the buffer is enlarged then.
    waited: Once,
}

/// Why a datagram was not sent or received.
#[derive(Debug)]
pub enum UdpError {
    /// The datagram is larger than the path carries. It was dropped; the socket still works.
    TooLarge,
    /// ICMP said that nothing listens on the port. On a send: an earlier datagram was refused and the one at
    /// hand did not leave.
    Refused,
    /// There is no addresses to the destination.
    Unreachable,
    /// This machine dropped it: a rule of its firewall, or a full queue. Others may pass.
    Dropped,
    /// Anything else.
    Io(io::Error),
}

impl UdpSocket {
    /// A socket that exchanges datagrams with `remote` alone, from a port that the system chooses;
    /// the kernel drops datagrams from elsewhere (RFC 9298 section 3.1).
    ///
    /// # Errors
    /// When there is no route, or no descriptor or port is left.
    pub async fn connected(remote: SocketAddr) -> io::Result<Self> {
        Self::connected_from(remote, &LocalEnd::ANY).await
    }

    /// As [`Self::connected`], from this end.
    ///
    /// # Errors
    /// As there, and when nothing can be opened from it.
    #[expect(
        clippy::unused_async,
        reason = "callers await it; it needs the runtime"
    )]
    pub async fn connected_from(remote: SocketAddr, from: &LocalEnd) -> io::Result<Self> {
        let socket = os::datagram_socket(Domain::for_address(remote))
            .map_err(noted)
            .and_then(claim)
            .and_then(marked)?;
        enlarge_receive_buffer(&SockRef::from(&socket));
        let (state, segments) = udp_system::prepare(&socket, remote.is_ipv6())?;

        from.bind(SockRef::from(&socket), remote, Port::WhenConnected)?;
        // The port is chosen with it.
        socket.connect(&remote.into()).map_err(noted)?;
        Self::wrap(
            tokio::net::UdpSocket::from_std(socket.into())?,
            state,
            segments,
            Some(remote),
        )
    }

    /// A duplicate of the socket, for another runtime: a datagram goes to the first that takes it.
    ///
    /// # Errors
    /// When no descriptor is left.
    pub fn another(&self) -> io::Result<std::net::UdpSocket> {
        Ok(SockRef::from(&self.io).try_clone()?.into())
    }

    /// A socket that was [connected](Self::connected) to `remote` on another runtime.
    ///
    /// # Errors
    /// When the runtime or the system refuses the descriptor.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn resumed(socket: std::net::UdpSocket, remote: SocketAddr) -> io::Result<Self> {
        let socket = Socket::from(socket);
        let (state, segments) = udp_system::prepare(&socket, remote.is_ipv6())?;
        Self::wrap(
            tokio::net::UdpSocket::from_std(socket.into())?,
            state,
            segments,
            Some(remote),
        )
    }

    /// A socket that was bound before, e.g. by [`crate::listen::udp`].
    ///
    /// # Errors
    /// When the runtime or the system refuses the descriptor.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn bound(socket: std::net::UdpSocket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        let segments = state.max_gso_segments();

        Self::wrap(
            tokio::net::UdpSocket::from_std(socket)?,
            Arc::new(state),
            segments,
            None,
        )
    }

    /// Lets datagrams that are longer than a path carries travel in pieces.
    ///
    /// # Errors
    /// When the system does not know how.
    pub fn allow_fragments(&self) -> io::Result<()> {
        os::allow_fragments(&SockRef::from(&self.io), self.ipv6)
    }

    fn wrap(
        io: tokio::net::UdpSocket,
        state: Arc<UdpSocketState>,
        segments: usize,
        remote: Option<SocketAddr>,
    ) -> io::Result<Self> {
        let ipv6 = remote.map_or_else(|| io.local_addr(), Ok)?.is_ipv6();
        let segments = AtomicUsize::new(segments);
        let largest_segment = OnceLock::new();
        let waited = Once::new();

        Ok(Self {
            io,
            state,
            segments,
            remote,
            ipv6,
            largest_segment,
            waited,
        })
    }

    fn largest_segment(&self) -> usize {
        *self.largest_segment.get_or_init(|| {
            let mtu = self
                .remote
                .and_then(|remote| os::path_mtu(&self.io, remote));
            mtu.map_or(ETHERNET_PAYLOAD, |mtu| {
                mtu.saturating_sub(IPV6_UDP_HEADERS).min(MAX_PAYLOAD)
            })
        })
    }

    /// The largest payload that the route of a connected socket carries, in bytes, where the kernel knows it.
    #[must_use]
    pub fn path_payload(&self) -> Option<usize> {
        let headers = if self.ipv6 {
            IPV6_UDP_HEADERS
        } else {
            IPV4_UDP_HEADERS
        };
        let remote = self.remote?;
        // A socket of IPv6 forgets its route when that changes, and finds it anew for each datagram that it sends with control data.
        let mtu = os::path_mtu(&self.io, remote).or_else(|| fresh_path_mtu(remote))?;
        Some(mtu.saturating_sub(headers))
    }

    /// Our own address.
    ///
    /// # Errors
    /// When the descriptor is gone.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr().map(canonical)
    }

    /// The peer of a connected socket.
    #[must_use]
    pub fn remote_addr(&self) -> Option<SocketAddr> {
        self.remote
    }

    /// Waits for datagrams and takes those that are ready, up to the batch's slots. Returns how
    /// many datagrams are in `into`; they replace the previous ones.
    ///
    /// Dropping the future loses nothing.
    ///
    /// # Errors
    /// [`UdpError::Refused`] and [`UdpError::Unreachable`] report ICMP messages on a connected socket, which
    /// goes on working.
    pub async fn recv(&self, into: &mut RecvBatch) -> Result<usize, UdpError> {
        loop {
            self.readable().await.map_err(UdpError::Io)?;
            // A socket that never runs dry leaves the thread to others too.
            consume_budget().await;
            if let Some(count) = self.try_recv(into)? {
                return Ok(count);
            }
        }
    }

    /// Waits until [`Self::try_recv`] is worth calling, so that a batch need not be held meanwhile.
    ///
    /// # Errors
    /// When the runtime is shutting down.
    pub async fn readable(&self) -> io::Result<()> {
        self.io.ready(INCOMING).await.map(drop)
    }

    /// Waits until [`Self::try_send_from`] may find room: on a new socket it does not before the runtime has looked at it.
    ///
    /// # Errors
    /// When the runtime is shutting down.
    pub async fn writable(&self) -> io::Result<()> {
        self.io.writable().await
    }

    /// Like [`Self::recv`] without waiting; `None` when nothing is ready.
    ///
    /// # Errors
    /// As for [`Self::recv`].
    pub fn try_recv(&self, into: &mut RecvBatch) -> Result<Option<usize>, UdpError> {
        // tokio's `try_io` understands one interest at a time.
        for interest in [Interest::READABLE, Interest::ERROR] {
            let mut some = false;
            let received = self.io.try_io(interest, || {
                let all = into
                    .fill(|slots, meta| self.state.recv(UdpSockRef::from(&self.io), slots, meta))?;
                some = true;

                // The kernel had no more: a reader that waits need not ask it first.
                if all {
                    Ok(())
                } else {
                    Err(io::ErrorKind::WouldBlock.into())
                }
            });

            match received {
                _ if some => return Ok(Some(into.len())),
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error.into()),
                _ => {}
            }
        }

        into.clear();
        Ok(None)
    }

    /// Sends `data` as datagrams of `segment` bytes each (the last may be shorter), or as one when `segment` is
    /// `None`. `to` may be left out on a connected socket.
    ///
    /// # Errors
    /// [`UdpError::TooLarge`] and [`UdpError::Dropped`] after everything else was sent; any other error at once.
    pub async fn send_segments(
        &self,
        to: Option<SocketAddr>,
        data: &[u8],
        segment: Option<usize>,
    ) -> Result<(), UdpError> {
        self.send_from(None, to, data, segment).await
    }

    /// Like [`Self::send_segments`], from a certain address of ours: an answer should leave from the address
    /// that was asked (`Run::local`).
    ///
    /// # Errors
    /// As for [`Self::send_segments`].
    pub async fn send_from(
        &self,
        local: Option<IpAddr>,
        to: Option<SocketAddr>,
        data: &[u8],
        segment: Option<usize>,
    ) -> Result<(), UdpError> {
        let Some(destination) = to.or(self.remote) else {
            return Err(UdpError::Io(io::ErrorKind::NotConnected.into()));
        };

        let mut sending = Sending::new(self.addresses(local, destination), data, segment);
        while !self.send_on(&mut sending)? {
            self.waited
                .call_once(|| enlarge_send_buffer(&SockRef::from(&self.io)));
            // Rare: where every future around this one had room for it, a session would be half as large again.
            Box::pin(self.io.writable()).await?;
        }

        sending.result()
    }

    /// Like [`Self::send_from`] without waiting, for senders outside of the socket's runtime:
    /// datagrams from the first without room in the buffer on are not sent.
    ///
    /// # Errors
    /// As for [`Self::send_segments`]; [`io::ErrorKind::WouldBlock`] where there is no room.
    pub fn try_send_from(
        &self,
        local: Option<IpAddr>,
        to: SocketAddr,
        data: &[u8],
        segment: usize,
    ) -> Result<(), UdpError> {
        let mut sending = Sending::new(self.addresses(local, to), data, Some(segment));
        if self.send_on(&mut sending)? {
            sending.result()
        } else {
            Err(UdpError::Io(io::ErrorKind::WouldBlock.into()))
        }
    }

    /// Sends as much as finds room in the socket's buffer: whether that is all.
    fn send_on(&self, sending: &mut Sending<'_>) -> Result<bool, UdpError> {
        loop {
            let most = match sending.is_one_by_one {
                true => sending.segment,
                false => self.gso_batch_bytes(sending.addresses.destination, sending.segment),
            };

            let (batch, later) = sending.rest.split_at(most.min(sending.rest.len()));
            let segment_size = (batch.len() > sending.segment).then_some(sending.segment);
            let transmit = sending.addresses.transmit(batch, segment_size);
            let sent = self.io.try_io(Interest::WRITABLE, || {
                self.state.try_send(UdpSockRef::from(&self.io), &transmit)
            });

            match sent {
                Ok(()) => sending.rest = later,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if segment_size.is_some() && is_gso_refusal(&error) => {
                    // For good: a device without segmentation offload does not learn it.
                    self.segments.store(1, Ordering::Relaxed);
                }
                // If the kernel refuses a segmented send, the datagrams are sent one by one.
                Err(error) if segment_size.is_some() && is_errno(&error, Errno::MSGSIZE) => {
                    sending.is_one_by_one = true;
                }
                Err(error) if is_errno(&error, Errno::MSGSIZE) => {
                    // Lost, as it would be on its way; later ones that are shorter may fit.
                    sending.has_too_large = true;
                    sending.rest = later;
                }
                Err(error) if is_drop(&error) => {
                    sending.has_dropped = true;
                    sending.rest = later;
                }
                Err(error) => return Err(error.into()),
            }

            if sending.rest.is_empty() {
                return Ok(true);
            }
        }
    }

    fn addresses(&self, local: Option<IpAddr>, destination: SocketAddr) -> SendAddresses {
        SendAddresses {
            destination: self.in_our_family(destination),
            local,
        }
    }

    /// How many bytes go into one send: whole segments, as many as GSO takes; one segment without GSO.
    fn gso_batch_bytes(&self, destination: SocketAddr, segment: usize) -> usize {
        let unlimited = self.remote.is_none() && canonical(destination).ip().is_loopback();
        let most = if unlimited || segment <= self.largest_segment() {
            self.segments
                .load(Ordering::Relaxed)
                .min(MAX_PAYLOAD / segment)
                .max(1)
        } else {
            1
        };

        segment * most
    }

    /// The form of `destination` that the socket's family understands.
    fn in_our_family(&self, destination: SocketAddr) -> SocketAddr {
        match destination {
            SocketAddr::V4(v4) if self.ipv6 => {
                SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port())
            }
            _ => destination,
        }
    }
}

/// Where a send goes and where it leaves from.
#[derive(Clone, Copy)]
struct SendAddresses {
    destination: SocketAddr,
    local: Option<IpAddr>,
}

impl SendAddresses {
    fn transmit(self, contents: &[u8], segment_size: Option<usize>) -> Transmit<'_> {
        Transmit {
            destination: self.destination,
            ecn: None,
            contents,
            segment_size,
            src_ip: self.local,
        }
    }
}

/// Datagrams of which some may have been sent.
struct Sending<'a> {
    addresses: SendAddresses,
    rest: &'a [u8],
    /// Bytes of each, but the last; more than 0.
    segment: usize,
    /// The system does not cut them.
    is_one_by_one: bool,
    has_too_large: bool,
    has_dropped: bool,
}

impl<'a> Sending<'a> {
    /// Without a segment it is one datagram, which may be empty.
    fn new(addresses: SendAddresses, data: &'a [u8], segment: Option<usize>) -> Self {
        Self {
            addresses,
            rest: data,
            segment: segment
                .filter(|&segment| segment > 0)
                .unwrap_or(data.len())
                .max(1),
            is_one_by_one: false,
            has_too_large: false,
            has_dropped: false,
        }
    }

    /// The result, once all were tried.
    fn result(&self) -> Result<(), UdpError> {
        if self.has_too_large {
            Err(UdpError::TooLarge)
        } else if self.has_dropped {
            Err(UdpError::Dropped)
        } else {
            Ok(())
        }
    }
}

/// The largest packet that the route to an address carries now.
fn fresh_path_mtu(remote: SocketAddr) -> Option<usize> {
    let socket = os::datagram_socket(Domain::for_address(remote))
        .and_then(claim)
        .and_then(marked)
        .ok()?;
    socket.connect(&remote.into()).ok()?;
    os::path_mtu(&socket, remote)
}

/// Errors by which Linux reports a dropped datagram: a rule of the firewall or of the routes
/// (EPERM, EACCES, EINVAL), no room at the interface (ENOBUFS, ENOMEM), an address that is not ours
/// any more (EADDRNOTAVAIL). The socket goes on.
fn is_drop(error: &io::Error) -> bool {
    let drops = [
        Errno::PERM,
        Errno::ACCESS,
        Errno::INVAL,
        Errno::NOBUFS,
        Errno::NOMEM,
        Errno::ADDRNOTAVAIL,
    ];
    drops.iter().any(|errno| is_errno(error, *errno))
}

/// Errors for ICMP messages other than "unreachable" (RFC 1122, 3.2.2; Linux' `icmp_err_convert`),
/// with the same meaning.
fn is_unreachable(error: &io::Error) -> bool {
    let said = [
        Errno::HOSTDOWN,
        Errno::NONET,
        Errno::NOPROTOOPT,
        Errno::OPNOTSUPP,
        Errno::PROTO,
    ];
    said.iter().any(|errno| is_errno(error, *errno))
}

/// How Linux says that an interface cannot segment.
fn is_gso_refusal(error: &io::Error) -> bool {
    is_errno(error, Errno::IO) || is_errno(error, Errno::INVAL)
}

fn is_errno(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

impl From<io::Error> for UdpError {
    fn from(error: io::Error) -> Self {
        use io::ErrorKind as Kind;
        match error.kind() {
            Kind::ConnectionRefused => Self::Refused,
            Kind::NetworkUnreachable | Kind::HostUnreachable | Kind::NetworkDown => {
                Self::Unreachable
            }
            _ if is_errno(&error, Errno::MSGSIZE) => Self::TooLarge,
            _ if is_unreachable(&error) => Self::Unreachable,
            _ if is_drop(&error) => Self::Dropped,
            _ => Self::Io(error),
        }
    }
}

impl From<UdpError> for io::Error {
    fn from(error: UdpError) -> Self {
        match error {
            UdpError::TooLarge => Errno::MSGSIZE.into(),
            UdpError::Refused => io::ErrorKind::ConnectionRefused.into(),
            UdpError::Unreachable => io::ErrorKind::NetworkUnreachable.into(),
            UdpError::Dropped => io::ErrorKind::PermissionDenied.into(),
            UdpError::Io(error) => error,
        }
    }
}

impl fmt::Display for UdpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge => f.write_str("datagram larger than the path carries"),
            Self::Refused => f.write_str("nothing listens on the UDP port"),
            Self::Unreachable => f.write_str("no route to the destination"),
            Self::Dropped => f.write_str("dropped by this machine: its firewall, or a full queue"),
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for UdpError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}
