//! A UDP socket that several processes of one user have, as a service manager passes it to a node and to its successor.
//!
//! The kernel gives each packet to the process that asks first. So the processes find each other,
//! and a packet for another process is forwarded, once: see [`Siblings`]. They meet at abstract
//! Unix sockets (unix(7)), as they have only the UDP socket in common: each has a name of its own
//! with that socket's number (`SO_COOKIE`), is found in `/proc/self/net/unix`, and is trusted only
//! if the kernel confirms that the same user listens there (`SO_PEERCRED`). No one can take such a
//! name in advance, and no name is left behind.
//!
//! A filter of the kernel (`SO_ATTACH_REUSEPORT_CBPF`) cannot do it: it chooses between sockets, and this is one.
//!
//! | who            | is given                                                    |
//! |----------------|-------------------------------------------------------------|
//! | any process    | packets that name it, sessions that it has                  |
//! | the newest one that does not drain | everything of clients that are new      |

mod message;
mod others;
mod process;
mod rendezvous;
mod siblings;

use std::net::UdpSocket;
use std::sync::atomic::{AtomicU64, Ordering};

pub use message::{ForwardKind, ReceivedRun};
pub use others::{NextDatagrams, OtherProcesses};
pub use process::ProcessTag;
pub use rendezvous::{Rendezvous, SocketUse};
pub use siblings::{Arrived, Forwarded, Sibling, Siblings};

static FORWARDED: AtomicU64 = AtomicU64::new(0);
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// A UDP socket, and where the other processes that have it are met, if there may be any.
#[derive(Debug)]
pub struct DatagramSocket {
    /// The socket.
    pub socket: UdpSocket,
    /// `None` for a socket that this process opened itself.
    pub rendezvous: Option<Rendezvous>,
}

impl From<UdpSocket> for DatagramSocket {
    fn from(socket: UdpSocket) -> Self {
        Self {
            socket,
            rendezvous: None,
        }
    }
}

/// Datagrams that went to another process, and that were lost because it did not take them in time, since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForwardCounts {
    /// Datagrams forwarded there.
    pub forwarded: u64,
    /// Datagrams that were lost.
    pub dropped: u64,
}

/// Counts of forwarded datagrams.
#[must_use]
pub fn forward_counts() -> ForwardCounts {
    ForwardCounts {
        forwarded: FORWARDED.load(Ordering::Relaxed),
        dropped: DROPPED.load(Ordering::Relaxed),
    }
}
