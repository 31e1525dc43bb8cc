//! The store `memory`: contents in the memory of this process.

use std::collections::HashMap;
use std::future::ready;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;

use crate::plug::{NewContent, Store, StoreError, StoreWriter, StoredContent, Storing};

/// Bytes of all contents: as many as a thousand broadcasts of the usual size keep at once.
#[doc(alias = "bound")]
const ALL: usize = 4 * OF_ONE;

/// Bytes of the contents of one owner: four can fill the store, one cannot. The lint of `request_bytes` says the same.
#[doc(alias = "bound")]
const OF_ONE: usize = 16 * 1024 * 1024 + EACH;

/// What each content costs beside its bytes, so that there are not too many empty ones.
#[doc(alias = "bound")]
const EACH: usize = 512;

/// Contents in memory. What is kept is bounded in all and for each owner.
#[derive(Debug, Clone, Default)]
pub(crate) struct MemoryStore {
    used: Arc<Mutex<Used>>,
    named: Arc<Mutex<HashMap<String, Arc<InMemory>>>>,
}

/// Bytes that are kept, or came of contents that are not finished.
#[derive(Debug, Default)]
struct Used {
    all: usize,
    /// An owner stands here as long as something of his is kept.
    owners: HashMap<String, usize>,
}

/// Room that a content takes; given back when this is dropped.
#[derive(Debug)]
struct Room {
    used: Arc<Mutex<Used>>,
    owner: String,
    bytes: usize,
}

/// A content that is kept.
#[derive(Debug)]
struct InMemory {
    data: Bytes,
    _room: Room,
}

/// A content that comes.
struct Writer {
    key: Option<String>,
    data: BytesMut,
    room: Room,
    named: Arc<Mutex<HashMap<String, Arc<InMemory>>>>,
}

impl Room {
    /// Takes room for so many bytes more.
    fn grow(&mut self, bytes: usize) -> Result<(), StoreError> {
        let mut used = self.used.lock();
        if ALL - used.all < bytes {
            return Err(StoreError::Full(format!("all contents have {ALL} bytes")));
        }

        let own = used.owners.get(&self.owner).copied().unwrap_or_default();
        if OF_ONE - own < bytes {
            let reason = format!("the contents of {} have {OF_ONE} bytes", self.owner);
            return Err(StoreError::Full(reason));
        }

        used.all += bytes;
        used.owners.insert(self.owner.clone(), own + bytes);
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut used = self.used.lock();
        used.all -= self.bytes;
        if let Some(own) = used.owners.get_mut(&self.owner) {
            *own -= self.bytes;
            if *own == 0 {
                used.owners.remove(&self.owner);
            }
        }
    }
}

impl Store for MemoryStore {
    /// What was announced is not believed: room is taken for what comes.
    fn create(&self, content: NewContent) -> Storing<'_, Box<dyn StoreWriter>> {
        let mut room = Room {
            used: self.used.clone(),
            owner: content.owner,
            bytes: 0,
        };
        let grown = room.grow(EACH);
        let writer = Writer {
            key: content.key,
            data: BytesMut::new(),
            room,
            named: self.named.clone(),
        };
        Box::pin(ready(
            grown.map(|()| Box::new(writer) as Box<dyn StoreWriter>),
        ))
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
        let grown = self.room.grow(piece.len());
        if grown.is_ok() {
            // A copy: the piece may be a small part of a large buffer, which it would keep alive.
            self.data.extend_from_slice(&piece);
        }
        Box::pin(ready(grown))
    }

    fn finish(self: Box<Self>) -> Storing<'static, Arc<dyn StoredContent>> {
        let Self {
            key,
            data,
            room,
            named,
        } = *self;
        let kept = Arc::new(InMemory {
            // No larger than what is charged: a buffer that grew is up to twice as large.
            data: Bytes::copy_from_slice(&data),
            _room: room,
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

    fn of(owner: &str) -> NewContent {
        NewContent {
            owner: owner.to_owned(),
            ..NewContent::default()
        }
    }

    async fn keep(store: &MemoryStore, new: NewContent, bytes: usize) -> Arc<dyn StoredContent> {
        let mut writer = store.create(new).await.unwrap();
        writer.write(vec![7; bytes].into()).await.unwrap();
        writer.finish().await.unwrap()
    }

    fn used(store: &MemoryStore) -> (usize, usize) {
        let used = store.used.lock();
        (used.all, used.owners.len())
    }

    #[tokio::test]
    async fn each_reads_what_was_written_at_its_own_pace() {
        let store = MemoryStore::default();
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
        let store = MemoryStore::default();
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
    async fn one_owner_cannot_fill_it_and_all_can_no_further_than_its_bound() {
        let store = MemoryStore::default();
        let mut kept = Vec::new();
        for owner in ["a", "b", "c", "d"] {
            kept.push(keep(&store, of(owner), OF_ONE - EACH).await);
            let refused = store.create(of(owner)).await.err().unwrap();
            assert!(matches!(refused, StoreError::Full(_)), "{refused}");
        }

        assert!(store.create(of("e")).await.is_err());
        kept.pop();
        assert!(store.create(of("e")).await.is_ok());
    }

    #[tokio::test]
    async fn what_has_a_key_stays_until_it_is_removed() {
        let store = MemoryStore::default();
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
