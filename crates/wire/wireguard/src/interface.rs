//! An interface: one key, on one port, and its peers.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Instant;

use crate::handshake::Opened;
use crate::indices::PeerId;
use crate::macs::{Admission, HandshakeGuard};
use crate::message::{Data, Initiation, Macs, Message, Response};
use crate::own::{Outgoing, Own};
use crate::peer::{Peer, PeerSettings, PeerView};
use crate::timestamp::WallClock;
use hermes_noise::{NoKey, PrivateKey, PublicKey};

/// An interface.
///
/// A received datagram goes into [`handle_datagram`](Self::handle_datagram), which names the peer
/// of its packet. [`send`](Self::send) seals a packet. After either, and after
/// [`handle_timeout`](Self::handle_timeout), [`poll_outgoing`](Self::poll_outgoing) has the
/// datagrams to send, and [`poll_timeout`](Self::poll_timeout) the time of the next timer.
pub struct Interface {
    own: Own,
    public_key: PublicKey,
    guard: HandshakeGuard,
    peers: HashMap<PeerId, Peer>,
    by_key: HashMap<PublicKey, PeerId>,
    next: u32,
    refused: RefusedDatagrams,
}

/// Numbers of datagrams that were refused, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RefusedDatagrams {
    /// No message of WireGuard.
    pub malformed: u64,
    /// Handshakes from senders that do not know the key of this interface.
    pub bad_macs: u64,
    /// Handshakes with keys that are no peer's, and those that cannot be read.
    pub strangers: u64,
    /// Handshakes that were answered with a cookie, because there were many.
    pub cookies: u64,
    /// Handshakes that were too many.
    pub too_many: u64,
    /// Messages under an index that no session has.
    pub unknown_sessions: u64,
    /// Messages of known peers that do not count: played again, forged, or under old keys.
    pub of_peers: u64,
}

/// A key that is a peer's already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} is a peer of this port already")]
pub struct PeerTwice(pub PublicKey);

impl Interface {
    /// An interface without peers.
    ///
    /// # Errors
    /// The primitives refuse the key, or the system gives no random bytes.
    pub fn new(key: PrivateKey, clock: WallClock) -> Result<Self, NoKey> {
        let public_key = key.public();
        let guard = HandshakeGuard::new(&public_key, clock.at).ok_or(NoKey)?;
        Ok(Self {
            own: Own::new(key, clock),
            public_key,
            guard,
            peers: HashMap::new(),
            by_key: HashMap::new(),
            next: 0,
            refused: RefusedDatagrams::default(),
        })
    }

    /// The key by which peers know the interface.
    pub fn public_key(&self) -> PublicKey {
        self.public_key
    }

    /// Whether the interface has this key.
    pub fn has_key(&self, key: &PrivateKey) -> bool {
        self.own.key == *key
    }

    /// Adds a peer.
    ///
    /// # Errors
    /// [`PeerTwice`].
    pub fn add_peer(&mut self, settings: PeerSettings, now: Instant) -> Result<PeerId, PeerTwice> {
        let key = settings.public_key;
        if self.by_key.contains_key(&key) {
            return Err(PeerTwice(key));
        }
        let id = PeerId(self.next);
        self.next += 1;
        self.by_key.insert(key, id);
        self.peers.insert(id, Peer::new(id, settings, now));
        Ok(id)
    }

    /// Begins a handshake with a peer at the address that another end with this key has learned.
    pub fn take_over(&mut self, id: PeerId, endpoint: SocketAddr, now: Instant) {
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.take_over(&mut self.own, endpoint, now);
        }
    }

    /// The known endpoints of peers.
    pub fn endpoints(&self) -> impl Iterator<Item = (PublicKey, SocketAddr)> + '_ {
        let peers = self.peers.values();
        peers.filter_map(|peer| Some((*peer.public_key(), peer.endpoint()?)))
    }

    /// Forgets a peer, its keys and its endpoint.
    pub fn remove_peer(&mut self, id: PeerId) {
        if let Some(peer) = self.peers.remove(&id) {
            // Both maps change together: a key without a peer could never be added again.
            self.by_key.remove(peer.public_key());
            peer.leave(&mut self.own);
        }
    }

    /// How many peers it has.
    pub fn peers(&self) -> usize {
        self.peers.len()
    }

    /// The visible state of a peer.
    pub fn view(&self, id: PeerId, now: Instant) -> Option<PeerView> {
        self.peers.get(&id).map(|peer| peer.view(now))
    }

    /// Refused datagrams, by reason.
    pub fn refused(&self) -> RefusedDatagrams {
        self.refused
    }

    /// Handles a datagram. Returns the peer of the packet in `room`, if there is one; its source is
    /// one that the peer may use.
    pub fn handle_datagram(
        &mut self,
        from: SocketAddr,
        datagram: &[u8],
        room: &mut Vec<u8>,
        now: Instant,
    ) -> Option<PeerId> {
        match Message::decode(datagram) {
            Some(Message::Data(data)) => return self.handle_data(from, &data, room, now),
            Some(Message::Initiation(initiation)) => self.handle_initiation(from, &initiation, now),
            Some(Message::Response(response)) => self.handle_response(from, &response, now),
            Some(Message::Cookie(reply)) => {
                let is_taken = self
                    .peer_of(reply.receiver)
                    .map(|(peer, _)| peer.handle_cookie(&reply, now));
                self.count(is_taken);
            }
            None => self.refused.malformed += 1,
        }
        None
    }

    fn handle_data(
        &mut self,
        from: SocketAddr,
        data: &Data<'_>,
        room: &mut Vec<u8>,
        now: Instant,
    ) -> Option<PeerId> {
        let Some(id) = self.own.indices.peer(data.receiver) else {
            self.refused.unknown_sessions += 1;
            return None;
        };
        let peer = self.peers.get_mut(&id)?;
        peer.handle_data(&mut self.own, (from, data), room, now)
            .then_some(id)
    }

    fn handle_initiation(&mut self, from: SocketAddr, initiation: &Initiation<'_>, now: Instant) {
        if !self.admits((from, initiation.sender), &initiation.macs, now) {
            return;
        }
        // Two Diffie-Hellman operations: the first work that a stranger can cause, hence behind `admits`.
        let opened = Opened::read(&self.own.key, initiation.noise).ok();
        let known = opened.and_then(|opened| {
            let id = self.by_key.get(&opened.peer)?;
            Some((self.peers.get_mut(id)?, opened))
        });
        let Some((peer, opened)) = known else {
            self.refused.strangers += 1;
            return;
        };
        let is_taken = peer.handle_initiation(&mut self.own, (from, initiation), opened, now);
        self.count(Some(is_taken));
    }

    fn handle_response(&mut self, from: SocketAddr, response: &Response<'_>, now: Instant) {
        if !self.admits((from, response.sender), &response.macs, now) {
            return;
        }
        let is_taken = self
            .peer_of(response.receiver)
            .map(|(peer, own)| peer.handle_response(own, (from, response), now));
        self.count(is_taken);
    }

    /// Whether a message of a handshake is read.
    fn admits(&mut self, (from, sender): (SocketAddr, u32), macs: &Macs<'_>, now: Instant) -> bool {
        let peers = self.peers.values();
        // A closure: the guard walks over the peers only under load, when a place in the budget depends on it.
        let is_peer = || peers.into_iter().any(|peer| peer.is_at(from.ip()));
        match self.guard.admit((from, sender), macs, is_peer, now) {
            Admission::Admitted => return true,
            Admission::BadMac => self.refused.bad_macs += 1,
            Admission::TooMany => self.refused.too_many += 1,
            Admission::Cookie(reply) => {
                self.refused.cookies += 1;
                self.own.send(from, reply);
            }
        }
        false
    }

    fn peer_of(&mut self, index: u32) -> Option<(&mut Peer, &mut Own)> {
        let id = self.own.indices.peer(index)?;
        Some((self.peers.get_mut(&id)?, &mut self.own))
    }

    /// Counts a message as taken or not; `None`: it belongs to no peer.
    fn count(&mut self, is_taken: Option<bool>) {
        match is_taken {
            Some(true) => {}
            Some(false) => self.refused.of_peers += 1,
            None => self.refused.unknown_sessions += 1,
        }
    }

    /// Seals a packet for a peer behind the bytes in `out`. Returns its destination; `None` if it
    /// waits for keys, which are asked for, or is lost, because its destination is not the peer's
    /// or the peer's endpoint is unknown.
    pub fn send(
        &mut self,
        peer: PeerId,
        packet: &[u8],
        out: &mut Vec<u8>,
        now: Instant,
    ) -> Option<SocketAddr> {
        let peer = self.peers.get_mut(&peer)?;
        peer.send(&mut self.own, packet, out, now)
    }

    /// The next datagram that is to be sent, beside those that [`send`](Self::send) seals.
    pub fn poll_outgoing(&mut self) -> Option<Outgoing> {
        self.own.poll_outgoing()
    }

    /// When [`Self::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.peers.values().filter_map(Peer::poll_timeout).min()
    }

    /// Handles timers that are due.
    pub fn handle_timeout(&mut self, now: Instant) {
        for peer in self.peers.values_mut() {
            peer.handle_timeout(&mut self.own, now);
        }
    }

    /// How many indices sessions and handshakes have.
    #[cfg(test)]
    pub(crate) fn indices(&self) -> usize {
        self.own.indices.len()
    }
}

impl std::fmt::Debug for Interface {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Interface")
            .field("public_key", &self.public_key)
            .field("peers", &self.peers.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
