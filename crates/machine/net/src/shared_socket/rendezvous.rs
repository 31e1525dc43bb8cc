//! Where the processes that share a socket meet.

use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsFd, OwnedFd};

use socket2::SockRef;

use super::message;
use super::process::{ProcessId, ProcessTag};
use crate::os;

/// Bytes that may be on their way to one process; the system doubles it for its own needs, and may allow less.
#[doc(alias = "bound")]
const WAITING: usize = 1 << 20;

/// Names that are tried: those of a few processes, and as many as a stranger may add to hide them with the descriptors that he has by
/// default, four times.
#[doc(alias = "bound")]
const NAMES: usize = 4096;

/// Processes that share a socket with this one: those of upgrades that have not ended yet.
#[doc(alias = "bound")]
pub(super) const PROCESSES: usize = 16;

/// Attempts to take a name that another process took at the same moment.
#[doc(alias = "bound")]
const TRIES: usize = 8;

/// The protocol of a socket. Processes that use it for different things have nothing to tell each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketUse {
    /// QUIC.
    Quic,
    /// The sessions of a `udp` listener.
    Sessions,
    /// WireGuard.
    Wireguard,
    /// The protocol of a `udp` listener's ingress.
    Ingress,
}

/// The place of this process among those that share a socket: its name, and connections to the others that there are.
#[derive(Debug)]
pub struct Rendezvous {
    pub(super) own: ProcessId,
    pub(super) listener: OwnedFd,
    pub(super) found: Vec<FoundProcess>,
}

/// A process that was here before.
#[derive(Debug)]
pub(super) struct FoundProcess {
    pub(super) id: ProcessId,
    pub(super) pid: i32,
    pub(super) connection: OwnedFd,
}

impl Rendezvous {
    /// Finds the other processes with `socket`, and lets later ones find this one. Does not wait
    /// for any of them.
    ///
    /// # Errors
    /// When the system has no such names, or no descriptor is left.
    pub fn open(socket: &UdpSocket, purpose: SocketUse) -> io::Result<Self> {
        let prefix = prefix(os::socket_number(socket)?, purpose);
        let mut found = Vec::new();
        find(&prefix, None, &mut found)?;

        let (own, listener) = take_name(&prefix, &found)?;
        // One that took its name in between did not find ours, or finds it now as we find its: the second connection is let go.
        find(&prefix, Some(own), &mut found)?;
        for other in &found {
            // One that cannot take it is at its end.
            let _ = rustix::net::send(
                &other.connection,
                &message::hello(own),
                rustix::net::SendFlags::empty(),
            );
        }

        Ok(Self {
            own,
            listener,
            found,
        })
    }

    /// The bytes that name this process in connection IDs.
    #[must_use]
    pub fn tag(&self) -> ProcessTag {
        self.own.tag
    }

    /// The numbers of the processes that were found.
    #[must_use]
    pub fn others(&self) -> Vec<i32> {
        self.found.iter().map(|other| other.pid).collect()
    }
}

/// The names of all processes that have this socket begin so.
fn prefix(socket: u64, purpose: SocketUse) -> String {
    let purpose = match purpose {
        SocketUse::Quic => "quic",
        SocketUse::Sessions => "udp",
        SocketUse::Wireguard => "wireguard",
        SocketUse::Ingress => "ingress",
    };
    format!("hermes/1/{purpose}/{socket:x}/")
}

fn take_name(prefix: &str, found: &[FoundProcess]) -> io::Result<(ProcessId, OwnedFd)> {
    let newest = found.iter().map(|other| other.id.generation).max();
    let generation = newest.map_or(0, |newest| newest.saturating_add(1));
    let mut tries = TRIES;

    loop {
        tries -= 1;
        let tag = ProcessTag::random();
        if found.iter().any(|other| other.id.tag == tag) {
            continue;
        }
        let own = ProcessId { generation, tag };
        match os::listen_local(&format!("{prefix}{}", own.format())) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && tries > 0 => {}
            listener => return Ok((own, listener?)),
        }
    }
}

/// Connects to the processes under these names that are of our user, and not among `found`.
fn find(prefix: &str, own: Option<ProcessId>, found: &mut Vec<FoundProcess>) -> io::Result<()> {
    for name in os::local_names(prefix, NAMES)? {
        let Some(id) = ProcessId::parse(&name) else {
            continue;
        };
        let is_known = own == Some(id) || found.iter().any(|other| other.id == id);
        if is_known || found.len() >= PROCESSES {
            continue;
        }

        let connection = match os::connect_local(&format!("{prefix}{name}")) {
            Ok(connection) => connection,
            Err(error) => {
                tracing::debug!(name, %error, "no process to share a socket with");
                continue;
            }
        };
        let process = os::local_process(&connection)?;
        if !process.is_of_our_user {
            tracing::warn!(
                user = process.uid,
                process = process.pid,
                "another user's process claims to share a socket with this one, and is ignored"
            );
            continue;
        }

        enlarge(&connection);
        found.push(FoundProcess {
            id,
            pid: process.pid,
            connection,
        });
    }

    Ok(())
}

/// Makes room for datagrams on their way to another process.
pub(super) fn enlarge(connection: &impl AsFd) {
    drop(SockRef::from(connection).set_send_buffer_size(WAITING));
}
