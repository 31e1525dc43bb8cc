//! *Accept*: what arrives at a socket, or over an attachment, becomes an exchange.
//!
//! Sockets are owned by one [`table`], which is diffed and never rebuilt; every worker has its share of each socket.

mod admission;
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

use hermes_net::{Drain, Listener, StreamInfo, Watch};
use hermes_upstream::Pinned;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::snapshot::{ListenerRules, Snapshot};
use crate::worker::Worker;
pub(crate) use admission::Admission;
use hermes_net::clock::unix_seconds;
pub use joins::{JoinView, Joins};
pub use passed::PassedSockets;
pub use sessions::{Joined, SessionPlace, Sessions};
pub use sources::{Place, Sources, Users};
pub use table::ListenerTable;

/// The sockets of one listener, whatever it is called: names and rules change, doors stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DoorId(u64);

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
    /// No socket: so many attachments to an upstream, over which exchanges come.
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

/// Where exchanges come in: a door, and the rules that were last in force there.
#[derive(Clone)]
pub(crate) struct Entrance {
    /// The worker.
    pub(crate) worker: Arc<Worker>,
    /// The door.
    pub(crate) door: DoorId,
    /// The rules last seen. They stay in force where the listener is gone and what it accepted goes on.
    pub(crate) rules: Arc<ListenerRules>,
    /// The place of the connection among those of its source, where there is a bound.
    pub(crate) admission: Option<Arc<Admission>>,
    /// The connection that it came on; none where that is not one of HTTP that a client opened.
    pub(crate) connection: Option<Arc<Connection>>,
}

/// What belongs to one connection of a client.
#[derive(Debug, Default)]
pub(crate) struct Connection {
    /// Ends it, once what is open on it has ended; for those whose client showed a certificate.
    ending: Option<Drain>,
    /// Connections to servers that are its own.
    pub(crate) pinned: Pinned,
}

impl Entrance {
    /// A door before anything came through it.
    fn of(worker: &Arc<Worker>, door: DoorId, rules: Arc<ListenerRules>) -> Self {
        Self {
            worker: worker.clone(),
            door,
            rules,
            admission: None,
            connection: None,
        }
    }

    /// Whether the certificate that the client showed, if any, is believed now: a resumed session shows one of before.
    pub(crate) fn believes(&self, source: &StreamInfo) -> bool {
        let snapshot = self.worker.snapshot();
        self.rules_in(&snapshot)
            .still_believes(source, snapshot.revision, unix_seconds())
            .is_ok()
    }

    /// Takes no more exchanges from the connection, whose client is to come again on another: its certificate is not believed any
    /// more, and perhaps there is a new one.
    pub(crate) fn dismiss(&self) {
        if let Some(ending) = self
            .connection
            .as_ref()
            .and_then(|connection| connection.ending.as_ref())
        {
            ending.start();
        }
    }

    /// The rules in force now for what arrives.
    fn renew(&mut self) -> &Arc<ListenerRules> {
        if let Some(rules) = self.worker.snapshot().behind(self.door) {
            self.rules = rules.clone();
        }
        &self.rules
    }

    /// The entrance of a door that was opened at this one's address after this one was closed. Sockets that share a port do not
    /// choose whose datagrams they get.
    fn successor(&self) -> Option<Self> {
        let snapshot = self.worker.snapshot();
        let address = self.rules.config.udp.as_ref()?;
        let found = snapshot.doors.iter().find_map(|(door, name)| {
            let rules = snapshot
                .listeners
                .get(name)
                .filter(|_| *door != self.door)?;
            rules
                .config
                .udp
                .as_ref()
                .is_some_and(|other| other.overlaps(address))
                .then(|| (*door, rules.clone()))
        });
        let (door, rules) = found?;
        Some(Self::of(&self.worker, door, rules))
    }

    /// The rules of `snapshot` for an exchange of something that was accepted here before. A listener that has become one of
    /// another kind says nothing of it.
    pub(crate) fn rules_in(&self, snapshot: &Snapshot) -> Arc<ListenerRules> {
        let now = snapshot
            .behind(self.door)
            .filter(|now| now.kind() == self.rules.kind());
        now.unwrap_or(&self.rules).clone()
    }
}
