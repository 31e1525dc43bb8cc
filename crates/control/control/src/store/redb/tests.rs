//! Files that are none of ours, or damaged, and file systems that are full.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hermes_api::Revision;

use redb::StorageBackend;
use redb::backends::InMemoryBackend;

use super::*;
use crate::resources::{Source, Tree, read};
use crate::store::history::{Commit, History};

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
#[derive(Debug, Default)]
struct Small {
    inner: InMemoryBackend,
    room: Arc<AtomicU64>,
    /// Bytes of the file.
    length: Arc<AtomicU64>,
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
        self.length.store(len, Ordering::Relaxed);
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
        ..Small::default()
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

/// Changes one of some users, and returns the tree after it.
fn changed(tree: &mut Tree, change: u64) {
    let user = change % 20;
    let text = format!(
        "apiVersion: hermes/v1\nkind: User\nmetadata: {{ name: u{user} }}\nspec: {{ names: [n{change}] }}\n"
    );
    let source = Source {
        name: "test.yaml".as_ref(),
        text: &text,
    };
    let read = read(&[source]).unwrap();
    let resource = read.resources().next().unwrap();
    let origin = read.origin(resource.key()).cloned();
    tree.insert(resource.clone(), origin).unwrap();
}

#[test]
fn a_file_of_many_states_stays_below_four_times_those_that_are_kept() {
    /// A change each minute, and a look for those that are too old every hour.
    const MINUTE: u64 = 60;
    let states = std::env::var("HERMES_COMMITS").map_or(1500, |count| count.parse().unwrap());
    let length = Arc::new(AtomicU64::new(0));
    let store = RedbStore::begin(Small {
        room: Arc::new(AtomicU64::new(u64::MAX)),
        length: length.clone(),
        ..Small::default()
    });
    let store = Arc::new(store.unwrap());
    let history = History::new(store.clone());

    let mut tree = Tree::default();
    let mut revision = Revision::FIRST;
    for change in 0..states {
        changed(&mut tree, change);
        let time = 1000 + change * MINUTE;
        let commit = Commit {
            expected: revision,
            tree: &tree,
            author: "test",
            time,
            message: "a change",
            confirm_seconds: None,
            course: crate::store::Course::Begins { at_once: false },
        };
        revision = history.commit(&commit).unwrap();
        if change % 60 == 0 {
            history.collect_garbage(time).unwrap();
        }
    }
    let mut content = 0;
    for kept in store.kept().unwrap() {
        content += store.blob(&kept.hash).unwrap().unwrap().len();
    }
    let content = u64::try_from(content).unwrap();
    let length = length.load(Ordering::Relaxed);
    assert!(
        length < 4 * content,
        "{length} bytes for {content}, {states} states"
    );
}
