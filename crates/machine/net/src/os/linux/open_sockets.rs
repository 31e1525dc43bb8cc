//! The sockets that this process has open.

use std::io;
use std::os::fd::BorrowedFd;

use socket2::{Domain, SockRef};

/// Marks packets of all IP sockets of this process from now on (`SO_MARK`), connected ones
/// included: their routes are looked up again.
///
/// # Errors
/// `PermissionDenied`: it takes `CAP_NET_ADMIN`, or `CAP_NET_RAW` since Linux 5.17. `/proc` may not be there.
pub fn mark_open(number: u32) -> io::Result<()> {
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let name = entry?.file_name();
        let descriptor = name.to_str().and_then(|name| name.parse().ok());
        descriptor.map_or(Ok(()), |descriptor| mark_socket(descriptor, number))?;
    }
    Ok(())
}

/// Marks the socket of this descriptor, if it is one for IP. It may be closed meanwhile, and the
/// number reused.
#[expect(
    unsafe_code,
    reason = "its number is all that the system says of a descriptor"
)]
fn mark_socket(descriptor: i32, number: u32) -> io::Result<()> {
    // SAFETY: the number is not -1, and is used for system calls alone: they refuse a closed one,
    // and a reused number is a descriptor of this process, too.
    let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
    let socket = SockRef::from(&borrowed);
    let is_ip = |domain| domain == Domain::IPV4 || domain == Domain::IPV6;
    if !socket.domain().is_ok_and(is_ip) {
        return Ok(());
    }

    match socket.set_mark(number) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(error),
        // The descriptor is closed already.
        _ => Ok(()),
    }
}
