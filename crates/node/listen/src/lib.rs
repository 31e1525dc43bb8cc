//! *Accept*: turns arrivals at sockets and over attachments into exchanges.
//!
//! Sockets are owned by one [`table`], which is diffed and never rebuilt; every worker has its share of each socket.

mod answering_sockets;
mod attach;
mod bind;
mod binder;
mod capture;
pub mod changes;
mod device_leases;
mod device_queues;
mod device_spec;
mod device_tunnel;
pub mod device_upkeep;
mod greetings;
mod held;
mod held_syns;
mod host_capture;
mod http;
mod named;
mod parts;
mod passed;
mod proxy_header;
mod quic;
mod refusals;
mod split;
mod stream;
pub mod table;
mod tcp;
mod tun;
mod udp;
mod wanted;

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use hermes_admit::entrance::Entrance;
use hermes_admit::snapshot::ListenerRules;
use hermes_admit::worker::Worker;
use hermes_net::shared_socket::DatagramSocket;
use hermes_net::{Listener, Watch};
use hermes_plug::door::DoorId;
use tokio::sync::mpsc::UnboundedReceiver;

pub use capture::network::NetworkSpec;
pub use device_spec::DeviceSpec;
pub use host_capture::CapturedSockets;
pub use passed::PassedSockets;
pub use table::ListenerTable;

/// One worker's share of a listener's socket.
pub struct Door {
    /// Which listener's.
    pub id: DoorId,
    /// The socket.
    pub socket: Socket,
    /// Which of the listener's sockets it is; each QUIC socket has its own connections.
    pub share: u8,
    /// Says when to stop accepting.
    pub watch: Watch,
    /// The rules with which it is opened: when the worker hears of it, the listener may be gone
    /// already, but clients that wait at the socket must still be served.
    pub rules: Arc<ListenerRules>,
    /// Held until the socket is closed.
    pub served: Arc<()>,
}

/// A socket, by the kind of its arrivals.
pub enum Socket {
    /// Connections: of HTTP, or of TCP, each of which becomes a CONNECT. The listener's rules say which, at every connection.
    Stream(Listener),
    /// Datagrams; those of one client become a CONNECT-UDP.
    Udp(DatagramSocket),
    /// Connections of HTTP/3.
    Quic(DatagramSocket),
    /// No socket: this many attachments to an upstream, over which exchanges come.
    Attachments(usize),
    /// Sockets to which the traffic of other programs is led.
    Captured(Box<CapturedSockets>),
    /// A TUN device, which one worker makes and reads.
    Device(Box<DeviceSpec>),
    /// The network namespace of a pod, which one worker captures.
    Network(Box<NetworkSpec>),
}

impl Socket {
    /// Its descriptor; `None` where there is no socket.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Stream(listener) => Some(listener.as_fd()),
            Self::Udp(shared) | Self::Quic(shared) => Some(shared.socket.as_fd()),
            Self::Attachments(_) | Self::Captured(_) | Self::Device(_) | Self::Network(_) => None,
        }
    }

    /// Where it is bound; `None` for a Unix socket.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Stream(listener) => listener.local_addr(),
            Self::Udp(shared) | Self::Quic(shared) => shared.socket.local_addr().ok(),
            Self::Attachments(_) | Self::Captured(_) | Self::Device(_) | Self::Network(_) => None,
        }
    }
}

/// Opens the doors that are sent to a worker, on its thread, until the channel closes.
pub async fn run(worker: Arc<Worker>, mut doors: UnboundedReceiver<Door>, watch: Watch) {
    let mut draining = false;
    watch.spawn(device_queues::read(worker.clone(), watch.clone()));
    loop {
        tokio::select! {
            door = doors.recv() => match door {
                Some(door) => door.open(&worker),
                None => return worker.client.farewell().await,
            },
            () = watch.graceful(), if !draining => {
                draining = true;
                // No new connections are kept, but exchanges under way may still open some: the loop goes on until the doors close.
                worker.client.close();
            }
        }
    }
}

impl Door {
    /// Serves arrivals in a task of its own.
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
                // One worker serves it: the knowledge of an ingress about a peer is in one place.
                Socket::Udp(_) if entrance.rules.config.ingress().is_some() && share > 0 => Ok(()),
                Socket::Udp(socket) if entrance.rules.config.ingress().is_some() => {
                    tcp::datagrams(entrance, socket, &watch).await;
                    Ok(())
                }
                Socket::Udp(socket) => udp::serve(entrance, socket, &watch).await,
                Socket::Quic(socket) => quic::serve(entrance, socket, share, &watch).await,
                Socket::Attachments(count) => {
                    attach::serve(&entrance, count, &watch);
                    Ok(())
                }
                Socket::Captured(sockets) => {
                    Box::pin(host_capture::serve(entrance, *sockets, &watch)).await
                }
                Socket::Device(device) => Box::pin(tun::serve(entrance, &device, &watch)).await,
                Socket::Network(network) => {
                    Box::pin(capture::network::serve(entrance, &network, &watch)).await
                }
            };

            if let Err(error) = served {
                tracing::error!(listener = %name, %error, "the listener's socket failed");
            }
        });
    }
}
