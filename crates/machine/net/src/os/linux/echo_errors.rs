//! Errors of routers and hosts about echoes of an ICMP socket (`ip(7)`, `IP_RECVERR`).

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd};

use nix::cmsg_space;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrLike, SockaddrStorage, recvmsg};

use crate::os::EchoError;

/// Bytes of the quoted part of an echo: its header (RFC 792).
const QUOTED: usize = 8;

/// Takes one of the queued errors; `None` if it is about another packet, or comes from this
/// machine.
///
/// # Errors
/// `WouldBlock`: there is no error.
pub fn take_echo_error(socket: &impl AsFd) -> io::Result<Option<EchoError>> {
    let mut quoted = [0; QUOTED];
    let mut parts = [IoSliceMut::new(&mut quoted)];
    let mut control = cmsg_space!(libc::sock_extended_err, libc::sockaddr_in6);
    let received = recvmsg::<SockaddrStorage>(
        socket.as_fd().as_raw_fd(),
        &mut parts,
        Some(&mut control),
        MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT,
    )?;

    let target = received.address.as_ref().and_then(address);
    let told = received.cmsgs()?.find_map(|message| told(&message));
    let is_quoted = received.bytes == QUOTED;
    let (Some(target), Some((error, from)), true) = (target, told, is_quoted) else {
        return Ok(None);
    };
    Ok(Some(EchoError {
        number: u16::from_be_bytes([quoted[6], quoted[7]]),
        target,
        from,
        kind_and_code: [error.ee_type, error.ee_code],
        info: error.ee_info,
    }))
}

/// The error of a router or host, and its address.
fn told(message: &ControlMessageOwned) -> Option<(libc::sock_extended_err, Option<IpAddr>)> {
    match message {
        ControlMessageOwned::Ipv4RecvErr(error, from)
            if error.ee_origin == libc::SO_EE_ORIGIN_ICMP =>
        {
            let from = from.map(|from| Ipv4Addr::from(from.sin_addr.s_addr.to_ne_bytes()));
            Some((*error, from.map(IpAddr::V4)))
        }
        ControlMessageOwned::Ipv6RecvErr(error, from)
            if error.ee_origin == libc::SO_EE_ORIGIN_ICMP6 =>
        {
            let from = from.map(|from| Ipv6Addr::from(from.sin6_addr.s6_addr));
            Some((*error, from.map(IpAddr::V6)))
        }
        _ => None,
    }
}

fn address(storage: &SockaddrStorage) -> Option<IpAddr> {
    match storage.family()? {
        nix::sys::socket::AddressFamily::Inet => Some(IpAddr::V4(storage.as_sockaddr_in()?.ip())),
        _ => Some(IpAddr::V6(storage.as_sockaddr_in6()?.ip())),
    }
}
