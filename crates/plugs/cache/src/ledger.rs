//! Who pays for stored responses: bytes by owner, and who gives some up where there is no room.
//!
//! An owner who needs room gives up responses of his own, unless another one has more: then that one gives up some. So no user
//! evicts the share of another, however much he asks for. There is one ledger for memory, and one for the disk.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use hermes_net::memory::Owner;

use crate::stored::Stored;

/// Bytes by owner.
pub(crate) struct Ledger {
    shares: HashMap<Owner, Share>,
    bytes: u64,
    limit: u64,
}

/// The responses of an owner, the oldest first. Those that are gone may still be in it.
#[derive(Default)]
struct Share {
    bytes: u64,
    responses: usize,
    queue: VecDeque<Arc<Stored>>,
    /// Entries that keep only their keys.
    lean: VecDeque<Arc<Stored>>,
}

/// A response that is to be looked at.
pub(crate) struct Candidate {
    pub(crate) stored: Arc<Stored>,
    /// It keeps only its key.
    pub(crate) is_lean: bool,
}

/// Whether there is room.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// Enough.
    Free,
    /// Once this owner has given up more.
    Behind(Owner),
    /// Never.
    Never,
}

impl Ledger {
    /// For so many bytes.
    pub(crate) fn new(limit: u64) -> Self {
        Self {
            shares: HashMap::new(),
            bytes: 0,
            limit,
        }
    }

    /// Bytes of all owners.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes that all may have.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Holds all to so many bytes from now on. Those who have more are asked for by [`Self::overdrawn`].
    pub(crate) fn set_limit(&mut self, limit: u64) {
        self.limit = limit;
    }

    /// The owner with most bytes, if all have more than they may.
    pub(crate) fn overdrawn(&self) -> Option<Owner> {
        (self.bytes > self.limit).then(|| self.largest()).flatten()
    }

    /// Whether so many more bytes of this owner have room.
    pub(crate) fn room(&self, owner: &Owner, bytes: u64) -> Room {
        if bytes > self.limit {
            return Room::Never;
        }
        if self.bytes + bytes <= self.limit {
            return Room::Free;
        }
        let own = self.shares.get(owner).map_or(0, |share| share.bytes);
        let Some(largest) = self.largest() else {
            return Room::Never;
        };
        let most = self.shares[&largest].bytes;
        Room::Behind(match most > own + bytes {
            true => largest,
            false => owner.clone(),
        })
    }

    /// The response of an owner that is to be looked at first when room is needed: lean ones are last. It leaves the queue, to be
    /// [settled](Self::settle), [put back](Self::put_back) or [slimmed](Self::slim).
    pub(crate) fn oldest(&mut self, owner: &Owner) -> Option<Candidate> {
        let share = self.shares.get_mut(owner)?;
        let candidate = |is_lean| move |stored| Candidate { stored, is_lean };
        let oldest = share.queue.pop_front().map(candidate(false));
        oldest.or_else(|| share.lean.pop_front().map(candidate(true)))
    }

    /// Looks at it after all others.
    pub(crate) fn put_back(&mut self, stored: Arc<Stored>) {
        if let Some(share) = self.shares.get_mut(&stored.shelf.owner) {
            share.queue.push_back(stored);
        }
    }

    /// It has given up so many bytes, and can give up no more.
    pub(crate) fn slim(&mut self, stored: Arc<Stored>, bytes: u64) {
        if let Some(share) = self.shares.get_mut(&stored.shelf.owner) {
            share.bytes -= bytes;
            self.bytes -= bytes;
            share.lean.push_back(stored);
        }
    }

    /// It has so many bytes more, and can give them up.
    pub(crate) fn fatten(&mut self, stored: &Arc<Stored>, bytes: u64) {
        let Some(share) = self.shares.get_mut(&stored.shelf.owner) else {
            return;
        };
        // It has one place. Where it was before says how long ago it came, or left the memory.
        share.queue.retain(|other| !Arc::ptr_eq(other, stored));
        share.lean.retain(|other| !Arc::ptr_eq(other, stored));
        share.queue.push_back(stored.clone());
        share.bytes += bytes;
        self.bytes += bytes;
    }

    /// Counts a response for its owner.
    pub(crate) fn add(&mut self, stored: &Arc<Stored>, bytes: u64) {
        let share = self.shares.entry(stored.shelf.owner.clone()).or_default();
        share.bytes += bytes;
        share.responses += 1;
        share.queue.push_back(stored.clone());
        self.bytes += bytes;
    }

    /// Takes a response that is gone out of its owner's share. `is_here` tells those that stay.
    pub(crate) fn settle(&mut self, owner: &Owner, bytes: u64, is_here: fn(&Stored) -> bool) {
        let Some(share) = self.shares.get_mut(owner) else {
            return;
        };
        self.bytes -= bytes;
        share.bytes -= bytes;
        share.responses -= 1;
        if share.responses == 0 {
            self.shares.remove(owner);
        } else if share.queue.len() + share.lean.len() > 2 * share.responses + 16 {
            // Those that are gone hold their content, until they are looked at.
            share.queue.retain(|one| is_here(one));
            share.lean.retain(|one| is_here(one));
        }
    }

    fn largest(&self) -> Option<Owner> {
        let largest = self.shares.iter().max_by_key(|(_, share)| share.bytes);
        largest.map(|(owner, _)| owner.clone())
    }

    /// The longest queue of an owner.
    #[cfg(test)]
    pub(crate) fn longest_queue(&self) -> usize {
        let queues = self
            .shares
            .values()
            .map(|share| share.queue.len() + share.lean.len());
        queues.max().unwrap_or(0)
    }
}
