//! A process of a node takes the sockets of the one before it, and gives its own to the next: they meet at a Unix socket.

use std::fs::{self, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
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
    let address = SocketAddrUnix::new(file)?;
    if let Some(sockets) = take_at(file, &address)? {
        return Ok(sockets);
    }

    // A process that crashed may have had one before it, which goes on and still has the sockets.
    let before = before(file);
    match SocketAddrUnix::new(&before) {
        Ok(address) => Ok(take_at(&before, &address)?.unwrap_or_default()),
        Err(_) => Ok(Vec::new()),
    }
}

/// The sockets that a process offers at this file; `None` when no process does.
fn take_at(file: &Path, address: &SocketAddrUnix) -> io::Result<Option<Vec<PassedSocket>>> {
    if !is_there(file)? {
        return Ok(None);
    }
    let socket = meeting()?;
    match connect(&socket, address) {
        Ok(()) => handover::receive(&socket).map(Some),
        // It crashed and left its file, which must not take the place of one that another answers at.
        Err(Errno::CONNREFUSED) => {
            fs::remove_file(file)?;
            Ok(None)
        }
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The file at which the process before is met, once another has taken its place.
fn before(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push("~");
    name.into()
}

/// Gives the sockets of the node to every process that asks for them at `file` from now on, in place of the process before. A thread of its own
/// waits for them, which ends with this process.
///
/// # Errors
/// The file cannot be made, or something else than a socket is there.
pub fn offer(file: &Path, node: NodeHandle) -> io::Result<()> {
    let socket = meeting()?;
    // The file of the process before still names its socket: it is kept beside the new one, for the case that this process crashes.
    let before = before(file);
    if is_there(file)? {
        is_there(&before)?;
        fs::rename(file, before)?;
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
