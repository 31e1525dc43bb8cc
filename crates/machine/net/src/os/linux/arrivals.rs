//! When datagrams came, by the kernel's clock (`SO_TIMESTAMPNS`).

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::cmsg_space;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt,
};
use nix::sys::time::TimeSpec;
use tokio::io::Interest;

/// Has the kernel note when datagrams come to this socket.
///
/// # Errors
/// The kernel refuses it.
pub fn note_arrivals(socket: &UdpSocket) -> io::Result<()> {
    setsockopt(socket, sockopt::ReceiveTimestampns, &true)?;
    Ok(())
}

/// Reads a datagram: its length, where it came from, and how long it has waited; zero if the kernel did not note it.
///
/// # Errors
/// The kernel's error.
pub fn receive_timed(
    socket: &tokio::net::UdpSocket,
    buffer: &mut [u8],
) -> io::Result<(usize, SocketAddr, Duration)> {
    socket.try_io(Interest::READABLE, || receive(socket.as_raw_fd(), buffer))
}

fn receive(socket: RawFd, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr, Duration)> {
    let mut buffers = [IoSliceMut::new(buffer)];
    let mut space = cmsg_space!(TimeSpec);
    let message =
        recvmsg::<SockaddrStorage>(socket, &mut buffers, Some(&mut space), MsgFlags::empty())?;

    let came = message.cmsgs()?.find_map(|said| match said {
        ControlMessageOwned::ScmTimestampns(came) => Some(UNIX_EPOCH + Duration::from(came)),
        _ => None,
    });
    let waited = came.and_then(|came| SystemTime::now().duration_since(came).ok());
    let from = message.address.and_then(|from| address(&from));
    let from = from.ok_or_else(|| io::Error::other("a datagram without an address"))?;
    Ok((message.bytes, from, waited.unwrap_or_default()))
}

fn address(from: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = from.as_sockaddr_in();
    let v6 = from.as_sockaddr_in6();
    v4.map(|v4| SocketAddr::V4((*v4).into()))
        .or_else(|| v6.map(|v6| SocketAddr::V6((*v6).into())))
}
