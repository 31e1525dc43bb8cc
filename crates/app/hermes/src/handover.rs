//! A process of a node takes the sockets of the one before it, and gives its own to the next: they meet at a Unix socket.

use std::fs::{self, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::thread::{self, Builder};
use std::time::Duration;

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

/// How long the process waits before it listens for others again, when it had no descriptor for one.
#[doc(alias = "bound")]
const PAUSE: Duration = Duration::from_secs(1);

/// The sockets that a process offers at `file`; empty when no process does.
///
/// # Errors
/// That process gives them to no one, or not to this user; or the file is no socket.
pub fn take(file: &Path) -> io::Result<Vec<PassedSocket>> {
    is_there(file)?;
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
/// The file cannot be made, or something else than a socket is there.
pub fn offer(file: &Path, node: NodeHandle) -> io::Result<()> {
    let socket = meeting()?;
    // The file of the process before still names its socket; a new one cannot be bound beside it.
    if is_there(file)? {
        fs::remove_file(file)?;
    }
    bind(&socket, &SocketAddrUnix::new(file)?)?;
    fs::set_permissions(file, Permissions::from_mode(0o600))?;
    listen(&socket, WAITING)?;
    let thread = Builder::new().name("handover".to_owned());
    thread.spawn(move || give_all(&socket, &node))?;
    Ok(())
}

/// Whether a process was given this file to meet others at.
///
/// # Errors
/// The file is not a socket: it belongs to something else, and stays.
fn is_there(file: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(file) {
        Ok(metadata) if metadata.file_type().is_socket() => Ok(true),
        Ok(_) => {
            let reason = "it exists and is not a socket";
            Err(io::Error::new(io::ErrorKind::AlreadyExists, reason))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn give_all(socket: &OwnedFd, node: &NodeHandle) {
    let mut last_error = None;
    loop {
        let other = match retry_on_intr(|| accept_with(socket, SocketFlags::CLOEXEC)) {
            Ok(other) => other,
            Err(error) => {
                // Descriptors or memory are used up, which may pass: the next process still needs the sockets.
                if last_error.replace(error) != Some(error) {
                    tracing::error!(%error, "no other process can be given the sockets now");
                }
                thread::sleep(PAUSE);
                continue;
            }
        };

        last_error = None;
        match node.give_sockets(&other) {
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
