//! A process of a node takes the sockets of the one before it, and gives its own to the next: they meet at a Unix socket.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::thread::Builder;

use hermes_net::{PassedSocket, handover};
use hermes_node::NodeHandle;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen,
    socket_with,
};

/// Processes that wait to be given the sockets.
#[doc(alias = "bound")]
const WAITING: i32 = 4;

/// The sockets that a process offers at `file`; empty when no process does.
///
/// # Errors
/// That process gives them to no one, or not to this user.
pub fn take(file: &Path) -> io::Result<Vec<PassedSocket>> {
    let socket = meeting()?;
    match connect(&socket, &SocketAddrUnix::new(file)?) {
        Ok(()) => handover::receive(&socket),
        // There is no process before, or it crashed and left its file.
        Err(Errno::NOENT | Errno::CONNREFUSED) => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

/// Gives the sockets of the node to every process that asks for them at `file` from now on, in place of the process before. A thread of its own
/// waits for them, which ends with this process.
///
/// # Errors
/// The file cannot be made.
pub fn offer(file: &Path, node: NodeHandle) -> io::Result<()> {
    let socket = meeting()?;
    // The file of the process before still names its socket; a new one cannot be bound beside it.
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    bind(&socket, &SocketAddrUnix::new(file)?)?;
    listen(&socket, WAITING)?;
    let thread = Builder::new().name("handover".to_owned());
    thread.spawn(move || give_all(&socket, &node))?;
    Ok(())
}

fn give_all(socket: &OwnedFd, node: &NodeHandle) {
    loop {
        let accepted = retry_on_intr(|| accept_with(socket, SocketFlags::CLOEXEC));
        let given = match accepted {
            Ok(other) => node.give_sockets(&other),
            Err(error) => {
                return tracing::error!(%error, "no other process can be given the sockets");
            }
        };
        match given {
            Ok(count) => tracing::info!(count, "another process has the sockets, too"),
            Err(error) => tracing::error!(%error, "another process did not get the sockets"),
        }
    }
}

fn meeting() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    Ok(socket?)
}
