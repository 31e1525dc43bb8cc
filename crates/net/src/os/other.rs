//! Systems without `/proc`: what the standard library gives, and modest answers for the rest.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{UdpSocket, UnixStream};

use super::ProcessStats;
use crate::quic::steering::Instruction;

mod pipe;
pub use pipe::Pipe;

/// The user that runs the process at the other end.
#[must_use]
pub fn peer_uid(unix: &UnixStream) -> Option<u32> {
    unix.peer_cred().ok().map(|credentials| credentials.uid())
}

/// Unknown here.
#[must_use]
pub fn path_mtu(_socket: &UdpSocket, _remote: SocketAddr) -> Option<usize> {
    None
}

/// A UDP socket that does not block.
///
/// # Errors
/// No descriptor is left, or the system lacks the family.
pub fn datagram_socket(domain: Domain) -> io::Result<Socket> {
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Whether [`prepare_datagrams`] does anything.
pub const PREPARES_DATAGRAMS: bool = false;

/// Nothing: `quinn_udp` prepares each socket here.
///
/// # Errors
/// Never.
pub fn prepare_datagrams(_socket: &Socket, _ipv6: bool) -> io::Result<()> {
    Ok(())
}

/// The loopback addresses: the others cannot be listed here.
#[must_use]
pub fn local_addresses() -> Vec<IpAddr> {
    vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]
}

/// Leaves the limit as it is.
///
/// # Errors
/// Always: not supported.
pub fn raise_open_files() -> io::Result<u64> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Leaves memory as it is.
///
/// # Errors
/// Always: not supported.
pub fn use_small_pages() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Unknown here: all zero.
#[must_use]
pub fn process_stats() -> ProcessStats {
    ProcessStats::default()
}

/// Not supported: the sockets of a port cannot be chosen between.
///
/// # Errors
/// Always.
pub fn attach_reuseport_filter(_socket: &std::net::UdpSocket, _program: &[Instruction]) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
