//! Multipath TCP (RFC 8684): a connection over several networks at once.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use socket2::{Domain, Protocol, Socket, Type};

/// Names of Linux (`linux/mptcp.h`) that the crates around do not have: the level of socket options, the option, and a flag in it.
const SOL_MPTCP: i32 = 284;
const MPTCP_INFO: i32 = 1;
const FALLBACK: u32 = 1;

/// The offset of the flags in the option's value, and the bytes of it that are asked for.
const FLAGS: usize = 8;
const INFO: usize = FLAGS + 4;

/// A socket of Multipath TCP, which blocks.
///
/// # Errors
/// The kernel has none, or `net.mptcp.enabled` is 0.
pub fn multipath_socket(domain: Domain) -> io::Result<Socket> {
    Socket::new(domain, Type::STREAM, Some(Protocol::MPTCP))
}

/// Whether a connection is of Multipath TCP, and its peer takes part.
#[must_use]
pub fn is_multipath(socket: &impl AsFd) -> bool {
    let mut info = [0_u8; INFO];
    let mut length = INFO as libc::socklen_t;
    #[expect(unsafe_code, reason = "the crates around have no name for the option")]
    let got = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            SOL_MPTCP,
            MPTCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    // A socket of TCP does not know the option, nor does one that had to become such on some kernels.
    if got != 0 || (length as usize) < INFO {
        return false;
    }
    let [.., a, b, c, d] = info;
    u32::from_ne_bytes([a, b, c, d]) & FALLBACK == 0
}
