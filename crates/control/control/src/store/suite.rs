//! The tests of every store.

use std::sync::Arc;
use std::time::Duration;

use hermes_api::{Hash, Revision};

use super::etcd::server::EtcdServer;
use super::history::{Commit, History, NotCommitted};
use super::memory::MemoryStore;
use super::{
    Act, Audit, KeptBlob, RESTORING, RecordChange, RedbStore, Store, StoreError, check_schema,
};
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
    let server = EtcdServer::shared();
    test(Arc::new(server.leading_store()));
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
        assert_eq!(store.kept().unwrap().len(), 2);
        let is_one = |kept: &KeptBlob| kept.hash == Hash::of(b"one");
        let one: Vec<_> = store.kept().unwrap().into_iter().filter(is_one).collect();
        store.remove_blobs(&one).unwrap();
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
        confirm_seconds: None,
        course: crate::store::Course::Begins { at_once: false },
    })
}

/// So late that all states but the newest are let go of.
const LATE: u64 = 1000 + 91 * 24 * 60 * 60;

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
                match commit(&history, head, writer) {
                    Ok(revision) => made.push(revision),
                    Err(NotCommitted::Moved(_)) => {}
                    Err(error) => panic!("{error}"),
                }
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
        history.collect_garbage(LATE).unwrap();
        assert!(history.at(first).is_ok(), "another controller may need it");
        history.collect_garbage(LATE + 600).unwrap();
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

    fn remove_blobs(&self, blobs: &[KeptBlob]) -> Result<(), StoreError> {
        std::thread::sleep(A_WHILE);
        self.0.remove_blobs(blobs)
    }

    fn kept(&self) -> Result<Vec<KeptBlob>, StoreError> {
        self.0.kept()
    }
}

#[test]
fn states_that_are_made_while_others_are_let_go_keep_all_their_blobs() {
    let history = History::new(Arc::new(SlowStore::default()));
    std::thread::scope(|scope| {
        let collecting = scope.spawn(|| {
            for round in 0..100 {
                history.collect_garbage(LATE + round * 600).unwrap();
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
fn blobs_of_any_size_are_read_as_they_were_kept() {
    on_each(|store| {
        // Around the sizes of values and requests of etcd, and many.
        let sizes = [0, 1, 524_287, 524_288, 524_289, 1_048_576, 5_000_000];
        let large = sizes.map(|size| vec![b'x'; size]).to_vec();
        let many: Vec<_> = (0..300_u32)
            .map(|number| number.to_be_bytes().to_vec())
            .collect();
        store.keep(&[large.clone(), many.clone()].concat()).unwrap();
        let hashes: Vec<_> = large
            .iter()
            .chain(&many)
            .map(|blob| Hash::of(blob))
            .collect();
        let read = store.blobs(&hashes).unwrap();
        for (blob, read) in large.iter().chain(&many).zip(read) {
            assert!(read.as_ref() == Some(blob), "{} bytes", blob.len());
        }
        assert_eq!(store.kept().unwrap().len(), hashes.len());
    });
}

#[test]
fn many_records_are_listed_in_order() {
    on_each(|store| {
        for from in (0..1200).step_by(100) {
            let key = |number: usize| format!("member/{number:06}");
            let changes: Vec<_> = (from..from + 100)
                .map(|number| change(&key(number), None, Some("x")))
                .collect();
            assert!(store.swap(&changes).unwrap());
        }
        let found = store.records("member/").unwrap();
        assert_eq!(found.len(), 1200);
        assert!(found.is_sorted());
    });
}

#[test]
fn each_act_is_told_with_it_and_a_chain_that_was_changed_is_found() {
    on_each(|store| {
        let audit = Audit::new(store.clone());
        let act = |number: u64| Act {
            time: number,
            who: "operator",
            act: "token",
            subject: "t",
        };
        for number in 0..5 {
            let key = format!("token/{number}");
            let changes = [change(&key, None, Some("x"))];
            assert!(audit.swap(&changes, &act(number)).unwrap());
            // It is there already: nothing is told.
            assert!(!audit.swap(&changes, &act(number)).unwrap());
        }
        let listed = audit.list(3).unwrap();
        let numbers: Vec<_> = listed.iter().map(|entry| entry.number).collect();
        assert_eq!(numbers, [5, 4, 3]);
        assert_eq!(audit.verify(), Ok(5));

        let key = "audit/0000000000000003";
        let before = store.record(key).unwrap();
        let text = String::from_utf8(before.clone().unwrap()).unwrap();
        let forged = text.replace("\"token\"", "\"join\"");
        let forge = RecordChange {
            key: key.to_owned(),
            expected: before,
            new: Some(forged.into_bytes()),
        };
        assert!(store.swap(&[forge]).unwrap());
        let error = audit.verify().unwrap_err();
        assert!(error.to_string().contains("entry 4"), "{error}");
    });
}

#[test]
fn acts_at_once_make_one_chain() {
    on_each(|store| {
        std::thread::scope(|scope| {
            for who in ["one", "two", "three"] {
                let store = store.clone();
                scope.spawn(move || {
                    // As controllers of their own.
                    let audit = Audit::new(store);
                    for number in 0..8 {
                        let act = Act {
                            time: number,
                            who,
                            act: "join",
                            subject: "t",
                        };
                        assert!(audit.swap(&[], &act).unwrap());
                    }
                });
            }
        });
        assert_eq!(Audit::new(store).verify(), Ok(24));
    });
}

#[test]
fn a_store_of_a_later_form_is_refused() {
    on_each(|store| {
        check_schema(&*store).unwrap();
        check_schema(&*store).unwrap();
        store
            .swap(&[change("schema", Some("1"), Some("2"))])
            .unwrap();
        let error = check_schema(&*store).unwrap_err();
        assert!(matches!(error, StoreError::Foreign { .. }), "{error}");
        let mut backup = Vec::new();
        History::new(store).back_up(&mut backup).unwrap();
        let empty: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let refused = History::new(empty.clone()).restore(&mut &backup[..], 1);
        assert!(matches!(refused, Err(StoreError::Foreign { .. })));
        assert!(empty.records("").unwrap().is_empty());
    });
}

#[test]
fn a_restore_that_was_cut_is_done_anew() {
    let history = History::new(Arc::new(MemoryStore::default()));
    commit(&history, Revision::FIRST, 5).unwrap();
    let mut backup = Vec::new();
    history.back_up(&mut backup).unwrap();
    on_each(|store| {
        // As one leaves it that has written other records before its end.
        store.swap(&[change(RESTORING, None, Some(""))]).unwrap();
        store.swap(&[change("token/old", None, Some("x"))]).unwrap();
        assert!(
            check_schema(&*store).is_err(),
            "no controller begins with it"
        );
        let restored = History::new(store.clone());
        restored.restore(&mut &backup[..], 5000).unwrap().unwrap();
        assert_eq!(store.records("token/").unwrap(), []);
        assert_eq!(store.record(RESTORING).unwrap(), None);
        let head = restored.head().unwrap().unwrap();
        assert_eq!(restored.tree(&head).unwrap(), tree(5));
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

        on_each(|other| follows(&backup, second, &other));
    });
}

/// A store that was restored is newer than this revision, and goes on.
fn follows(backup: &[u8], second: Revision, other: &Arc<dyn Store>) {
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
    assert!(store.records("").unwrap().is_empty() && store.kept().unwrap().is_empty());
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

#[test]
fn a_change_is_under_way_until_it_has_arrived_whatever_is_made_meanwhile() {
    on_each(|store| {
        let history = History::new(store);
        assert_eq!(history.under_way(), Ok(None));
        let one = commit(&history, Revision::FIRST, 1).unwrap();
        history.arrived().unwrap();
        assert_eq!(history.under_way(), Ok(None));

        let from_one = crate::store::UnderWay {
            from: one,
            at_once: false,
        };
        let two = commit(&history, one, 2).unwrap();
        assert_eq!(history.under_way(), Ok(Some(from_one)));
        // One that begins before the end of the last one is spread from where that one began.
        commit(&history, two, 3).unwrap();
        assert_eq!(history.under_way(), Ok(Some(from_one)));
        history.arrived().unwrap();
        assert_eq!(history.under_way(), Ok(None));
    });
}
