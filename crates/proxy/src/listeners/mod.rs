//! *Accept*: what arrives at a socket becomes an exchange.
//!
//! Sockets are owned by one [`table`], which is diffed and never rebuilt; every worker has its share of each socket.

mod http;
mod introduction;
pub mod table;
mod tcp;
mod udp;

use std::net::SocketAddr;
use std::sync::Arc;

use hermes_net::{Listener, Watch};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::worker::Worker;
pub use table::ListenerTable;

/// One worker's share of a listener's socket.
pub struct Door {
    /// The listener's name.
    pub name: Arc<str>,
    /// The socket.
    pub socket: Socket,
    /// Says when to stop accepting.
    pub watch: Watch,
}

/// A socket and what becomes of what arrives there.
pub enum Socket {
    /// HTTP connections.
    Http(Listener),
    /// TCP connections, each of which becomes a CONNECT.
    Tcp(Listener),
    /// Datagrams; those of one client become a CONNECT-UDP.
    Udp(std::net::UdpSocket),
}

impl Socket {
    /// Where it is bound; `None` for a Unix socket.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Http(listener) | Self::Tcp(listener) => listener.local_addr(),
            Self::Udp(socket) => socket.local_addr().ok(),
        }
    }
}

/// Opens the doors that a worker is told to, on its thread, until nobody can tell it any more.
pub async fn run(worker: Arc<Worker>, mut doors: UnboundedReceiver<Door>, watch: Watch) {
    let mut draining = false;
    loop {
        tokio::select! {
            door = doors.recv() => match door {
                Some(door) => door.open(&worker),
                None => return,
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
        let Self { name, socket, watch } = self;
        let (worker, tasks) = (worker.clone(), watch.clone());
        tasks.spawn(async move {
            let served = match socket {
                Socket::Http(listener) => http::serve(&worker, &name, listener, &watch).await,
                Socket::Tcp(listener) => tcp::serve(&worker, &name, listener, &watch).await,
                Socket::Udp(socket) => udp::serve(&worker, &name, socket, &watch).await,
            };
            if let Err(error) = served {
                tracing::error!(listener = %name, %error, "the listener's socket failed");
            }
        });
    }
}
