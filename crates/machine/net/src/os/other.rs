//! Systems without `/proc`: the standard library's answers, and modest defaults for the rest.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

use ipnet::IpNet;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::{TcpStream, UdpSocket, UnixStream};

use super::{EchoError, ForwardedFamilies, Instruction, LocalProcess, PassedKind, ProcessStats};

mod capture;
mod cgroup_mark;
mod link;
mod masquerade;
mod pipe;
mod route_rules;
pub use capture::{
    captures, congestion_controls, lead_captured_here, note_destinations, original_destination,
    receive_destined, set_socket_congestion, socket_mark,
};
pub use masquerade::masquerades;
pub use pipe::Pipe;
pub use route_rules::{add_exception, exceptions, remove_exception};

/// Not supported.
///
/// # Errors
/// Always.
pub fn set_congestion(_tcp: &TcpStream, _name: &str) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Not supported.
///
/// # Errors
/// Always.
pub fn multipath_socket(_domain: socket2::Domain) -> io::Result<socket2::Socket> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Never.
#[must_use]
pub fn is_multipath(_socket: &impl std::os::fd::AsFd) -> bool {
    false
}

/// Not supported.
///
/// # Errors
/// Always.
pub fn take_fast_open(_listener: &impl std::os::fd::AsFd, _waiting: i32) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Unknown here.
#[must_use]
pub fn serves_fast_open() -> Option<bool> {
    None
}

/// Not supported.
///
/// # Errors
/// Always.
pub fn wait_for_first_bytes(_socket: &impl std::os::fd::AsFd) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Unknown here.
#[must_use]
pub fn round_trip(_tcp: &TcpStream) -> Option<std::time::Duration> {
    None
}

/// Unknown here.
#[must_use]
pub fn forwarded_families() -> ForwardedFamilies {
    ForwardedFamilies::default()
}

/// The user that runs the process at the other end.
#[must_use]
pub fn peer_uid(unix: &UnixStream) -> Option<u32> {
    unix.peer_cred().ok().map(|credentials| credentials.uid())
}

/// Unknown here.
#[must_use]
pub fn is_transparent(_listener: &std::net::TcpListener) -> bool {
    true
}

/// Not supported.
///
/// # Errors
/// Always.
pub fn socket_number(_socket: &std::net::UdpSocket) -> io::Result<u64> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Not supported.
///
/// # Errors
/// Always.
pub fn listen_local(_name: &str) -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Not supported.
///
/// # Errors
/// Always.
pub fn connect_local(_name: &str) -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Not supported.
///
/// # Errors
/// Always.
pub fn accept_local(_listener: &impl AsFd) -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Not supported.
///
/// # Errors
/// Always.
pub fn local_process(_connection: &impl AsFd) -> io::Result<LocalProcess> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Not supported.
///
/// # Errors
/// Always.
pub fn local_names(_prefix: &str, _most: usize) -> io::Result<Vec<String>> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Not supported: no service manager passes sockets here as systemd does.
///
/// # Errors
/// Always.
pub fn adopt(_descriptor: i32) -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Not needed: no service manager sets any.
pub fn forget_variables(_names: &[&str]) {}

/// Unknown here.
///
/// # Errors
/// Never.
pub fn passed_kind(_socket: &Socket) -> io::Result<PassedKind> {
    Ok(PassedKind::Unusable(
        "a socket that this system passes in another way",
    ))
}

/// Unknown here.
#[must_use]
pub fn path_mtu(_socket: &impl AsFd, _remote: SocketAddr) -> Option<usize> {
    None
}

/// Not known here when datagrams come.
///
/// # Errors
/// Never.
pub fn note_arrivals(_socket: &std::net::UdpSocket) -> io::Result<()> {
    Ok(())
}

/// Reads a datagram, of which it is not known how long it has waited.
///
/// # Errors
/// The system's error.
pub fn receive_timed(
    socket: &UdpSocket,
    buffer: &mut [u8],
) -> io::Result<(usize, SocketAddr, std::time::Duration)> {
    let (length, from) = socket.try_recv_from(buffer)?;
    Ok((length, from, std::time::Duration::ZERO))
}

/// Not supported: silence says the same later.
///
/// # Errors
/// Always.
pub fn report_errors(_socket: &std::net::UdpSocket, _ipv6: bool) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// There is no error.
///
/// # Errors
/// Always.
pub fn take_queued_error(_socket: &SockRef<'_>) -> io::Result<()> {
    Err(io::ErrorKind::WouldBlock.into())
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

/// Not known.
pub fn host_name() -> Option<String> {
    None
}

/// Not supported.
///
/// # Errors
/// Always.
pub fn bind_to_interface(_socket: &Socket, _interface: &str) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Not supported.
///
/// # Errors
/// Always.
pub fn choose_port_when_connected(_socket: &Socket) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Not supported.
///
/// # Errors
/// Always.
pub fn echo_socket(_domain: Domain) -> io::Result<Socket> {
    Err(io::ErrorKind::Unsupported.into())
}

/// There is no error.
///
/// # Errors
/// Always.
pub fn take_echo_error(_socket: &impl std::os::fd::AsFd) -> io::Result<Option<EchoError>> {
    Err(io::ErrorKind::WouldBlock.into())
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

/// Does nothing: datagrams stay whole.
///
/// # Errors
/// Never.
pub fn allow_fragments(_socket: &Socket, _ipv6: bool) -> io::Result<()> {
    Ok(())
}

/// Not supported.
///
/// # Errors
/// Always.
pub fn forbid_fragments(_socket: &Socket, _ipv6: bool) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Not supported.
///
/// # Errors
/// Always.
pub fn send_cut(_socket: &std::net::UdpSocket, _length: i32) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Not supported.
///
/// # Errors
/// Always.
pub fn receive_merged(_socket: &std::net::UdpSocket) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Not supported.
///
/// # Errors
/// Always.
pub fn take_foreign_addresses(_socket: &Socket) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Not supported.
///
/// # Errors
/// Always.
pub fn mark(_socket: &Socket, _number: u32) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Not supported.
///
/// # Errors
/// Always.
pub fn new_network() -> io::Result<std::os::fd::OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Not supported.
///
/// # Errors
/// Always.
pub fn enter_network(_network: std::os::fd::BorrowedFd<'_>) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Not supported.
///
/// # Errors
/// Always.
pub fn add_cable(_name: &str, _far: (std::os::fd::BorrowedFd<'_>, &str)) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Not supported.
///
/// # Errors
/// Always.
pub fn mark_open(_number: u32) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Not supported.
///
/// # Errors
/// Always.
pub fn attach_tls<T>(_stream: &T) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Not supported.
///
/// # Errors
/// Always.
pub fn give_tls_keys<T>(_stream: &T, _secrets: &rustls::ExtractedSecrets) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Not supported.
///
/// # Errors
/// Always.
pub fn take_tls_control<T>(_stream: &T) -> io::Result<super::ControlRecord> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Not supported.
///
/// # Errors
/// Always.
pub fn send_close_notify<T>(_stream: &T) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Not supported.
#[must_use]
pub fn tun_cuts_udp(_queue: &std::os::fd::OwnedFd) -> bool {
    false
}

/// Every address of every interface (getifaddrs(3)); empty where the system does not tell.
#[must_use]
pub fn local_addresses() -> Vec<IpNet> {
    let Ok(interfaces) = nix::ifaddrs::getifaddrs() else {
        return Vec::new();
    };
    let addresses = interfaces.filter_map(|interface| {
        let address = interface.address?;
        let v4 = address
            .as_sockaddr_in()
            .map(|address| IpAddr::V4(address.ip()));
        let ip = v4.or_else(|| {
            address
                .as_sockaddr_in6()
                .map(|address| IpAddr::V6(address.ip()))
        })?;

        Some(IpNet::from(ip.to_canonical()))
    });

    addresses.collect()
}

/// Changes of addresses, which no one tells here.
#[derive(Debug)]
pub struct AddressChanges;

impl AddressChanges {
    /// There are no announcements.
    ///
    /// # Errors
    /// Always: not supported.
    pub fn hear() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Never resolves.
    ///
    /// # Errors
    /// Never.
    pub async fn next(&mut self) -> io::Result<()> {
        std::future::pending().await
    }
}

/// Links that come up, which no one tells here.
#[derive(Debug)]
pub struct LinkChanges;

impl LinkChanges {
    /// There are no announcements.
    ///
    /// # Errors
    /// Always: not supported.
    pub fn hear() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Never resolves.
    ///
    /// # Errors
    /// Never.
    pub async fn next(&mut self) -> io::Result<()> {
        std::future::pending().await
    }
}

/// Not supported: TUN devices of other systems are made in other ways.
///
/// # Errors
/// Always.
pub fn open_tun(_name: &str) -> io::Result<(std::os::fd::OwnedFd, String)> {
    Err(io::ErrorKind::Unsupported.into())
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

/// Leaves dumps as they are.
///
/// # Errors
/// Always: not supported.
pub fn allow_dumps(_allowed: bool) -> io::Result<()> {
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
pub fn attach_reuseport_filter(
    _socket: &std::net::UdpSocket,
    _program: &[Instruction],
) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Other systems than Linux have no surroundings of one program.
///
/// # Errors
/// Always.
pub fn enter_program_space() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// As [`enter_program_space`].
///
/// # Errors
/// Always.
pub fn allow_pings() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// As [`enter_program_space`].
///
/// # Errors
/// Always.
pub fn cover_folder(_folder: &std::path::Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// As [`enter_program_space`].
///
/// # Errors
/// Always.
pub fn cover_file(_file: &std::path::Path, _content: &[u8]) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Other systems than Linux have no TUN devices of this kind.
///
/// # Errors
/// Always.
pub fn foreign_tun(_queue: &std::os::fd::OwnedFd) -> io::Result<String> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Only Linux tells of the end of a process by a descriptor.
#[must_use]
pub fn watch_process(_connection: &impl std::os::fd::AsFd) -> Option<std::os::fd::OwnedFd> {
    None
}

/// Other systems than Linux have no networks of a process.
#[must_use]
pub fn is_network(_file: &impl std::os::fd::AsFd) -> bool {
    false
}
