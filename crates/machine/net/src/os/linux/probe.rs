//! Socket options that a machine may refuse, each set on one socket.

use std::io;
use std::net::UdpSocket;

use nix::sys::socket::{setsockopt, sockopt};
use socket2::{Domain, Protocol, Socket, Type};

/// Lets the kernel cut a send into datagrams of this many bytes (`UDP_SEGMENT`, GSO).
///
/// # Errors
/// Before Linux 4.18.
pub fn send_cut(socket: &UdpSocket, length: i32) -> io::Result<()> {
    Ok(setsockopt(socket, sockopt::UdpGsoSegment, &length)?)
}

/// Lets the kernel merge datagrams that come (`UDP_GRO`).
///
/// # Errors
/// Before Linux 5.0.
pub fn receive_merged(socket: &UdpSocket) -> io::Result<()> {
    Ok(setsockopt(socket, sockopt::UdpGroSegment, &true)?)
}

/// Lets a socket use foreign addresses (`IP_TRANSPARENT`), as a connection handed over by TPROXY
/// does.
///
/// # Errors
/// `PermissionDenied`: it takes `CAP_NET_ADMIN` or `CAP_NET_RAW`.
pub fn take_foreign_addresses(socket: &Socket) -> io::Result<()> {
    socket.set_ip_transparent_v4(true)
}

/// Marks packets of a socket, for routing rules (`SO_MARK`).
///
/// # Errors
/// `PermissionDenied`: it takes `CAP_NET_ADMIN`, or `CAP_NET_RAW` since Linux 5.17.
pub fn mark(socket: &Socket, number: u32) -> io::Result<()> {
    socket.set_mark(number)
}

/// The mark of a socket's packets; `None` where that cannot be said.
#[must_use]
pub fn socket_mark(socket: &Socket) -> Option<u32> {
    socket.mark().ok()
}

/// A socket that sends echo requests, and receives the answers (`icmp(7)`,
/// `net.ipv4.ping_group_range`) and errors about them.
///
/// # Errors
/// `PermissionDenied`: the group of the process may not open one.
pub fn echo_socket(domain: Domain) -> io::Result<Socket> {
    let protocol = match domain {
        Domain::IPV6 => Protocol::ICMPV6,
        _ => Protocol::ICMPV4,
    };
    let socket = Socket::new(domain, Type::DGRAM.nonblocking(), Some(protocol))?;
    match domain {
        Domain::IPV6 => setsockopt(&socket, sockopt::Ipv6RecvErr, &true)?,
        _ => setsockopt(&socket, sockopt::Ipv4RecvErr, &true)?,
    }
    Ok(socket)
}
