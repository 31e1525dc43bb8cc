//! Sockets that answer captured datagrams from the addresses that these were sent to.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use hermes_net::UdpSocket;
use hermes_net::host_capture::answering_socket;
use parking_lot::Mutex;

/// Entries after which those of sockets that are gone are looked for: few, beside the sockets that are open.
const LOOK: usize = 64;

/// One socket for each target, for all its sessions.
#[derive(Clone, Default)]
pub(crate) struct AnsweringSockets(Arc<Mutex<KnownSockets>>);

#[derive(Default)]
struct KnownSockets {
    of: HashMap<SocketAddr, Weak<UdpSocket>>,
    /// The number of entries at which to look for sockets that are gone.
    look: usize,
}

impl AnsweringSockets {
    /// The socket of this target; `None` when none can be opened.
    pub(crate) fn of(&self, target: SocketAddr) -> Option<Arc<UdpSocket>> {
        let mut known = self.0.lock();
        if let Some(socket) = known.of.get(&target).and_then(Weak::upgrade) {
            return Some(socket);
        }

        let opened = answering_socket(target).and_then(|socket| {
            let socket = UdpSocket::bound(socket)?;
            // To its client it is the target, whose long answers a router may cut.
            socket.allow_fragments()?;
            Ok(socket)
        });
        let socket = match opened {
            Ok(socket) => Arc::new(socket),
            Err(error) => {
                tracing::debug!(%target, %error, "there is no socket for answers of this target");
                return None;
            }
        };
        known.enter(target, &socket);
        Some(socket)
    }
}

impl KnownSockets {
    fn enter(&mut self, target: SocketAddr, socket: &Arc<UdpSocket>) {
        if self.of.len() >= self.look {
            self.of.retain(|_, socket| socket.strong_count() > 0);
            // Twice as many: each entry is looked at twice at most, on average.
            self.look = (self.of.len() * 2).max(LOOK);
        }
        self.of.insert(target, Arc::downgrade(socket));
    }
}
