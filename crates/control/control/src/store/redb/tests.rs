//! Files that are none of ours, or damaged, and file systems that are full.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use redb::StorageBackend;
use redb::backends::InMemoryBackend;

use super::*;

#[test]
fn a_file_of_another_program_is_named_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.redb");
    let text = "not a store at all\n".repeat(1000);
    std::fs::write(&file, &text).unwrap();
    let error = RedbStore::open(&file).err().unwrap();
    assert!(matches!(error, StoreError::Foreign { .. }), "{error}");
    assert!(error.to_string().contains("--restore"), "{error}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
}

#[test]
fn a_file_that_was_cut_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.redb");
    let store = RedbStore::open(&file).unwrap();
    store.keep(&[vec![7; 100_000]]).unwrap();
    drop(store);
    let whole = std::fs::read(&file).unwrap();
    for part in [10, 100, 4096, whole.len() / 2] {
        std::fs::write(&file, &whole[..part]).unwrap();
        let error = RedbStore::open(&file).err();
        let error = error.unwrap_or_else(|| panic!("{part} bytes of {} are no store", whole.len()));
        assert!(
            matches!(error, StoreError::Foreign { .. }),
            "{part}: {error}"
        );
    }
}

/// A file system with so much room.
#[derive(Debug)]
struct Small {
    inner: InMemoryBackend,
    room: Arc<AtomicU64>,
}

impl StorageBackend for Small {
    fn len(&self) -> Result<u64, io::Error> {
        self.inner.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        self.inner.read(offset, out)
    }

    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        if len > self.room.load(Ordering::Relaxed) {
            return Err(io::Error::from(ErrorKind::StorageFull));
        }
        self.inner.set_len(len)
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        self.inner.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        self.inner.write(offset, data)
    }
}

#[test]
fn a_full_file_system_is_named_with_its_remedy_and_loses_nothing() {
    let room = Arc::new(AtomicU64::new(u64::MAX));
    let store = RedbStore::begin(Small {
        inner: InMemoryBackend::new(),
        room: room.clone(),
    })
    .unwrap();
    let kept = b"before".to_vec();
    store.keep(std::slice::from_ref(&kept)).unwrap();
    room.store(0, Ordering::Relaxed);
    let error = store.keep(&[vec![7; 20_000_000]]).unwrap_err();
    assert!(matches!(error, StoreError::Full { .. }), "{error}");
    assert!(error.to_string().contains("make room"), "{error}");
    let again = store.keep(&[vec![8; 20_000_000]]).unwrap_err();
    assert!(matches!(again, StoreError::Full { .. }), "{again}");
}
