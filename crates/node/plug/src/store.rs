//! A store: keeps contents, also beyond the life of the clients that brought them.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use hermes_net::memory::{Overdrawn, Owner};

use crate::settings::Settings;

/// Keeps contents of messages: those that an exchange needs more than once, and those that outlive it.
///
/// - **Gets** the owner of a content, the key under which to find it, and its length if known; then
///   the content in pieces, in order.
/// - **Must** return the bytes that it was given, or an error: never fewer without one. A
///   content that was not [finished](StoreWriter::finish) is not found and leaves nothing behind. A
///   content without a key lives as long as someone holds it, one with a key until it is removed;
///   holders may still read on then.
/// - **Time**: none is set, but a client waits: a store that waits for a disk must not keep the worker.
/// - **Errors**: a [`StoreError`] says whether there was no room or whether it failed; the exchange is refused with 503 or 500.
/// - **Charged**: it must bound its contents, in total and per owner, so that no owner takes the
///   room of the others.
/// - **Runs** on the worker of the exchange; a store is shared by all workers. Asked once for a content, and once for each piece.
///
/// A broadcast keeps its request's content in the store that `broadcast: { store: NAME }` names. Handlers are given theirs by the
/// program that makes them.
pub trait Store: Send + Sync {
    /// Begins to keep a content. One that is there under the same key is found until the new one is finished, and then replaced.
    ///
    /// # Errors
    /// There is no room for it, or the store failed.
    fn create(&self, content: NewContent) -> Storing<'_, Box<dyn StoreWriter>>;

    /// The settings that it takes, as `broadcast: { store: { NAME: {..} } }`. Default: none.
    fn settings(&self) -> Option<Settings<dyn Store>> {
        None
    }

    /// The content of this key, if there is one.
    ///
    /// # Errors
    /// The store failed.
    fn find(&self, key: &str) -> Storing<'_, Option<Arc<dyn StoredContent>>>;

    /// Forgets the content of this key; whether there was one.
    ///
    /// # Errors
    /// The store failed.
    fn remove(&self, key: &str) -> Storing<'_, bool>;
}

/// The result of a store, which may take its time.
pub type Storing<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// A content that is to be kept.
#[derive(Debug, Clone)]
pub struct NewContent {
    /// The key by which it can be found; `None` if only its writer will read it.
    pub key: Option<String>,
    /// Who is charged.
    pub owner: Owner,
    /// Its length in bytes, where that was announced. It may be a lie.
    pub length: Option<u64>,
}

impl Default for NewContent {
    /// A content of this machine's own programs.
    fn default() -> Self {
        Self {
            key: None,
            owner: Owner::Local,
            length: None,
        }
    }
}

/// Takes a content. If it is dropped before it has [finished](Self::finish), nothing remains.
pub trait StoreWriter: Send {
    /// Takes the next piece.
    ///
    /// # Errors
    /// There is no room for it, or the store failed; the content is lost then.
    fn write(&mut self, piece: Bytes) -> Storing<'_, ()>;

    /// This was all.
    ///
    /// # Errors
    /// The store failed; the content is lost then.
    fn finish(self: Box<Self>) -> Storing<'static, Arc<dyn StoredContent>>;
}

/// A content that is kept. Many may read it, each at its own pace.
pub trait StoredContent: Send + Sync {
    /// Its length in bytes.
    fn length(&self) -> u64;

    /// Bytes from this offset on: as many as the store has at hand, at least one, and none only at the end.
    ///
    /// # Errors
    /// The store failed, or the content has changed.
    fn read(&self, offset: u64) -> Storing<'_, Bytes>;
}

/// Why a store does not keep or give a content, in words for records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreError {
    /// There is no room.
    Full(String),
    /// It failed.
    Failed(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(reason) => write!(f, "the store has no room: {reason}"),
            Self::Failed(reason) => write!(f, "the store failed: {reason}"),
        }
    }
}

impl std::error::Error for StoreError {}

impl From<Overdrawn> for StoreError {
    fn from(overdrawn: Overdrawn) -> Self {
        Self::Full(overdrawn.to_string())
    }
}
