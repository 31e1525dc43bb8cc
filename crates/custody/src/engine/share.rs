//! Shares of users and of neighbours in what is held.

use super::{Engine, ExchangeKey, HELD};
use crate::owner::{Holdings, Owner};

/// Below so many bytes in all, no one can have more than half of what others leave.
const SHARED: u64 = HELD / 3;

impl Engine {
    /// Whose an exchange is. No user holds more than half of what others leave, of what is held for readers and of what is held for
    /// neighbours, and no neighbour more than three quarters in the names of its users; a little of each exchange is held in any case.
    pub fn belongs(&mut self, key: ExchangeKey, owner: Owner) {
        if let Some(exchange) = self.exchanges.get_mut(&key) {
            exchange.owner = Some(owner);
            if let Some(log) = &exchange.log {
                log.lock().belongs(owner);
            }
        }
    }

    /// Whose an exchange is, where that is known.
    pub fn owner(&self, key: ExchangeKey) -> Option<Owner> {
        self.exchanges.get(&key)?.owner
    }

    /// Finds out who holds as much as one may, where so many bytes are held for readers.
    pub(super) fn share_room(&mut self, held: u64) {
        if held > SHARED || self.has_crowded {
            self.has_crowded = self.mark_crowded(held);
        }
    }

    /// Bytes that the owner of an exchange may still give neighbours, where so many are held of all.
    pub(super) fn share(&self, key: ExchangeKey, held: usize) -> usize {
        let owner = self.exchanges.get(&key).and_then(|known| known.owner);
        let Some(owner) = owner.filter(|_| held as u64 > SHARED) else {
            return usize::MAX;
        };
        let mut holdings = Holdings::default();
        for (key, known) in &self.exchanges {
            if let Some((owner, written)) = known.owner.zip(self.written(*key)) {
                let sender = &self.neighbours[key.neighbour.0].sender;
                holdings.add(owner, sender.held_of(written) as u64);
            }
        }
        holdings.left(owner, held as u64, HELD) as usize
    }

    /// Finds those whose owners hold as much as they may, of so many bytes in all. Whether there are any.
    fn mark_crowded(&mut self, held: u64) -> bool {
        let mut holdings = Holdings::default();
        let mut owned = Vec::new();
        for (key, known) in &self.exchanges {
            let Some((owner, object)) = known.owner.zip(self.read_object(*key)) else {
                continue;
            };
            let receiver = &self.neighbours[key.neighbour.0].receiver;
            holdings.add(owner, receiver.held_of(object));
            owned.push((key.neighbour, object, owner));
        }

        let mut has_crowded = false;
        for (neighbour, object, owner) in owned {
            let is_crowded = holdings.left(owner, held, HELD) == 0;
            has_crowded |= is_crowded;
            let receiver = &mut self.neighbours[neighbour.0].receiver;
            receiver.set_crowded(object, is_crowded);
        }
        has_crowded
    }
}
