//! Datagrams with the address that they were sent to (`IP_RECVORIGDSTADDR`, `IPV6_RECVORIGDSTADDR`), which TPROXY leaves as it was.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;

use nix::cmsg_space;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt,
};
use socket2::Socket;

use super::super::DestinedDatagram;

/// Has the kernel note where datagrams were sent to.
///
/// # Errors
/// The kernel refuses it.
pub fn note_destinations(socket: &Socket, ipv6: bool) -> io::Result<()> {
    // A socket of IPv6 receives those of IPv4 with a note of that family.
    setsockopt(socket, sockopt::Ipv4OrigDstAddr, &true)?;
    if ipv6 {
        setsockopt(socket, sockopt::Ipv6OrigDstAddr, &true)?;
    }
    Ok(())
}

/// Reads a datagram without waiting.
///
/// # Errors
/// The kernel's error; `InvalidData` for one without a note.
pub fn receive_destined(
    socket: &tokio::net::UdpSocket,
    buffer: &mut [u8],
) -> io::Result<DestinedDatagram> {
    let mut buffers = [IoSliceMut::new(buffer)];
    let mut space = cmsg_space!(libc::sockaddr_in, libc::sockaddr_in6);
    let message = recvmsg::<SockaddrStorage>(
        socket.as_raw_fd(),
        &mut buffers,
        Some(&mut space),
        MsgFlags::MSG_DONTWAIT,
    )?;

    let destination = message.cmsgs()?.find_map(|said| match said {
        ControlMessageOwned::Ipv4OrigDstAddr(v4) => {
            let ip = u32::from_be(v4.sin_addr.s_addr);
            Some(SocketAddr::from((
                ip.to_be_bytes(),
                u16::from_be(v4.sin_port),
            )))
        }
        ControlMessageOwned::Ipv6OrigDstAddr(v6) => Some(SocketAddr::from((
            v6.sin6_addr.s6_addr,
            u16::from_be(v6.sin6_port),
        ))),
        _ => None,
    });
    let source = message.address.and_then(|from| {
        let v4 = from.as_sockaddr_in().map(|v4| SocketAddr::V4((*v4).into()));
        v4.or_else(|| {
            from.as_sockaddr_in6()
                .map(|v6| SocketAddr::V6((*v6).into()))
        })
    });
    let (Some(source), Some(destination)) = (source, destination) else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    Ok(DestinedDatagram {
        length: message.bytes,
        source: canonical(source),
        destination: canonical(destination),
    })
}

/// An IPv4 address in the form of IPv6 as that of IPv4.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
