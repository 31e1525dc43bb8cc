//! The mark of this process's own sockets, by which routing rules let them bypass its own devices
//! (`SO_MARK`).

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use socket2::SockRef;

use crate::os;
use crate::os::OWN_MARK;

/// Whether there is a device that sockets have to bypass. It stays so: a socket that was opened
/// once is marked for good.
static IS_IN_FORCE: AtomicBool = AtomicBool::new(false);

/// Marks this process's sockets, open and future ones. To be called before there is a device that
/// they have to bypass: even answers to clients of a listener would be routed to it.
///
/// # Errors
/// `PermissionDenied`: the process has not the right that it needs to make a device, either. Then nothing is marked.
pub fn begin() -> io::Result<()> {
    if IS_IN_FORCE.load(Ordering::SeqCst) {
        return Ok(());
    }
    let probe = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    os::mark(&SockRef::from(&probe), OWN_MARK.0)?;

    // A socket that is opened meanwhile is marked by its opener.
    IS_IN_FORCE.store(true, Ordering::SeqCst);
    os::mark_open(OWN_MARK.0)
}

/// Marks a socket, where that matters: one that is to be connected, or listens, from which the connections that it accepts have the mark.
///
/// # Errors
/// `PermissionDenied`: the process has lost the right that it had to make its device.
pub fn marked<S: AsFd>(socket: S) -> io::Result<S> {
    if IS_IN_FORCE.load(Ordering::SeqCst) {
        os::mark(&SockRef::from(&socket), OWN_MARK.0)?;
    }
    Ok(socket)
}
