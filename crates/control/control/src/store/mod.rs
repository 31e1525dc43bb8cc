//! Where states are kept: blobs by their hashes, and a few records that change.
//!
//! Blobs never change. All that changes is in *records*, each changed by compare-and-swap: the head of the overlay, tokens,
//! members, keys. Each call may block.

mod audit;
mod awaited;
mod backup;
mod cache;
mod course;
mod entries;
mod error;
mod etcd;
pub mod history;
mod leadership;
#[cfg(test)]
pub(crate) mod memory;
mod redb;
mod schema;
#[cfg(test)]
mod suite;

use hermes_api::Hash;

pub use self::audit::{Act, Audit, AuditEntry};
pub use self::awaited::Awaited;
pub use self::course::{Course, UnderWay};
pub use self::error::StoreError;
pub use self::etcd::{EtcdAddress, EtcdIdentity, EtcdStore, EtcdTls};
pub use self::leadership::{Leadership, Presence, Role};
pub use self::redb::RedbStore;
pub(crate) use self::schema::check_schema;

/// The record of a store into which a backup is being read.
pub(crate) const RESTORING: &str = "restoring";

/// A store that lasts.
pub trait Store: Send + Sync {
    /// The blob of this hash; `None` if it is not there.
    ///
    /// # Errors
    /// The store cannot be read.
    fn blob(&self, hash: &Hash) -> Result<Option<Vec<u8>>, StoreError>;

    /// The blobs of these hashes, in their order.
    ///
    /// # Errors
    /// The store cannot be read.
    fn blobs(&self, hashes: &[Hash]) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        hashes.iter().map(|hash| self.blob(hash)).collect()
    }

    /// Keeps blobs; those that are there already stay, and count as new where that is told apart.
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

    /// As [`swap`](Self::swap), if this controller still leads where several share the store.
    ///
    /// # Errors
    /// As for `swap`, and another controller leads.
    fn swap_as_leader(&self, changes: &[RecordChange]) -> Result<bool, StoreError> {
        self.swap(changes)
    }

    /// Removes blobs that no record leads to any more. Those that were kept anew since they were listed stay.
    ///
    /// # Errors
    /// The store cannot be written, or another controller leads; then some may be gone.
    fn remove_blobs(&self, blobs: &[KeptBlob]) -> Result<(), StoreError>;

    /// All blobs.
    ///
    /// # Errors
    /// The store cannot be read.
    fn kept(&self) -> Result<Vec<KeptBlob>, StoreError>;
}

/// A blob in a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeptBlob {
    /// Its hash.
    pub hash: Hash,
    /// Another one each time that it is kept, where several controllers share the store.
    pub mark: u64,
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
