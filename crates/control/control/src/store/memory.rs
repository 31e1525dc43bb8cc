//! A store that is gone with its process, for tests.

use std::collections::BTreeMap;

use hermes_api::Hash;
use parking_lot::Mutex;

use super::{KeptBlob, RecordChange, Store, StoreError};

/// A store in memory.
#[derive(Default)]
pub struct MemoryStore {
    blobs: Mutex<BTreeMap<Hash, Vec<u8>>>,
    records: Mutex<BTreeMap<String, Vec<u8>>>,
}

impl Store for MemoryStore {
    fn blob(&self, hash: &Hash) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.blobs.lock().get(hash).cloned())
    }

    fn keep(&self, blobs: &[Vec<u8>]) -> Result<(), StoreError> {
        let named = blobs.iter().map(|blob| (Hash::of(blob), blob.clone()));
        self.blobs.lock().extend(named);
        Ok(())
    }

    fn record(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.records.lock().get(key).cloned())
    }

    fn records(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let records = self.records.lock();
        let found = records.range(prefix.to_owned()..);
        let found = found.take_while(|(key, _)| key.starts_with(prefix));
        Ok(found
            .map(|(key, record)| (key.clone(), record.clone()))
            .collect())
    }

    fn swap(&self, changes: &[RecordChange]) -> Result<bool, StoreError> {
        let mut records = self.records.lock();
        let is_expected =
            |change: &RecordChange| records.get(&change.key) == change.expected.as_ref();
        if !changes.iter().all(is_expected) {
            return Ok(false);
        }
        for change in changes {
            match &change.new {
                Some(record) => drop(records.insert(change.key.clone(), record.clone())),
                None => drop(records.remove(&change.key)),
            }
        }
        Ok(true)
    }

    fn remove_blobs(&self, blobs: &[KeptBlob]) -> Result<(), StoreError> {
        let mut known = self.blobs.lock();
        for blob in blobs {
            known.remove(&blob.hash);
        }
        Ok(())
    }

    fn kept(&self) -> Result<Vec<KeptBlob>, StoreError> {
        let blobs = self.blobs.lock();
        let kept = blobs.keys().map(|hash| KeptBlob {
            hash: *hash,
            mark: 0,
        });
        Ok(kept.collect())
    }
}
