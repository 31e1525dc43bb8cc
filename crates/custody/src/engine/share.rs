//! Shares of users in what is held: none has more than half of what others leave.

use std::collections::HashMap;

use super::{Engine, ExchangeKey, HELD};
use crate::owner::Owner;

/// Below so many bytes in all, no one can have more than half of what others leave.
const SHARED: u64 = HELD / 3;

impl Engine {
    /// Whose an exchange is. No owner holds more than half of what others leave, of what is held for readers and of what is held for
    /// neighbours; a little of each exchange is held in any case.
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
        if owner.is_none() || held as u64 <= SHARED {
            return usize::MAX;
        }
        let of_owner = self.exchanges.iter();
        let of_owner = of_owner.filter(|(_, known)| known.owner == owner);
        let own: usize = of_owner
            .filter_map(|(key, _)| {
                let sender = &self.neighbours[key.neighbour.0].sender;
                Some(sender.held_of(self.written(*key)?))
            })
            .sum();
        half_of_rest(held as u64, own as u64) as usize
    }

    /// Finds those whose owners hold as much as they may, of so many bytes in all. Whether there are any.
    fn mark_crowded(&mut self, held: u64) -> bool {
        let mut owners: HashMap<Owner, u64> = HashMap::new();
        let mut owned = Vec::new();
        for (key, known) in &self.exchanges {
            let Some((owner, object)) = known.owner.zip(self.read_object(*key)) else {
                continue;
            };
            let receiver = &self.neighbours[key.neighbour.0].receiver;
            *owners.entry(owner).or_default() += receiver.held_of(object);
            owned.push((key.neighbour, object, owner));
        }

        let mut has_crowded = false;
        for (neighbour, object, owner) in owned {
            let own = owners.get(&owner).copied().unwrap_or_default();
            let is_crowded = half_of_rest(held, own) == 0;
            has_crowded |= is_crowded;
            let receiver = &mut self.neighbours[neighbour.0].receiver;
            receiver.set_crowded(object, is_crowded);
        }
        has_crowded
    }
}

/// What an owner may still hold, who has this many bytes of so many in all: half of what the others leave.
fn half_of_rest(held: u64, own: u64) -> u64 {
    let others = held.saturating_sub(own);
    (HELD.saturating_sub(others) / 2).saturating_sub(own)
}
