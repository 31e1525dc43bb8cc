//! Contents on disk that come back into memory because requests ask for them again.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hermes_net::memory::{Memory, Purpose};

use crate::asked::Asked;
use crate::disk::OpenContent;
use crate::stored::Stored;

/// Contents that are read into memory at once, by all workers.
#[doc(alias = "bound")]
pub(crate) const AT_ONCE: usize = 4;

impl Asked {
    /// A content is given from disk: at the second time since it left the memory, it is read as a whole, beside the request.
    pub(crate) fn promote(&self, stored: &Arc<Stored>, opened: &OpenContent) {
        let was_read = stored.marks.was_read.swap(true, Ordering::Relaxed);
        let bytes = opened.length();
        if !was_read || !self.shared.storage.takes_back(bytes) {
            return;
        }
        let Ok(turn) = self.shared.promotions.clone().try_acquire_owned() else {
            return;
        };
        let account = Memory::node().owner(stored.shelf.owner.clone());
        let mut charge = account.empty_charge(Purpose::Cached);
        if !charge.grow_if_free(usize::try_from(bytes).unwrap_or(usize::MAX)) {
            return;
        }

        let shared = self.shared.clone();
        let stored = stored.clone();
        let opened = opened.clone();
        self.opener.spawn(async move {
            let _turn = turn;
            // A block that cannot be read is found by the next request.
            let Ok(content) = opened.read_all().await else {
                return;
            };
            // From here on the response pays for it.
            drop(charge);
            if shared.storage.take_back(&stored, content) {
                shared.counts.promoted();
            }
        });
    }
}
