//! The kernel's measurements of a TCP connection (`tcp(7)`, `TCP_INFO`).

use std::mem::{MaybeUninit, size_of};
use std::os::fd::AsRawFd;
use std::time::Duration;

use tokio::net::TcpStream;

/// The smoothed round-trip time of a connection, from its handshake on.
#[must_use]
pub fn round_trip(tcp: &TcpStream) -> Option<Duration> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut length = libc::socklen_t::try_from(size_of::<libc::tcp_info>()).ok()?;
    #[expect(
        unsafe_code,
        reason = "the option is a structure of the kernel, which writes no more than `length`; all of it are numbers, for which zeros are values"
    )]
    let info = unsafe {
        let failed = libc::getsockopt(
            tcp.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        );
        (failed == 0).then(|| info.assume_init())
    }?;

    // An older kernel writes less, and leaves zero.
    (info.tcpi_rtt > 0).then(|| Duration::from_micros(u64::from(info.tcpi_rtt)))
}
