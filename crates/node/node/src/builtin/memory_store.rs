//! The store `memory`: contents in the memory of this process, charged to their owners.

use std::collections::HashMap;
use std::future::ready;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use hermes_net::memory::{Charge, Memory, Overdrawn, Purpose};
use hermes_plug::{NewContent, Store, StoreError, StoreWriter, StoredContent, Storing};
use parking_lot::Mutex;

/// The charge of each content beside its bytes, so that there are not too many empty ones.
#[doc(alias = "bound")]
const EACH: usize = 512;

/// Contents in memory.
#[derive(Debug, Clone)]
pub(crate) struct MemoryStore {
    memory: &'static Memory,
    named: Arc<Mutex<HashMap<String, Arc<InMemory>>>>,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self {
            memory: Memory::node(),
            named: Arc::default(),
        }
    }
}

/// A content that is kept.
#[derive(Debug)]
struct InMemory {
    data: Bytes,
    _charge: Charge,
}

/// A content that comes.
struct Writer {
    key: Option<String>,
    data: BytesMut,
    charge: Charge,
    named: Arc<Mutex<HashMap<String, Arc<InMemory>>>>,
}

impl MemoryStore {
    fn begin(&self, content: NewContent) -> Result<Writer, Overdrawn> {
        let account = self.memory.owner(content.owner);
        Ok(Writer {
            key: content.key,
            data: BytesMut::new(),
            charge: account.charge(Purpose::Collected, EACH)?,
            named: self.named.clone(),
        })
    }
}

impl Store for MemoryStore {
    /// The announced length is not believed: bytes are charged as they come.
    fn create(&self, content: NewContent) -> Storing<'_, Box<dyn StoreWriter>> {
        let writer = self.begin(content);
        let writer = writer.map(|writer| Box::new(writer) as Box<dyn StoreWriter>);
        Box::pin(ready(writer.map_err(StoreError::from)))
    }

    fn find(&self, key: &str) -> Storing<'_, Option<Arc<dyn StoredContent>>> {
        let found = self.named.lock().get(key).cloned();
        let found = found.map(|kept| kept as Arc<dyn StoredContent>);
        Box::pin(ready(Ok(found)))
    }

    fn remove(&self, key: &str) -> Storing<'_, bool> {
        let removed = self.named.lock().remove(key);
        Box::pin(ready(Ok(removed.is_some())))
    }
}

impl StoreWriter for Writer {
    fn write(&mut self, piece: Bytes) -> Storing<'_, ()> {
        let grown = self.charge.grow(piece.len());
        if grown.is_ok() {
            // A copy: the piece may be a small part of a large buffer, which it would keep alive.
            self.data.extend_from_slice(&piece);
        }
        Box::pin(ready(grown.map_err(StoreError::from)))
    }

    fn finish(self: Box<Self>) -> Storing<'static, Arc<dyn StoredContent>> {
        let Self {
            key,
            data,
            charge,
            named,
        } = *self;
        let kept = Arc::new(InMemory {
            // No larger than the charge: a buffer that grew is up to twice as large.
            data: Bytes::copy_from_slice(&data),
            _charge: charge,
        });
        if let Some(key) = key {
            named.lock().insert(key, kept.clone());
        }
        Box::pin(ready(Ok(kept as Arc<dyn StoredContent>)))
    }
}

impl StoredContent for InMemory {
    fn length(&self) -> u64 {
        self.data.len() as u64
    }

    /// All that is left, in one piece.
    fn read(&self, offset: u64) -> Storing<'_, Bytes> {
        let length = self.data.len();
        let from = usize::try_from(offset).unwrap_or(length).min(length);
        Box::pin(ready(Ok(self.data.slice(from..))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hermes_net::memory::{CONNECTION, Owner};

    const MIB: usize = 1 << 20;

    fn store() -> MemoryStore {
        MemoryStore {
            memory: Box::leak(Box::new(Memory::new(64 * MIB, CONNECTION))),
            named: Arc::default(),
        }
    }

    fn of(owner: &str) -> NewContent {
        NewContent {
            owner: Owner::User(owner.into()),
            ..NewContent::default()
        }
    }

    async fn keep(store: &MemoryStore, new: NewContent, bytes: usize) -> Arc<dyn StoredContent> {
        let mut writer = store.create(new).await.unwrap();
        writer.write(vec![7; bytes].into()).await.unwrap();
        writer.finish().await.unwrap()
    }

    fn used(store: &MemoryStore) -> (usize, usize) {
        let memory = store.memory;
        (memory.charged(), memory.largest_owners(10).len())
    }

    #[tokio::test]
    async fn each_reads_what_was_written_at_its_own_pace() {
        let store = store();
        let mut writer = store.create(of("alice")).await.unwrap();
        for piece in ["one ", "two ", "three"] {
            writer.write(piece.into()).await.unwrap();
        }
        let content = writer.finish().await.unwrap();
        assert_eq!(content.length(), 13);
        assert_eq!(content.read(0).await.unwrap(), "one two three");
        assert_eq!(content.read(8).await.unwrap(), "three");
        assert_eq!(content.read(13).await.unwrap(), "");
        assert_eq!(content.read(u64::MAX).await.unwrap(), "");
    }

    #[tokio::test]
    async fn room_is_taken_for_what_comes_and_given_back() {
        let store = store();
        let announced = NewContent {
            length: Some(1 << 40),
            ..of("alice")
        };
        let kept = keep(&store, announced, 1000).await;
        assert_eq!(used(&store), (EACH + 1000, 1));

        let mut unfinished = store.create(of("bob")).await.unwrap();
        unfinished.write(vec![0; 24].into()).await.unwrap();
        assert_eq!(used(&store), (2 * EACH + 1024, 2));
        drop(unfinished);
        drop(kept);
        assert_eq!(used(&store), (0, 0));
    }

    #[tokio::test]
    async fn one_owner_cannot_fill_it() {
        let store = store();
        let kept = keep(&store, of("alice"), 15 * MIB).await;
        let mut refused = store.create(of("alice")).await.unwrap();
        let error = refused.write(vec![7; 2 * MIB].into()).await.unwrap_err();
        assert!(matches!(error, StoreError::Full(_)), "{error}");
        assert!(error.to_string().contains("user alice holds"), "{error}");

        keep(&store, of("bob"), 5 * MIB).await;
        drop((kept, refused));
        assert_eq!(used(&store), (0, 0));
    }

    #[tokio::test]
    async fn what_has_a_key_stays_until_it_is_removed() {
        let store = store();
        let named = |owner: &str| NewContent {
            key: Some("k".to_owned()),
            ..of(owner)
        };
        drop(keep(&store, named("alice"), 10).await);
        let held = store.find("k").await.unwrap().unwrap();
        assert_eq!(held.length(), 10);

        // The later one takes its place, and leaves it to those who hold it.
        drop(keep(&store, named("bob"), 20).await);
        assert_eq!(store.find("k").await.unwrap().unwrap().length(), 20);
        assert_eq!(held.length(), 10);
        drop(held);

        assert!(store.remove("k").await.unwrap());
        assert!(!store.remove("k").await.unwrap());
        assert!(store.find("k").await.unwrap().is_none());
        assert_eq!(used(&store), (0, 0));
    }
}
