//! Shares of users and of neighbours in the bytes that are held.

use std::hash::BuildHasher;

use hermes_proto::custody::ObjectPart;

use super::Engine;
use super::exchange::{ExchangeKey, NeighbourId, object};
use crate::owner::{HeldAccount, Owner};
use crate::room::{HELD, SHARED};

impl Engine {
    /// Counts an exchange for this owner. No user holds more than half of the room that others leave, for readers and for
    /// neighbours alike, and no neighbour more than three quarters in the names of its users; a little of each exchange is held in any case.
    pub fn belongs(&mut self, key: ExchangeKey, owner: Owner) {
        let Some(exchange) = self.exchanges.get_mut(&key) else {
            return;
        };
        exchange.owner = Some(owner);
        if let Some(log) = &exchange.log {
            log.lock().belongs(owner);
        }
        let neighbour = &mut self.neighbours[key.neighbour.0];
        for part in [ObjectPart::Request, ObjectPart::Response] {
            neighbour.sender.belongs(object(key, part), owner);
            neighbour.receiver.belongs(object(key, part), owner);
        }
    }

    /// An account for the head that the reader of an exchange holds: it counts as bytes for readers.
    pub(crate) fn account(&self, key: ExchangeKey) -> HeldAccount {
        self.held.read.account(self.owner(key))
    }

    /// The owner of an exchange, where that is known.
    pub fn owner(&self, key: ExchangeKey) -> Option<Owner> {
        self.exchanges.get(&key)?.owner
    }

    /// The owner that a user of this neighbour, or of this node, is. Users of two neighbours are two, whatever they are called; requests without
    /// a user are the neighbour's own.
    pub fn owner_of(&self, neighbour: Option<NeighbourId>, user: Option<&str>) -> Owner {
        Owner {
            user: self.held.owners.hash_one((neighbour, user)),
            neighbour: neighbour.map(|neighbour| self.held.owners.hash_one(neighbour)),
        }
    }

    /// Bytes that the owner of an exchange may still give neighbours, where so many are held of all.
    pub(super) fn share(&self, key: ExchangeKey, held: u64) -> u64 {
        let owner = self.exchanges.get(&key).and_then(|known| known.owner);
        match owner.filter(|_| held > SHARED) {
            Some(owner) => self.held.kept.left(owner, held, HELD),
            None => u64::MAX,
        }
    }
}
