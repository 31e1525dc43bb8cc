//! The port for datagrams of SOCKS6: the one of the listener, for the associations of all clients. A datagram names its association.

use std::collections::HashMap;
use std::future::pending;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use hermes_net::UdpSocket;
use hermes_proto::socks6::decode_association_message;
use parking_lot::Mutex;

use crate::association::socket::receive;

/// Ports for datagrams, at the addresses that clients have connected to.
#[derive(Debug, Default)]
pub(crate) struct DatagramPorts(Mutex<HashMap<SocketAddr, Weak<DatagramPort>>>);

impl DatagramPorts {
    /// The port at an address; `None` where it cannot be had, so that datagrams have to come by connections.
    pub(super) fn at(&self, address: SocketAddr) -> Option<Arc<DatagramPort>> {
        let mut ports = self.0.lock();
        if let Some(port) = ports.get(&address).and_then(Weak::upgrade) {
            return Some(port);
        }
        // There are no more of them than associations.
        ports.retain(|_, port| port.strong_count() > 0);

        // Shared with no other socket: it would take datagrams of a `udp` listener at this port.
        match std::net::UdpSocket::bind(address).and_then(UdpSocket::bound) {
            Ok(socket) => {
                let port = Arc::new(DatagramPort {
                    socket,
                    members: Mutex::default(),
                    reader: tokio::sync::Mutex::default(),
                });
                ports.insert(address, Arc::downgrade(&port));
                Some(port)
            }
            Err(error) => {
                tracing::info!(%address, %error, "there is no UDP port for datagrams of SOCKS6: clients can send them by their connections alone");
                None
            }
        }
    }
}

/// An association that hears datagrams.
pub(super) trait Hears: Send + Sync {
    /// Takes a message that came from this address.
    fn hear(&self, source: SocketAddr, message: &[u8]);
}

/// A port, open while an association is there.
pub(super) struct DatagramPort {
    pub(super) socket: UdpSocket,
    /// The associations, by their IDs.
    members: Mutex<HashMap<u64, Weak<dyn Hears>>>,
    /// Held by the association that reads for all of them.
    reader: tokio::sync::Mutex<()>,
}

impl std::fmt::Debug for DatagramPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DatagramPort").finish_non_exhaustive()
    }
}

impl DatagramPort {
    pub(super) fn enter(&self, id: u64, member: Weak<dyn Hears>) {
        self.members.lock().insert(id, member);
    }

    pub(super) fn leave(&self, id: u64) {
        self.members.lock().remove(&id);
    }

    /// Hands datagrams to their associations while it is the caller's turn; never returns. One reads for all: otherwise a datagram would wake each
    /// of them.
    pub(super) async fn read(&self) {
        let _turn = self.reader.lock().await;
        while self.socket.readable().await.is_ok() {
            if receive(&self.socket, |source, datagram| self.take(source, datagram)).is_err() {
                break;
            }
            tokio::task::consume_budget().await;
        }
        // Without it the associations go on by their connections.
        pending::<()>().await;
    }

    fn take(&self, source: SocketAddr, datagram: &[u8]) {
        // Broken ones are dropped in silence, as those of unknown associations are (7.3).
        let Ok(Some((message, length))) = decode_association_message(datagram) else {
            return;
        };
        let member = self.members.lock().get(&message.association).cloned();
        if let Some(member) = member.and_then(|member| member.upgrade()) {
            member.hear(source, &datagram[..length]);
        }
    }
}
