//! Where states are kept: blobs by their hashes, and a few records that change.
//!
//! Blobs never change. All that changes is in *records*, each changed by compare-and-swap: the head of the overlay, tokens,
//! members, keys. Each call may block.

mod backup;
pub mod history;
#[cfg(test)]
pub(crate) mod memory;
mod redb;
#[cfg(test)]
mod suite;

use hermes_api::Hash;

pub use self::redb::RedbStore;

/// A store that lasts.
pub trait Store: Send + Sync {
    /// The blob of this hash; `None` if it is not there.
    ///
    /// # Errors
    /// The store cannot be read.
    fn blob(&self, hash: &Hash) -> Result<Option<Vec<u8>>, StoreError>;

    /// Keeps blobs; those that are there already stay.
    ///
    /// # Errors
    /// The store cannot be written; then some may be kept.
    fn keep(&self, blobs: &[Vec<u8>]) -> Result<(), StoreError>;

    /// The record of this key; `None` if there is none.
    ///
    /// # Errors
    /// The store cannot be read.
    fn record(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// The records whose keys begin with this, in the order of their keys.
    ///
    /// # Errors
    /// The store cannot be read.
    fn records(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError>;

    /// Makes these changes, all or none, if each record is as expected; returns whether it did. It has reached the disk then.
    ///
    /// # Errors
    /// The store cannot be written; then nothing has changed.
    fn swap(&self, changes: &[RecordChange]) -> Result<bool, StoreError>;

    /// Removes blobs that no record leads to any more.
    ///
    /// # Errors
    /// The store cannot be written; then some may be gone.
    fn remove_blobs(&self, hashes: &[Hash]) -> Result<(), StoreError>;

    /// The hashes of all blobs.
    ///
    /// # Errors
    /// The store cannot be read.
    fn hashes(&self) -> Result<Vec<Hash>, StoreError>;
}

/// The change of one record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordChange {
    /// Its key, such as `head` or `token/k3`.
    pub key: String,
    /// Its content before; `None` if there must be none.
    pub expected: Option<Vec<u8>>,
    /// Its content afterwards; `None` removes it.
    pub new: Option<Vec<u8>>,
}

/// A failure of a store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("store: {0}")]
pub struct StoreError(pub String);
