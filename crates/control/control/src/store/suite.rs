//! The tests of every store.

use std::sync::Arc;
use std::time::Duration;

use hermes_api::{Hash, Revision};

use super::history::{Commit, History, NotCommitted};
use super::memory::MemoryStore;
use super::{RecordChange, RedbStore, Store, StoreError};
use crate::resources::{Source, Tree, read};

fn change(key: &str, expected: Option<&str>, new: Option<&str>) -> RecordChange {
    let bytes = |text: Option<&str>| text.map(|text| text.as_bytes().to_vec());
    RecordChange {
        key: key.to_owned(),
        expected: bytes(expected),
        new: bytes(new),
    }
}

fn on_each(test: impl Fn(Arc<dyn Store>)) {
    test(Arc::new(MemoryStore::default()));
    let folder = tempfile::tempdir().unwrap();
    test(Arc::new(
        RedbStore::open(&folder.path().join("store.redb")).unwrap(),
    ));
}

#[test]
fn a_record_changes_only_from_what_was_expected() {
    on_each(|store| {
        assert!(store.swap(&[change("a", None, Some("1"))]).unwrap());
        assert!(!store.swap(&[change("a", None, Some("2"))]).unwrap());
        let both = [
            change("a", Some("1"), None),
            change("b", Some("x"), Some("y")),
        ];
        assert!(!store.swap(&both).unwrap(), "all or none");
        assert_eq!(store.record("a").unwrap().as_deref(), Some(&b"1"[..]));
        assert!(store.swap(&[change("a", Some("1"), None)]).unwrap());
        assert_eq!(store.record("a").unwrap(), None);
    });
}

#[test]
fn records_are_found_by_how_they_begin() {
    on_each(|store| {
        for key in ["token/b", "token/a", "tokens", "member/a"] {
            store.swap(&[change(key, None, Some(key))]).unwrap();
        }
        let found = store.records("token/").unwrap();
        let keys: Vec<_> = found.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["token/a", "token/b"]);
    });
}

#[test]
fn blobs_are_found_by_their_hashes_until_they_are_removed() {
    on_each(|store| {
        let blobs = [b"one".to_vec(), b"two".to_vec()];
        store.keep(&blobs).unwrap();
        store.keep(&blobs).unwrap();
        assert_eq!(
            store.blob(&Hash::of(b"one")).unwrap(),
            Some(b"one".to_vec())
        );
        assert_eq!(store.hashes().unwrap().len(), 2);
        store.remove_blobs(&[Hash::of(b"one")]).unwrap();
        assert_eq!(store.blob(&Hash::of(b"one")).unwrap(), None);
    });
}

fn tree(users: usize) -> Tree {
    let text: String = (0..users)
        .map(|index| {
            format!("---\napiVersion: hermes/v1\nkind: User\nmetadata: {{ name: u{index} }}\nspec: {{ names: [n{index}] }}\n")
        })
        .collect();
    let source = Source {
        name: "test.yaml".as_ref(),
        text: &text,
    };
    read(&[source]).unwrap()
}

fn commit(history: &History, expected: Revision, users: usize) -> Result<Revision, NotCommitted> {
    history.commit(&Commit {
        expected,
        tree: &tree(users),
        author: "test",
        time: 1000,
        message: "a test",
    })
}

#[test]
fn a_state_follows_the_one_that_its_author_saw() {
    on_each(|store| {
        let history = History::new(store);
        assert_eq!(history.head().unwrap(), None);
        let first = commit(&history, Revision::FIRST, 1).unwrap();
        let second = commit(&history, first, 3).unwrap();
        assert_eq!(commit(&history, first, 2), Err(NotCommitted::Moved(second)));
        let head = history.head().unwrap().unwrap();
        assert_eq!(
            (head.revision, history.tree(&head).unwrap()),
            (second, tree(3))
        );
        assert_eq!(history.tree(&history.at(first).unwrap()).unwrap(), tree(1));
    });
}

#[test]
fn writers_at_once_make_each_state_once() {
    on_each(|store| {
        let history = History::new(store);
        let write = |writer: usize| {
            let mut made = Vec::new();
            while made.len() < 10 {
                let head = history
                    .head()
                    .unwrap()
                    .map_or(Revision::FIRST, |state| state.revision);
                made.extend(commit(&history, head, writer));
            }
            made
        };
        let mut all: Vec<Revision> = std::thread::scope(|scope| {
            let writers: Vec<_> = (1..4)
                .map(|writer| scope.spawn(move || write(writer)))
                .collect();
            writers
                .into_iter()
                .flat_map(|writer| writer.join().unwrap())
                .collect()
        });
        all.sort_unstable();
        let listed: Vec<_> = history
            .list(100)
            .unwrap()
            .iter()
            .map(|state| state.revision)
            .rev()
            .collect();
        assert_eq!(all, listed);
        assert_eq!(all.len(), 30);
    });
}

#[test]
fn old_states_are_let_go_and_the_newest_stays() {
    on_each(|store| {
        let history = History::new(store.clone());
        let first = commit(&history, Revision::FIRST, 1).unwrap();
        let second = commit(&history, first, 2).unwrap();
        history.collect_garbage(2000).unwrap();
        assert!(history.at(first).is_ok());
        history.collect_garbage(1000 + 91 * 24 * 60 * 60).unwrap();
        assert!(history.at(first).is_err());
        let head = history.head().unwrap().unwrap();
        assert_eq!(
            (head.revision, history.tree(&head).unwrap()),
            (second, tree(2))
        );
        commit(&history, second, 1).unwrap();
    });
}

/// A store in which much happens between two calls.
#[derive(Default)]
struct SlowStore(MemoryStore);

const A_WHILE: Duration = Duration::from_millis(2);

impl Store for SlowStore {
    fn blob(&self, hash: &Hash) -> Result<Option<Vec<u8>>, StoreError> {
        self.0.blob(hash)
    }

    fn keep(&self, blobs: &[Vec<u8>]) -> Result<(), StoreError> {
        let kept = self.0.keep(blobs);
        std::thread::sleep(A_WHILE);
        kept
    }

    fn record(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.0.record(key)
    }

    fn records(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        self.0.records(prefix)
    }

    fn swap(&self, changes: &[RecordChange]) -> Result<bool, StoreError> {
        self.0.swap(changes)
    }

    fn remove_blobs(&self, hashes: &[Hash]) -> Result<(), StoreError> {
        std::thread::sleep(A_WHILE);
        self.0.remove_blobs(hashes)
    }

    fn hashes(&self) -> Result<Vec<Hash>, StoreError> {
        self.0.hashes()
    }
}

#[test]
fn states_that_are_made_while_others_are_let_go_keep_all_their_blobs() {
    /// So late that all states but the newest are let go, whose resources the next ones have again.
    const LATE: u64 = 1000 + 91 * 24 * 60 * 60;
    let history = History::new(Arc::new(SlowStore::default()));
    std::thread::scope(|scope| {
        let collecting = scope.spawn(|| {
            for _ in 0..100 {
                history.collect_garbage(LATE).unwrap();
            }
        });
        let mut revision = Revision::FIRST;
        for users in (1..4).cycle().take(60) {
            revision = commit(&history, revision, users).unwrap();
            let head = history.head().unwrap().unwrap();
            assert_eq!(history.tree(&head).unwrap(), tree(users));
        }
        collecting.join().unwrap();
    });
}

#[test]
fn a_restored_store_has_all_and_is_newer_than_the_one_before() {
    on_each(|store| {
        let history = History::new(store.clone());
        let first = commit(&history, Revision::FIRST, 1).unwrap();
        let second = commit(&history, first, 2).unwrap();
        store
            .swap(&[change("token/a", None, Some("secret"))])
            .unwrap();
        let mut backup = Vec::new();
        history.back_up(&mut backup).unwrap();

        let other: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let restored = History::new(other.clone());
        let revision = restored.restore(&mut &backup[..], 5000).unwrap().unwrap();
        assert!(revision > second.next());
        let head = restored.head().unwrap().unwrap();
        assert_eq!(
            (head.revision, restored.tree(&head).unwrap()),
            (revision, tree(2))
        );
        assert_eq!(
            other.record("token/a").unwrap().as_deref(),
            Some(&b"secret"[..])
        );
        assert!(
            restored.restore(&mut &backup[..], 5000).is_err(),
            "it is not empty"
        );
        commit(&restored, revision, 3).unwrap();
    });
}

#[test]
fn a_damaged_backup_is_refused_and_writes_nothing() {
    let history = History::new(Arc::new(MemoryStore::default()));
    commit(&history, Revision::FIRST, 1).unwrap();
    let mut backup = Vec::new();
    history.back_up(&mut backup).unwrap();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let other = History::new(store.clone());
    for index in 0..backup.len() {
        let mut damaged = backup.clone();
        damaged[index] ^= 1;
        assert!(other.restore(&mut &damaged[..], 1).is_err(), "byte {index}");
        assert!(
            other.restore(&mut &backup[..index], 1).is_err(),
            "cut at {index}"
        );
    }
    assert!(store.records("").unwrap().is_empty() && store.hashes().unwrap().is_empty());
}

#[test]
fn a_second_process_is_told_that_the_first_has_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.redb");
    let _first = RedbStore::open(&file).unwrap();
    let error = RedbStore::open(&file).err().unwrap();
    assert!(error.to_string().contains("another controller"), "{error}");
}

#[test]
fn what_was_committed_is_there_after_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.redb");
    let store = Arc::new(RedbStore::open(&file).unwrap());
    let history = History::new(store.clone());
    let mut revision = Revision::FIRST;
    for users in 1..20 {
        revision = commit(&history, revision, users).unwrap();
        // A copy of the file without an orderly end is what a crash leaves.
        let left = folder.path().join("left.redb");
        std::fs::copy(&file, &left).unwrap();
        let after = History::new(Arc::new(RedbStore::open(&left).unwrap()));
        let head = after.head().unwrap().unwrap();
        assert_eq!(
            (head.revision, after.tree(&head).unwrap()),
            (revision, tree(users))
        );
    }
}
