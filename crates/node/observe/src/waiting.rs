//! Memory of queued lines: bounded for a queue, and shared between their owners.
//!
//! While little waits, nothing is asked but how much. Beyond a quarter of the bound, an owner may have as many bytes as are free then: one
//! who has exchanges without end leaves room for the records of others.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hermes_net::memory::Owner;
use parking_lot::Mutex;

/// The share of a queue that is anyone's.
const FREE: usize = 4;

/// The bytes of one queue.
#[derive(Debug)]
pub(super) struct WaitingRoom {
    most: usize,
    /// Bytes that one entry counts at least: as many entries as the queue takes fill it.
    least: usize,
    all: AtomicUsize,
    /// Of entries that came when more than a quarter was used.
    owners: Mutex<HashMap<Owner, usize>>,
}

/// The bytes of an entry that waits; not any more when this is dropped.
#[derive(Debug)]
pub(super) struct WaitingPart {
    room: Arc<WaitingRoom>,
    bytes: usize,
    owner: Option<Owner>,
}

impl WaitingRoom {
    /// Of a queue of so many entries, and so many bytes.
    pub(super) fn new(entries: usize, most: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            least: most / entries,
            all: AtomicUsize::new(0),
            owners: Mutex::default(),
        })
    }

    /// Room for an entry of so many bytes; `None` where its owner has as many as are free.
    pub(super) fn enter(
        self: &Arc<Self>,
        bytes: usize,
        owner: impl FnOnce() -> Owner,
    ) -> Option<WaitingPart> {
        let bytes = bytes.max(self.least);
        let all = self.all.fetch_add(bytes, Ordering::Relaxed) + bytes;
        // A refused line gives its bytes back.
        let mut part = WaitingPart {
            room: self.clone(),
            bytes,
            owner: None,
        };
        if all <= self.most / FREE {
            return Some(part);
        }

        let free = self.most.checked_sub(all)?;
        let owner = owner();
        let mut owners = self.owners.lock();
        let own = owners.get(&owner).copied().unwrap_or_default();
        if own + bytes > free {
            // Without the lock: it is taken again to give back.
            drop(owners);
            return None;
        }

        owners.insert(owner.clone(), own + bytes);
        drop(owners);
        part.owner = Some(owner);
        Some(part)
    }
}

impl Drop for WaitingPart {
    fn drop(&mut self) {
        self.room.all.fetch_sub(self.bytes, Ordering::Relaxed);
        let Some(owner) = &self.owner else {
            return;
        };

        let mut owners = self.room.owners.lock();
        if let Some(own) = owners.get_mut(owner) {
            *own -= self.bytes;
            if *own == 0 {
                owners.remove(owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(room: &Arc<WaitingRoom>, user: &str, bytes: usize) -> Vec<WaitingPart> {
        let one = || room.enter(bytes, || Owner::User(user.into()));
        std::iter::from_fn(one).collect()
    }

    #[test]
    fn who_has_much_that_waits_leaves_room_for_others() {
        let room = WaitingRoom::new(1000, 1_000_000);
        let greedy = fill(&room, "greedy", 1000);
        assert!((500..750).contains(&greedy.len()), "{}", greedy.len());
        let second = fill(&room, "second", 1000);
        assert!((100..300).contains(&second.len()), "{}", second.len());
        let third = fill(&room, "third", 10_000);
        assert!(!third.is_empty());

        drop((greedy, second, third));
        assert_eq!(room.all.load(Ordering::Relaxed), 0);
        assert!(room.owners.lock().is_empty());
    }

    #[test]
    fn small_entries_count_as_places_of_their_queue() {
        let room = WaitingRoom::new(100, 1_000_000);
        let entries = fill(&room, "alice", 1);
        assert!((50..75).contains(&entries.len()), "{}", entries.len());
        assert!(room.enter(2_000_000, || Owner::Local).is_none());
    }
}
