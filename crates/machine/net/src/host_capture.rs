//! Capture of the traffic of programs that know of no proxy: sockets that take connections and datagrams for foreign addresses, and
//! the rules that lead them there.
//!
//! The original destination is the local address of an accepted connection, and the noted one of a datagram: connections need not be
//! tracked.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;

use ipnet::IpNet;
use parking_lot::Mutex;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::io::Interest;

use crate::descriptors::{claim, noted};
use crate::listen::{BACKLOG, UDP_BUFFER};
use crate::os::{
    self, CGROUP_MARK, CaptureOrder, CaptureRules, CapturedFlowRules, CgroupMark,
    FOREIGN_SOCKET_MARK, PacketQueue, PacketVerdict, SynQueues,
};
pub use crate::os::{DestinedDatagram, RefusedPorts};
pub use crate::os::{PacketQueueReader, QueuedSyn, SynEnds, SynFate};
use crate::own_mark;
use crate::stream::{Stream, Transport};
use crate::tun::{Senders, SystemUsers, device_hash};

/// Beginnings of connections that one listener holds at once; more are accepted before their target answers.
#[doc(alias = "bound")]
pub const HELD_SYNS: usize = 16_384;

/// Attempts to find numbers of queues that no other process has.
#[doc(alias = "bound")]
const QUEUE_TRIES: u16 = 16;

/// The means of the kernel by which traffic is to be captured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CaptureMeans {
    /// TPROXY, or REDIRECT where the kernel lacks that.
    #[default]
    Any,
    /// TPROXY.
    Tproxy,
    /// REDIRECT.
    Redirect,
}

impl CaptureMeans {
    /// Why REDIRECT is used, if it is: `tproxy` and `redirect` say whether the kernel has them.
    fn redirects(
        self,
        tproxy: impl FnOnce() -> io::Result<()>,
        redirect: impl FnOnce() -> io::Result<()>,
    ) -> Option<String> {
        match self {
            Self::Tproxy => None,
            Self::Redirect => Some("as the configuration says".to_owned()),
            Self::Any => match tproxy() {
                // Who may not have the one may not have the other.
                Err(error) if error.kind() != io::ErrorKind::PermissionDenied => redirect()
                    .is_ok()
                    .then(|| format!("the kernel has no TPROXY: {error}")),
                Ok(()) | Err(_) => None,
            },
        }
    }
}

/// Traffic that is to be captured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CaptureSettings {
    /// The name of the listener.
    pub name: String,
    /// Interfaces by which the traffic of other machines comes.
    pub interfaces: Vec<String>,
    /// Users and control groups of this machine.
    pub senders: Senders,
    /// Destinations that are not captured.
    pub except: Vec<IpNet>,
    /// Whether connections are captured.
    pub tcp: bool,
    /// Whether datagrams are captured.
    pub udp: bool,
    /// Ports that are refused.
    pub refused: RefusedPorts,
    /// The address of a listener of this machine: its connections alone are taken, before they begin.
    pub own: Option<SocketAddr>,
    /// Whether the traffic is dropped when this process dies, rather than going its ordinary way.
    pub fails_closed: bool,
    /// Whether the beginning of a connection is held until its fate is known.
    pub holds: bool,
    /// The congestion control of captured connections. Default: that of the machine.
    pub congestion: Option<&'static str>,
    /// The means of the kernel.
    pub means: CaptureMeans,
}

/// One worker's share of the sockets of captured traffic.
#[derive(Debug)]
pub struct CaptureShare {
    /// Takes connections.
    pub tcp: Option<TcpListener>,
    /// Takes datagrams.
    pub udp: Option<UdpSocket>,
    /// Holds beginnings of connections.
    pub held: Option<HeldQueue>,
    /// Keeps the rules.
    pub rules: Arc<CaptureInForce>,
}

/// A worker's queue of held beginnings.
#[derive(Debug)]
pub struct HeldQueue {
    /// The queue.
    pub queue: PacketQueue,
    /// The worker's number.
    pub worker: u8,
}

/// Rules of capture, which hold for as long as this is kept.
#[derive(Debug)]
pub struct CaptureInForce {
    /// The mark of its packets.
    mark: u32,
    /// Why connections are redirected, rather than taken as they are.
    redirected: Option<String>,
    /// Why beginnings of connections are not held, though they are to be.
    unheld: Option<String>,
    rules: Mutex<Option<CaptureRules>>,
    /// Marks of control groups.
    _marks: Vec<CgroupMark>,
    /// Connections that were captured before need these after the others have gone.
    _flows: Option<CapturedFlowRules>,
}

impl fmt::Display for CaptureSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let interfaces = self.interfaces.iter().cloned();
        let users = self.senders.users.iter().map(|users| match users {
            SystemUsers::Name(name) => format!("user {name}"),
            SystemUsers::Numbers(first, last) if first == last => format!("user {first}"),
            SystemUsers::Numbers(first, last) => format!("users {first}-{last}"),
        });
        let groups = self.senders.cgroups.iter();
        let groups = groups.map(|group| group.display().to_string());
        let own = self.own.map(|own| own.to_string());
        let all = interfaces.chain(users).chain(groups).chain(own);
        let all: Vec<String> = all.collect();
        f.write_str(&all.join(", "))
    }
}

impl CaptureInForce {
    /// What becomes of a held packet, to the kernel.
    #[must_use]
    pub fn verdict(&self, fate: SynFate) -> PacketVerdict {
        match fate.code() {
            Some(code) => PacketVerdict::Pass(self.mark | code),
            None => PacketVerdict::Drop,
        }
    }

    /// Why beginnings of connections are not held, though they are to be: connections are accepted before their target answers.
    #[must_use]
    pub fn unheld(&self) -> Option<&str> {
        self.unheld.as_deref()
    }

    /// Why connections are redirected, rather than taken as they are; datagrams are not captured then.
    #[must_use]
    pub fn redirected(&self) -> Option<&str> {
        self.redirected.as_deref()
    }

    /// Gives an accepted connection the address that it was going to, where it was redirected.
    ///
    /// # Errors
    /// It was going to this process.
    pub fn readdress(&self, stream: &mut Stream) -> io::Result<()> {
        if self.redirected.is_none() {
            return Ok(());
        }
        let found = match stream.transport() {
            Transport::Tcp(tcp) => os::original_destination(tcp)?,
            _ => return Err(io::ErrorKind::Unsupported.into()),
        };
        let peer = stream.info().peer.socket();
        stream.readdress(peer.ok_or(io::ErrorKind::NotConnected)?, found);
        Ok(())
    }

    /// Says that this process is alive, where it must: to be called more often than every six seconds. It takes the kernel some
    /// milliseconds.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn say_alive(&self) -> io::Result<()> {
        match &*self.rules.lock() {
            Some(rules) => rules.say_alive(),
            None => Ok(()),
        }
    }

    /// Captures nothing more. Connections that were captured go on.
    pub fn end(&self) {
        drop(self.rules.lock().take());
    }
}

impl CaptureShare {
    /// Opens the sockets, one of each kind for each worker, and leads the traffic there.
    ///
    /// # Errors
    /// `PermissionDenied`: it takes `CAP_NET_ADMIN`. Others: the kernel lacks one of the parts, or there is no such user or group.
    pub fn open(settings: &CaptureSettings, workers: usize) -> io::Result<Vec<Self>> {
        own_mark::begin()?;
        let workers = workers.clamp(1, SynFate::MOST_WORKERS);
        if settings.own.is_some() {
            return Ok(Self::of_listener(settings, workers));
        }
        let redirected = settings.means.redirects(
            || CaptureRules::check(settings.fails_closed, false),
            || CaptureRules::check_redirecting(settings.fails_closed),
        );
        if let Some(reason) = redirected {
            return Self::redirected(settings, workers, reason);
        }
        Self::by_tproxy(settings, workers)
    }

    fn by_tproxy(settings: &CaptureSettings, workers: usize) -> io::Result<Vec<Self>> {
        let number = device_hash(&format!("capture {}", settings.name));
        let holding = Holding::of(settings, number, workers);
        if let (Some(_), Some(reason)) = (settings.own, &holding.reason) {
            return Err(io::Error::other(reason.clone()));
        }
        let sockets = CaptureSockets::open(settings, workers, !holding.queues.is_empty())?;
        let mark = CGROUP_MARK.0 | u32::from(number);
        let marks = settings.senders.mark(mark)?;
        let order = CaptureOrder {
            name: settings.name.clone(),
            number,
            interfaces: settings.interfaces.clone(),
            users: settings.senders.ranges()?,
            group_mark: (!marks.is_empty()).then_some(mark),
            except: settings.except.clone(),
            tcp: sockets.tcp_ports(),
            udp: sockets.udp.first().and_then(port),
            refused: settings.refused.clone(),
            own: settings.own,
            stays: settings.fails_closed,
            held: holding.range(),
        };

        lead_here()?;
        let in_force = Arc::new(CaptureInForce {
            mark: order.mark(),
            redirected: None,
            unheld: holding.reason,
            _flows: Some(CapturedFlowRules::new()?),
            _marks: marks,
            rules: Mutex::new(Some(CaptureRules::of(&order)?)),
        });

        let mut tcp = sockets.tcp.into_iter();
        let mut udp = sockets.udp.into_iter();
        let mut queues = holding.queues.into_iter();
        let share = |worker| Self {
            tcp: tcp.next().map(TcpListener::from),
            udp: udp.next().map(UdpSocket::from),
            held: queues.next().map(|queue| HeldQueue { queue, worker }),
            rules: in_force.clone(),
        };
        Ok((0..).take(workers).map(share).collect())
    }
}

impl CaptureShare {
    /// For a listener of this machine, which takes connections itself where their beginnings are not held.
    fn of_listener(settings: &CaptureSettings, workers: usize) -> Vec<Self> {
        let shares = own_mark::begin().and_then(|()| Self::by_tproxy(settings, workers));
        shares.unwrap_or_else(|error| {
            tracing::info!(listener = settings.name, %error, "beginnings of connections are not held: clients are accepted first, and reset if their target refuses");
            let in_force = Arc::new(CaptureInForce {
                mark: 0,
                redirected: None,
                unheld: Some(error.to_string()),
                _flows: None,
                _marks: Vec::new(),
                rules: Mutex::new(None),
            });
            let share = |_| Self {
                tcp: None,
                udp: None,
                held: None,
                rules: in_force.clone(),
            };
            (0..workers).map(share).collect()
        })
    }

    /// The same by REDIRECT, for connections alone.
    fn redirected(
        settings: &CaptureSettings,
        workers: usize,
        reason: String,
    ) -> io::Result<Vec<Self>> {
        if !settings.tcp {
            let reason =
                format!("REDIRECT captures no datagrams ({reason}), and no connections are to be");
            return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
        }
        if settings.udp {
            tracing::warn!(listener = settings.name, %reason, "datagrams are not captured: connections are redirected");
        }
        let sockets = shares(true, workers, tcp_socket)?;
        for socket in &sockets {
            settings.control(socket)?;
        }
        let number = device_hash(&format!("capture {}", settings.name));
        let mark = CGROUP_MARK.0 | u32::from(number);
        let marks = settings.senders.mark(mark)?;
        let order = CaptureOrder {
            name: settings.name.clone(),
            number,
            interfaces: settings.interfaces.clone(),
            users: settings.senders.ranges()?,
            group_mark: (!marks.is_empty()).then_some(mark),
            except: settings.except.clone(),
            tcp: sockets.first().and_then(port).into_iter().collect(),
            refused: settings.refused.clone(),
            own: settings.own,
            stays: settings.fails_closed,
            ..CaptureOrder::default()
        };
        let unheld = settings
            .holds
            .then(|| "REDIRECT holds no beginnings".to_owned());
        let in_force = Arc::new(CaptureInForce {
            mark: order.mark(),
            redirected: Some(reason),
            unheld,
            _flows: None,
            _marks: marks,
            rules: Mutex::new(Some(CaptureRules::redirecting(&order)?)),
        });
        let share = |socket: Socket| Self {
            tcp: Some(TcpListener::from(socket)),
            udp: None,
            held: None,
            rules: in_force.clone(),
        };
        Ok(sockets.into_iter().map(share).collect())
    }
}

/// The sockets of all workers.
struct CaptureSockets {
    tcp: Vec<Socket>,
    udp: Vec<Socket>,
    /// Whether each socket for connections has a port of its own.
    own_ports: bool,
}

impl CaptureSockets {
    fn open(settings: &CaptureSettings, workers: usize, holds: bool) -> io::Result<Self> {
        let tcp = match holds {
            false => shares(settings.tcp, workers, tcp_socket)?,
            // The worker that held a beginning accepts the connection, at a port of its own.
            true => own_ports(workers)?,
        };
        for socket in &tcp {
            settings.control(socket)?;
        }
        Ok(Self {
            tcp,
            udp: shares(settings.udp, workers, udp_socket)?,
            own_ports: holds,
        })
    }

    /// The ports of those for connections.
    fn tcp_ports(&self) -> Vec<u16> {
        let ports = self.tcp.iter().filter_map(port);
        let different = if self.own_ports { self.tcp.len() } else { 1 };
        ports.take(different).collect()
    }
}

impl CaptureSettings {
    /// Gives a listening socket the congestion control, which its connections have from it.
    fn control(&self, socket: &Socket) -> io::Result<()> {
        let Some(name) = self.congestion else {
            return Ok(());
        };
        os::set_socket_congestion(socket, name).map_err(|error| {
            let reason = format!("this machine has no congestion control `{name}`: {error}");
            io::Error::new(error.kind(), reason)
        })
    }
}

/// Leads packets that are marked as captured to this machine.
fn lead_here() -> io::Result<()> {
    os::lead_captured_here(true)?;
    // A machine without IPv6 has no packets of it.
    if any_address().is_ipv6() {
        os::lead_captured_here(false)?;
    }
    Ok(())
}

/// Lets sockets of this process have addresses of clients: packets to those come here from now on, as long as the process lives.
///
/// # Errors
/// `PermissionDenied`: it takes `CAP_NET_ADMIN`. Others: the kernel lacks one of the parts.
pub fn keep_clients() -> io::Result<()> {
    static FLOWS: Mutex<Option<CapturedFlowRules>> = Mutex::new(None);
    let mut flows = FLOWS.lock();
    if flows.is_none() {
        own_mark::begin()?;
        lead_here()?;
        *flows = Some(CapturedFlowRules::new()?);
    }
    Ok(())
}

/// Queues that hold beginnings of connections, or why there are none.
#[derive(Debug, Default)]
struct Holding {
    queues: Vec<PacketQueue>,
    reason: Option<String>,
}

impl Holding {
    /// A queue for each worker, where they are wanted. A kernel that cannot hold packets accepts connections first.
    fn of(settings: &CaptureSettings, number: u16, workers: usize) -> Self {
        if !settings.holds || !settings.tcp {
            return Self::default();
        }
        let checked = CaptureRules::check(settings.fails_closed, true);
        match checked.and_then(|()| Self::queues(number, workers)) {
            Ok(queues) => Self {
                queues,
                reason: None,
            },
            Err(error) => {
                tracing::warn!(listener = settings.name, %error, "beginnings of connections are not held: clients are accepted before their targets");
                Self {
                    queues: Vec::new(),
                    reason: Some(error.to_string()),
                }
            }
        }
    }

    /// Queues with numbers in a row that no other process has.
    fn queues(number: u16, workers: usize) -> io::Result<Vec<PacketQueue>> {
        let count = u16::try_from(workers).map_err(io::Error::other)?;
        let most = u32::try_from(HELD_SYNS / workers).map_err(io::Error::other)?;
        let mut last = io::Error::from(io::ErrorKind::ResourceBusy);
        for attempt in 0..QUEUE_TRIES {
            let first = number.wrapping_add(attempt * count).min(u16::MAX - count);
            let opened = (0..count).map(|one| PacketQueue::open(first + one, most));
            match opened.collect() {
                Ok(queues) => return Ok(queues),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn range(&self) -> Option<SynQueues> {
        let first = self.queues.first()?.number();
        let count = u16::try_from(self.queues.len()).ok()?;
        Some(SynQueues { first, count })
    }
}

/// A socket for connections for each worker, each on a port of its own.
fn own_ports(workers: usize) -> io::Result<Vec<Socket>> {
    let open = |_| tcp_socket(SocketAddr::from((any_address(), 0)));
    (0..workers).map(open).collect()
}

/// A socket for each worker, all on one port.
fn shares(
    wanted: bool,
    workers: usize,
    open: impl Fn(SocketAddr) -> io::Result<Socket>,
) -> io::Result<Vec<Socket>> {
    if !wanted {
        return Ok(Vec::new());
    }
    let first = open(SocketAddr::from((any_address(), 0)))?;
    let bound = first.local_addr()?.as_socket();
    let bound = bound.ok_or(io::ErrorKind::AddrNotAvailable)?;

    let mut all = vec![first];
    for _ in 1..workers {
        all.push(open(bound)?);
    }
    Ok(all)
}

fn port(socket: &Socket) -> Option<u16> {
    let bound = socket.local_addr().ok()?.as_socket()?;
    Some(bound.port())
}

/// All addresses: of both families, or of IPv4 where the machine has no other.
fn any_address() -> std::net::IpAddr {
    match Socket::new(Domain::IPV6, Type::DGRAM, None) {
        Ok(_) => Ipv6Addr::UNSPECIFIED.into(),
        Err(_) => Ipv4Addr::UNSPECIFIED.into(),
    }
}

fn tcp_socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = foreign_socket(address, Type::STREAM, Protocol::TCP)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

fn udp_socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = foreign_socket(address, Type::DGRAM, Protocol::UDP)?;
    drop(socket.set_recv_buffer_size(UDP_BUFFER));
    os::note_destinations(&socket, address.is_ipv6())?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// A socket for captured datagrams, on the runtime that it was made on.
#[derive(Debug)]
pub struct CapturedSocket(tokio::net::UdpSocket);

impl CapturedSocket {
    /// Registers it with the current runtime.
    ///
    /// # Errors
    /// When the runtime refuses the descriptor.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn new(socket: UdpSocket) -> io::Result<Self> {
        tokio::net::UdpSocket::from_std(socket).map(Self)
    }

    /// Waits until [`Self::receive`] is worth calling.
    ///
    /// # Errors
    /// When the runtime is shutting down.
    pub async fn readable(&self) -> io::Result<()> {
        self.0.readable().await
    }

    /// Takes a datagram that is there.
    ///
    /// # Errors
    /// `WouldBlock`: there is none. Others are the kernel's.
    pub fn receive(&self, room: &mut [u8]) -> io::Result<DestinedDatagram> {
        let read = || os::receive_destined(&self.0, room);
        self.0.try_io(Interest::READABLE, read)
    }
}

/// A socket that sends datagrams from a foreign address. It receives none: they are led to the socket that captures.
///
/// # Errors
/// `PermissionDenied`: it takes `CAP_NET_ADMIN`. Others: no descriptor is left.
pub fn answering_socket(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = foreign_socket(address, Type::DGRAM, Protocol::UDP).map_err(noted)?;
    let socket = claim(socket)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// A socket that may have foreign addresses, and shares its port.
fn foreign_socket(address: SocketAddr, kind: Type, protocol: Protocol) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))?;
    socket.set_nonblocking(true)?;
    socket.set_reuse_address(true)?;
    #[cfg(not(any(target_os = "solaris", target_os = "illumos")))]
    socket.set_reuse_port(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    // The option of IPv4 holds for both families: the kernel keeps one for the socket.
    os::take_foreign_addresses(&socket)?;
    os::mark(&socket, FOREIGN_SOCKET_MARK)?;
    Ok(socket)
}

/// Whether connections of this listener were captured: they keep its mark.
pub(crate) fn has_foreign_mark(listener: &TcpListener) -> bool {
    os::socket_mark(&SockRef::from(listener)) == Some(FOREIGN_SOCKET_MARK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_redirected_where_the_kernel_has_nothing_better_or_the_operator_says_so() {
        let is = |kind: Option<io::ErrorKind>| move || kind.map_or(Ok(()), |kind| Err(kind.into()));
        let missing = Some(io::ErrorKind::NotFound);
        let denied = Some(io::ErrorKind::PermissionDenied);
        for (means, tproxy, redirect, redirects) in [
            (CaptureMeans::Any, None, None, false),
            (CaptureMeans::Any, missing, None, true),
            (CaptureMeans::Any, missing, missing, false),
            (CaptureMeans::Any, denied, None, false),
            (CaptureMeans::Tproxy, missing, None, false),
            (CaptureMeans::Redirect, None, missing, true),
        ] {
            let reason = means.redirects(is(tproxy), is(redirect));
            assert_eq!(
                reason.is_some(),
                redirects,
                "{means:?} {tproxy:?} {redirect:?}"
            );
        }
    }
}
