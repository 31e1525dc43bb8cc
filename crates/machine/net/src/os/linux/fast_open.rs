//! TCP Fast Open (RFC 7413): bytes in the packet that opens a connection.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

use nix::sys::socket::{setsockopt, sockopt};

/// The bit of `net.ipv4.tcp_fastopen` that lets listeners take it.
const SERVES: u32 = 2;

/// Has a listener take bytes of clients that begin; `waiting` of them may be unproved at once, and none turns it off.
///
/// # Errors
/// The kernel has no such option.
pub fn take_fast_open(listener: &impl AsFd, waiting: i32) -> io::Result<()> {
    let length = size_of::<i32>() as libc::socklen_t;
    #[expect(unsafe_code, reason = "the crates around have no name for the option")]
    let set = unsafe {
        libc::setsockopt(
            listener.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_FASTOPEN,
            (&raw const waiting).cast(),
            length,
        )
    };
    match set {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether the network of this process lets listeners take it, where that is known.
#[must_use]
pub fn serves_fast_open() -> Option<bool> {
    let text = fs::read_to_string("/proc/sys/net/ipv4/tcp_fastopen").ok()?;
    let bits: u32 = text.trim().parse().ok()?;
    Some(bits & SERVES != 0)
}

/// Has a socket that is about to be connected wait with that for its first bytes, where the kernel has a cookie of the peer.
///
/// # Errors
/// Before Linux 4.11.
pub fn wait_for_first_bytes(socket: &impl AsFd) -> io::Result<()> {
    Ok(setsockopt(socket, sockopt::TcpFastOpenConnect, &true)?)
}
