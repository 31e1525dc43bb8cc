//! Binding the sockets that a listener asks for.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hermes_config::model::ListenAddress;
use hermes_net::host_capture::{CaptureSettings, CaptureShare};
use hermes_net::listen::{self, Carries};
use hermes_net::quic::steering;

use super::Socket;
use super::capture::network::NetworkSpec;
use super::device_spec::DeviceSpec;
use super::held_syns::HeldSyns;
use super::host_capture::CapturedSockets;

/// Mode of a Unix socket that clients connect to: its owner's only.
const UNIX_MODE: u32 = 0o600;

/// Mode of a Unix socket that every program may connect to.
const PROGRAMS_MODE: u32 = 0o666;

/// The use of sockets. Whether those of streams serve `http` or `tcp` is not their business: that may change under them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Serves {
    /// Connections, of TCP or a Unix socket.
    Streams,
    /// Datagrams of UDP clients.
    Datagrams,
    /// HTTP/3.
    Quic,
    /// Attachments, which this node opens.
    Attachments,
    /// Connections and datagrams that are captured.
    Captured,
    /// The packets of a TUN device.
    Packets,
}

/// An address that is to be bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) serves: Serves,
    pub(super) at: At,
    /// Connections may be of Multipath TCP.
    pub(super) is_multipath: bool,
}

/// Where something is bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum At {
    /// At an address of this machine.
    Address(ListenAddress),
    /// At an upstream, to which this node attaches.
    Upstream {
        /// The upstream's name.
        upstream: String,
        /// The name to be attached under.
        name: String,
        /// How many attachments.
        connections: u8,
    },
    /// On the way of other programs' traffic.
    Captured(Box<CaptureSettings>),
    /// At a TUN device.
    Device(Box<DeviceSpec>),
    /// At a Unix socket that programs of every user may connect to: which of them are served, their credentials say.
    Programs(PathBuf),
    /// In a network namespace.
    Network(Box<NetworkSpec>),
}

impl At {
    /// Whether it is a device of this machine, into which the kernel might route connections of this node.
    pub(super) fn is_own_device(&self) -> bool {
        matches!(self, Self::Device(device) if device.is_of_kernel())
    }
}

impl Serves {
    fn carries(self) -> Carries {
        match self {
            Self::Streams => Carries::Tcp,
            Self::Datagrams | Self::Quic => Carries::Udp,
            // They go through sockets that no one else could want.
            Self::Attachments | Self::Captured | Self::Packets => Carries::Tcp,
        }
    }
}

impl Wanted {
    /// Whether the address says which socket it is: port 0 is another one each time.
    pub(super) fn is_definite(&self) -> bool {
        !matches!(&self.at, At::Address(ListenAddress::Ip(address)) if address.port() == 0)
    }

    /// One of its sockets, at an address of this machine.
    fn socket(&self, address: SocketAddr) -> io::Result<Socket> {
        let stream = |listener: std::net::TcpListener| Socket::Stream(listener.into());
        match self.serves.carries() {
            Carries::Udp => listen::udp(address).map(|socket| Socket::Udp(socket.into())),
            Carries::Tcp if self.is_multipath => listen::multipath(address).map(stream),
            Carries::Tcp => listen::tcp(address).map(stream),
        }
    }

    /// Whether both want the same port, on the same address or on one that holds the other.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        match (&self.at, &other.at) {
            (At::Address(own), At::Address(other_address)) => {
                self.serves.carries() == other.serves.carries() && own.overlaps(other_address)
            }
            _ => false,
        }
    }
}

/// Where a listener is bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bound {
    Ip(SocketAddr),
    Unix(PathBuf),
    /// Attached to an upstream under a name.
    Upstream(String, String),
    /// The traffic of these senders.
    Captured(String),
    /// A TUN device.
    Device(String),
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Captured(senders) => senders.fmt(f),
            Self::Device(name) => name.fmt(f),
            Self::Upstream(upstream, name) => write!(f, "{upstream} as {name}"),
        }
    }
}

impl Bound {
    /// The IP address; `None` for a Unix socket.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        if let Self::Ip(address) = self {
            Some(*address)
        } else {
            None
        }
    }

    /// Takes a Unix socket's file away: no one answers there any more.
    pub(super) fn unlink(&self) {
        if let Self::Unix(path) = self
            && let Err(error) = std::fs::remove_file(path)
        {
            tracing::debug!(path = %path.display(), %error, "the file of a closed socket stays");
        }
    }
}

/// One socket a worker: TCP and UDP share a port by `SO_REUSEPORT`, a Unix socket is one for all. `ours` says that the port is
/// one of ours already.
pub(super) fn bind(
    wanted: &Wanted,
    workers: usize,
    ours: bool,
) -> io::Result<(Bound, Vec<Socket>)> {
    let serves = wanted.serves;
    match &wanted.at {
        At::Upstream {
            upstream,
            name,
            connections,
        } => {
            let all = usize::from(*connections);
            let workers = workers.max(1);
            let share = |worker: usize| all / workers + usize::from(worker < all % workers);
            let sockets = (0..workers)
                .map(|worker| Socket::Attachments(share(worker)))
                .collect();
            Ok((Bound::Upstream(upstream.clone(), name.clone()), sockets))
        }
        At::Captured(settings) => captured(settings, workers),
        At::Device(device) => {
            let name = device.settings.name.clone();
            Ok((Bound::Device(name), vec![Socket::Device(device.clone())]))
        }
        At::Network(network) => {
            let name = network.path.display().to_string();
            Ok((Bound::Device(name), vec![Socket::Network(network.clone())]))
        }
        At::Address(ListenAddress::Unix(path)) => unix(path, UNIX_MODE, workers),
        At::Programs(path) => unix(path, PROGRAMS_MODE, workers),
        At::Address(ListenAddress::Ip(address)) => {
            // SO_REUSEPORT would let us share the port of another process of the same user
            // unnoticed.
            if !ours {
                listen::check_free(*address, serves.carries())?;
            }
            if serves == Serves::Quic {
                return quic(*address, workers);
            }

            let first = wanted.socket(*address)?;
            // Port 0 is chosen once, for all workers.
            let bound = first.address().unwrap_or(*address);
            let rest = (1..workers).map(|_| wanted.socket(bound));
            let all: Result<Vec<Socket>, _> = std::iter::once(Ok(first)).chain(rest).collect();

            Ok((Bound::Ip(bound), all?))
        }
    }
}

/// The sockets of captured traffic. The words say whose it is, and which clients are told of refusals as if there were no node.
fn captured(settings: &CaptureSettings, workers: usize) -> io::Result<(Bound, Vec<Socket>)> {
    let shares = CaptureShare::open(settings, workers)?;
    let unheld = shares.first().and_then(|share| share.rules.unheld());
    let redirected = shares.first().and_then(|share| share.rules.redirected());
    let said = match (settings.holds, unheld) {
        _ if let Some(reason) = redirected => {
            let held = match settings.holds {
                true => "; split: accepted first, not held",
                false => "",
            };
            format!("{settings} (connections alone, redirected: {reason}{held})")
        }
        (false, _) => settings.to_string(),
        (true, None) => format!("{settings} (split; held by NFQUEUE)"),
        (true, Some(reason)) if settings.own.is_some() => {
            format!("{settings} (split; accepted first, not held: {reason})")
        }
        (true, Some(reason)) => {
            format!("{settings} (split; accepted by TPROXY, not held: {reason})")
        }
    };
    let holds = Arc::new(HeldSyns::default());
    let sockets = shares.into_iter().map(|share| {
        let holds = holds.clone();
        Socket::Captured(Box::new(CapturedSockets { share, holds }))
    });
    Ok((Bound::Captured(said), sockets.collect()))
}

/// A Unix socket, which all workers share.
fn unix(path: &Path, mode: u32, workers: usize) -> io::Result<(Bound, Vec<Socket>)> {
    let first = hermes_net::Listener::from(listen::unix(path, mode)?);
    let shares = (0..workers).map(|_| first.try_clone().map(Socket::Stream));
    Ok((
        Bound::Unix(path.to_owned()),
        shares.collect::<Result<_, _>>()?,
    ))
}

/// A connection ID names its worker in one byte. Where the kernel cannot go by that, one worker serves all.
fn quic(address: SocketAddr, workers: usize) -> io::Result<(Bound, Vec<Socket>)> {
    let first = listen::udp(address)?;
    let bound = first.local_addr()?;
    let mut sockets = vec![first];

    for _ in 1..workers.min(usize::from(u8::MAX)) {
        sockets.push(listen::udp(bound)?);
    }
    match steering::steer(&sockets) {
        Err(error) if error.kind() == io::ErrorKind::Unsupported => sockets.truncate(1),
        steered => steered?,
    }

    Ok((
        Bound::Ip(bound),
        sockets
            .into_iter()
            .map(|socket| Socket::Quic(socket.into()))
            .collect(),
    ))
}
