//! Blobs in memory, up to a bound: the oldest go first.

use std::collections::{HashMap, VecDeque};

use hermes_api::Hash;
use parking_lot::Mutex;

/// Bytes of all blobs in memory.
#[doc(alias = "bound")]
const BYTES: usize = 32 * 1024 * 1024;

/// Blobs in memory.
#[doc(alias = "bound")]
const COUNT: usize = 200_000;

/// Blobs that were read.
#[derive(Default)]
pub(super) struct BlobCache(Mutex<Cached>);

#[derive(Default)]
struct Cached {
    blobs: HashMap<Hash, Vec<u8>>,
    /// In the order in which they came; one that was removed is passed over.
    order: VecDeque<Hash>,
    bytes: usize,
}

impl BlobCache {
    pub(super) fn get(&self, hash: &Hash) -> Option<Vec<u8>> {
        self.0.lock().blobs.get(hash).cloned()
    }

    pub(super) fn put(&self, blob: &[u8]) {
        let mut cached = self.0.lock();
        let hash = Hash::of(blob);
        if cached.blobs.insert(hash, blob.to_vec()).is_some() {
            return;
        }
        cached.bytes += blob.len();
        cached.order.push_back(hash);
        while cached.bytes > BYTES || cached.order.len() > COUNT {
            let Some(oldest) = cached.order.pop_front() else {
                return;
            };
            cached.remove(&oldest);
        }
    }

    pub(super) fn remove(&self, hash: &Hash) {
        self.0.lock().remove(hash);
    }
}

impl Cached {
    fn remove(&mut self, hash: &Hash) {
        if let Some(blob) = self.blobs.remove(hash) {
            self.bytes -= blob.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_blobs_go_first() {
        let cache = BlobCache::default();
        let blob = |number: u8| vec![number; 10 * 1024 * 1024];
        for number in 1..=4 {
            cache.put(&blob(number));
        }
        assert_eq!(cache.get(&Hash::of(&blob(1))), None);
        assert_eq!(cache.get(&Hash::of(&blob(4))), Some(blob(4)));
        cache.remove(&Hash::of(&blob(4)));
        assert_eq!(cache.get(&Hash::of(&blob(4))), None);
    }
}
