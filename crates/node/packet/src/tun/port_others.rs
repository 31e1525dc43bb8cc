//! The other processes that have the socket of a port of WireGuard.
//!
//! A port has one key, and a device one machine behind it that knows one end of ours: so one
//! process at a time has the port, the oldest. It tells the others the endpoints of its peers,
//! whenever one has moved. When it gives the port up, or is gone, the next oldest has it, and
//! begins a handshake with each of them at once: a peer does not wait until it notices by itself
//! that its keys are forgotten.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::task::{Context, Poll};

use hermes_net::shared_socket::{ForwardKind, ReceivedRun, Rendezvous, Siblings, SocketUse};
use hermes_wireguard::PublicKey;

/// Peers with known endpoints: more than a port has in any document of a sensible size.
#[doc(alias = "bound")]
const PEERS: usize = 4096;

/// Bytes of a key.
const KEY: usize = 32;

/// The other processes.
#[derive(Debug)]
pub(super) struct PortOthers {
    siblings: Siblings,
    room: Vec<u8>,
    /// Where the peers of the process that has the port are.
    known: HashMap<PublicKey, SocketAddr>,
    /// Where the newest process was told that the peers are; how many others there were then.
    told: HashMap<PublicKey, SocketAddr>,
    listeners: usize,
}

impl PortOthers {
    /// The processes that share this socket, now and later.
    ///
    /// # Errors
    /// When the system has no names for them.
    pub(super) fn meet(socket: &UdpSocket) -> io::Result<Self> {
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(io::Error::other("there is no run time"));
        }
        let rendezvous = Rendezvous::open(socket, SocketUse::Wireguard)?;
        Ok(Self {
            siblings: Siblings::new(rendezvous)?,
            room: Vec::new(),
            known: HashMap::new(),
            told: HashMap::new(),
            listeners: 0,
        })
    }

    /// The process that has the port before this one has it, by its number.
    pub(super) fn holder(&self) -> Option<i32> {
        let older = self.siblings.older(None)?;
        self.siblings.process(older)
    }

    /// Hears the others; ready when no older process is left.
    pub(super) fn poll_freed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.hear(cx);
        match self.holder() {
            Some(_) => Poll::Pending,
            None => Poll::Ready(()),
        }
    }

    /// Hears the others; ready when one came that was not told yet where the peers are.
    pub(super) fn poll_newcomer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.hear(cx);
        match self.siblings.count() > self.listeners {
            true => Poll::Ready(()),
            false => {
                self.listeners = self.siblings.count();
                Poll::Pending
            }
        }
    }

    fn hear(&mut self, cx: &mut Context<'_>) {
        while let Poll::Ready(arrived) = self.siblings.poll_next(cx, &mut self.room) {
            let Some(heard) = arrived.decode(&self.room) else {
                continue;
            };
            let key: Option<[u8; KEY]> = heard.run.bytes.try_into().ok();
            let (ForwardKind::Whereabouts, Some(key)) = (heard.kind, key) else {
                continue;
            };
            if self.known.len() < PEERS {
                self.known.insert(PublicKey(key), heard.run.source);
            }
        }
    }

    /// Tells the others where the peers are, as far as they do not know.
    pub(super) fn tell(&mut self, peers: impl Iterator<Item = (PublicKey, SocketAddr)>) {
        let count = self.siblings.count();
        if count > self.listeners {
            self.told.clear();
        }
        self.listeners = count;
        if count == 0 {
            return;
        }
        for (key, at) in peers {
            if self.told.get(&key) == Some(&at) {
                continue;
            }
            let bytes = &key.0[..];
            let run = ReceivedRun {
                source: at,
                local: None,
                ecn: 0,
                stride: bytes.len(),
                bytes,
            };
            if self.siblings.tell(&run) {
                self.told.insert(key, at);
            }
        }
    }

    /// Where the process that had the port knew this peer to be.
    pub(super) fn take_known(&mut self, peer: &PublicKey) -> Option<SocketAddr> {
        self.known.remove(peer)
    }
}
