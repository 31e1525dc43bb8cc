//! Tunnels in custody: exchanges whose two directions end by themselves.
//!
//! A message is over with its response. A tunnel is over when both of its directions are: the node that asks lets go of the response only
//! when the bytes of its client have been passed on by the other side, which says so by letting go of the request.

use std::time::Instant;

use hermes_proto::custody::{FinCode, ObjectPart};

use super::Engine;
use super::exchange::{Event, ExchangeKey, NeighbourId, object};
use super::tunnel_state::Tunnelled;

impl Engine {
    /// An exchange is a tunnel: it is kept in memory, lasts as long as the neighbour is heard, and its directions end by themselves.
    pub fn tunnel(&mut self, key: ExchangeKey) {
        // It would grow as long as it is open, and could not be opened again.
        self.keep_in_memory(key);
        let Some(read) = self.read_object(key) else {
            return;
        };
        self.neighbours[key.neighbour.0].receiver.keep(read);
        if let Some(known) = self.exchanges.get_mut(&key) {
            known.tunnelled = Tunnelled::Open;
        }
    }

    /// This node has read all that it wants of a tunnel that it answers: whether that was all of it, the neighbour is told.
    pub fn done_reading(&mut self, key: ExchangeKey, now: Instant) {
        let read = self.read_object(key).filter(|_| self.is_tunnel(key));
        if let Some(read) = read {
            self.neighbours[key.neighbour.0].receiver.forget(read, now);
        }
    }

    /// Whether the neighbour takes more bytes of this node.
    pub fn is_wanted(&self, key: ExchangeKey) -> bool {
        let written = self.written(key);
        written.is_some_and(|written| self.neighbours[key.neighbour.0].sender.has(written))
    }

    /// The neighbour was heard about an exchange.
    pub(super) fn heard(&mut self, neighbour: NeighbourId, exchange: [u8; 16], now: Instant) {
        let key = ExchangeKey {
            neighbour,
            exchange,
        };
        let known = self.exchanges.get_mut(&key);
        if let Some(known) = known.filter(|known| known.tunnelled != Tunnelled::No) {
            known.until = now + known.keep;
        }
    }

    /// Whether an exchange that this node is done with goes on: all of the response has come, and the neighbour has not all of the request.
    pub(super) fn lingers(&mut self, key: ExchangeKey) -> bool {
        let neighbour = &self.neighbours[key.neighbour.0];
        let response = neighbour.receiver.get(object(key, ObjectPart::Response));
        let is_answered = response.is_some_and(|want| want.spool().is_whole());
        let is_said = neighbour
            .sender
            .is_finished(object(key, ObjectPart::Request));

        let lingers = self.is_tunnel(key) && is_answered && is_said;
        if lingers && let Some(known) = self.exchanges.get_mut(&key) {
            known.tunnelled = Tunnelled::Closing;
        }
        lingers
    }

    /// The neighbour has let go of the request of a tunnel.
    pub(super) fn let_go_request(&mut self, key: ExchangeKey, code: FinCode, now: Instant) {
        let request = object(key, ObjectPart::Request);
        let tunnelled = self.exchanges.get(&key).map(|known| known.tunnelled);
        if code == FinCode::Cancelled || tunnelled.is_some_and(|is| is != Tunnelled::No) {
            self.neighbours[key.neighbour.0].sender.let_go(request);
            self.writers.has_room();
            // One that waits for room learns that there will be none.
            self.events.push_back(Event::Writable(key));
        }
        if tunnelled == Some(Tunnelled::Closing) {
            self.events.push_back(Event::Over(key));
            self.end(key, now);
        }
    }

    fn is_tunnel(&self, key: ExchangeKey) -> bool {
        let known = self.exchanges.get(&key);
        known.is_some_and(|known| known.tunnelled != Tunnelled::No)
    }
}
