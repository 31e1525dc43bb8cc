//! Contents that are on disk alone, and asked for again and again: back in memory.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::Storage;
use crate::stored::Stored;

/// Of the memory of all responses, the part that one promoted content may have: it takes the place of others.
#[doc(alias = "bound")]
const PART: u64 = 4;

impl Storage {
    /// Whether contents of so many bytes come back into memory.
    pub(crate) fn takes_back(&self, bytes: u64) -> bool {
        bytes <= self.0.lock().memory.limit() / PART
    }

    /// Has a content in memory again that was read from disk; whether there is room. Others of its owner, or of one who has more, make room
    /// unless they are asked for as well.
    pub(crate) fn take_back(&self, stored: &Arc<Stored>, content: Bytes) -> bool {
        let mut shelves = self.0.lock();
        let bytes = content.len() as u64;
        if !stored.is_there() {
            return false;
        }

        // It is in use: nothing else makes room before the others have.
        stored.marks.is_used.store(true, Ordering::Relaxed);
        let has_room = shelves.make_room(&stored.shelf.owner, bytes);
        if !has_room || !stored.is_there() || !stored.take_back(content) {
            return false;
        }
        shelves.memory.fatten(stored, bytes);
        true
    }
}
