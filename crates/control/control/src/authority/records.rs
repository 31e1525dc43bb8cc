//! Records of the store as types.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::store::{Act, Audit, RecordChange, Store, StoreError};

/// Typed access to records.
#[derive(Clone)]
pub(super) struct Records {
    store: Arc<dyn Store>,
    audit: Audit,
}

impl Records {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            audit: Audit::new(store.clone()),
            store,
        }
    }

    pub(super) fn raw(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.record(key)
    }

    pub(super) fn put_raw(
        &self,
        key: &str,
        expected: Option<Vec<u8>>,
        new: Option<Vec<u8>>,
    ) -> Result<bool, StoreError> {
        let key = key.to_owned();
        self.store.swap(&[RecordChange { key, expected, new }])
    }

    /// The record of a key.
    pub(super) fn get<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, StoreError> {
        let found = self.store.record(key)?;
        found.map(|bytes| parsed(key, &bytes)).transpose()
    }

    /// The records whose keys begin so, in the order of their keys.
    pub(super) fn all<T: DeserializeOwned>(&self, prefix: &str) -> Result<Vec<T>, StoreError> {
        let found = self.store.records(prefix)?;
        found
            .iter()
            .map(|(key, bytes)| parsed(key, bytes))
            .collect()
    }

    /// Changes one record if it is as it was read; returns whether it did.
    pub(super) fn put<T: Serialize>(
        &self,
        key: &str,
        expected: Option<&T>,
        new: Option<&T>,
    ) -> Result<bool, StoreError> {
        self.swap(&[change(key, expected, new)])
    }

    pub(super) fn remove<T: Serialize>(&self, key: &str, expected: &T) -> Result<bool, StoreError> {
        self.put(key, Some(expected), None)
    }

    /// Makes several changes, all or none, and tells of them in the audit.
    pub(super) fn swap_told(
        &self,
        changes: &[RecordChange],
        act: &Act<'_>,
    ) -> Result<bool, StoreError> {
        self.audit.swap(changes, act)
    }

    /// Makes several changes, all or none.
    pub(super) fn swap(&self, changes: &[RecordChange]) -> Result<bool, StoreError> {
        self.store.swap(changes)
    }
}

/// The change of one record.
pub(super) fn change<T: Serialize>(
    key: &str,
    expected: Option<&T>,
    new: Option<&T>,
) -> RecordChange {
    // Records are structs of texts and whole numbers, which are always JSON.
    let bytes = |record: &T| serde_json::to_vec(record).unwrap_or_default();
    RecordChange {
        key: key.to_owned(),
        expected: expected.map(bytes),
        new: new.map(bytes),
    }
}

fn parsed<T: DeserializeOwned>(key: &str, bytes: &[u8]) -> Result<T, StoreError> {
    serde_json::from_slice(bytes).map_err(|error| StoreError::new(format!("record {key}: {error}")))
}
