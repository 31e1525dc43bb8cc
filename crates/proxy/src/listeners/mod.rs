//! *Accept*: what arrives at a socket, or over an attachment, becomes an exchange.
//!
//! Sockets are owned by one [`table`], which is diffed and never rebuilt; every worker has its share of each socket.

mod attach;
mod bind;
mod clients;
mod greetings;
mod http;
mod introduction;
mod joins;
mod passed;
mod quic;
mod refusals;
mod sessions;
mod sources;
mod stream;
pub mod table;
mod tcp;
mod udp;
mod wanted;

use std::net::SocketAddr;
use std::sync::Arc;

use hermes_net::{Listener, Watch};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::door::DoorId;
use crate::entrance::Entrance;
use crate::snapshot::ListenerRules;
use crate::worker::Worker;
pub use joins::{JoinView, Joins};
pub use passed::PassedSockets;
pub use sessions::{Joined, SessionPermit, Sessions};
pub use sources::{Permit, Sources, Users};
pub use table::ListenerTable;

/// One worker's share of a listener's socket.
pub struct Door {
    /// Which listener's.
    pub id: DoorId,
    /// The socket.
    pub socket: Socket,
    /// Which of the listener's sockets it is; of QUIC, each has its own connections.
    pub share: u8,
    /// Says when to stop accepting.
    pub watch: Watch,
    /// The rules with which it is opened: by the time that the worker hears of it, the listener may be gone again, and what
    /// waits at the socket is to be served all the same.
    pub rules: Arc<ListenerRules>,
    /// Held until the socket is closed.
    pub served: Arc<()>,
}

/// A socket and what becomes of what arrives there.
pub enum Socket {
    /// Connections: of HTTP, or of TCP, each of which becomes a CONNECT. The listener's rules say which, at every connection.
    Stream(Listener),
    /// Datagrams; those of one client become a CONNECT-UDP.
    Udp(std::net::UdpSocket),
    /// Connections of HTTP/3.
    Quic(std::net::UdpSocket),
    /// No socket: this many attachments to an upstream, over which exchanges come.
    Attachments(usize),
}

impl Socket {
    /// Where it is bound; `None` for a Unix socket.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Stream(listener) => listener.local_addr(),
            Self::Udp(socket) | Self::Quic(socket) => socket.local_addr().ok(),
            Self::Attachments(_) => None,
        }
    }
}

/// Opens the doors that a worker is told to, on its thread, until no one can tell it any more.
pub async fn run(worker: Arc<Worker>, mut doors: UnboundedReceiver<Door>, watch: Watch) {
    let mut draining = false;
    loop {
        tokio::select! {
            door = doors.recv() => match door {
                Some(door) => door.open(&worker),
                None => return worker.client.farewell().await,
            },
            () = watch.graceful(), if !draining => {
                draining = true;
                worker.client.close();
            }
        }
    }
}

impl Door {
    /// Serves what comes, in a task of its own.
    fn open(self, worker: &Arc<Worker>) {
        let Self {
            id,
            socket,
            share,
            watch,
            rules,
            served,
        } = self;
        let entrance = Entrance::of(worker, id, rules);
        let tasks = watch.clone();
        tasks.spawn(async move {
            let name = entrance.rules.name.clone();
            let _held = served;
            let served = match socket {
                Socket::Stream(listener) => stream::serve(entrance, listener, &watch).await,
                Socket::Udp(socket) => udp::serve(entrance, socket, &watch).await,
                Socket::Quic(socket) => quic::serve(entrance, socket, share, &watch).await,
                Socket::Attachments(count) => {
                    attach::serve(&entrance, count, &watch);
                    Ok(())
                }
            };
            if let Err(error) = served {
                tracing::error!(listener = %name, %error, "the listener's socket failed");
            }
        });
    }
}
