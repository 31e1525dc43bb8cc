//! Nodes that are started again, with what they kept on disk.

use std::time::Duration;

use bytes::Bytes;
use hermes_custody::engine::Opening;
use hermes_custody::{Disk, ExchangeKey, Reading};
use hermes_proto::custody::ErrCode;
use tempfile::TempDir;

use crate::pair::{KEEP, Pair};

/// A server that keeps what it has in a folder.
struct Kept {
    pair: Pair,
    folder: TempDir,
}

impl Kept {
    fn new() -> Self {
        let mut kept = Self {
            pair: Pair::new(),
            folder: tempfile::tempdir().unwrap(),
        };
        kept.restart();
        kept
    }

    /// The server is another process, with the same folder; the one before had no time to say anything.
    fn restart(&mut self) {
        self.pair.restart_server();
        let disk = Disk::open(self.folder.path(), 1 << 24).unwrap();
        let now = self.pair.now;
        self.pair.server.keep_on(disk, now);
    }

    fn files(&self) -> usize {
        let files = std::fs::read_dir(self.folder.path()).unwrap();
        files
            .filter(|file| {
                let path = file.as_ref().unwrap().path();
                path.extension().is_some()
            })
            .count()
    }
}

#[test]
fn a_node_that_is_started_again_gives_the_rest_of_a_response() {
    let mut kept = Kept::new();
    let key = kept.pair.open(1, true);
    kept.pair.settle();
    let asked = kept.pair.asked[0];
    kept.pair.server.write(asked, Bytes::from(vec![7; 300_000]));
    kept.pair.settle();
    let first = kept.pair.response(key).unwrap_err();
    assert_eq!(first, Reading::Waiting);

    kept.restart();
    kept.pair.settle();
    assert_eq!(kept.pair.asked.len(), 2, "it is answered anew");
    let asked = kept.pair.asked[1];
    assert!(kept.pair.server.is_resumed(asked));
    let request = kept.pair.server.read(asked, 100);
    assert_eq!(request, Reading::Bytes(Bytes::from_static(b"request")));
    let mut written = 0;
    loop {
        let bytes = kept.pair.server.written_bytes(asked, written);
        if bytes.is_empty() {
            break;
        }
        assert!(bytes.iter().all(|byte| *byte == 7));
        written += bytes.len() as u64;
    }
    assert_eq!(written, 300_000);

    kept.pair.server.write(asked, Bytes::from_static(b"end"));
    kept.pair.server.finish(asked);
    kept.pair.settle();
    assert_eq!(kept.pair.response(key).unwrap(), b"end");
    kept.pair.client.close(key, kept.pair.now);
    kept.pair.settle();
    assert_eq!(kept.files(), 0, "what has ended is removed");
}

#[test]
fn a_whole_response_outlives_the_node_that_made_it() {
    for repeatable in [true, false] {
        let mut kept = Kept::new();
        let key = kept.pair.open(1, repeatable);
        kept.pair.settle();
        kept.pair.run(Duration::from_millis(5), true, false);
        kept.pair.answer(b"made once");
        kept.restart();
        // The client hears of it when it has asked twice.
        kept.pair.settle();
        kept.pair.settle();
        assert_eq!(kept.pair.asked.len(), 1, "it is not acted on again");
        assert_eq!(kept.pair.response(key).unwrap(), b"made once");
    }
}

#[test]
fn what_may_be_done_once_is_not_done_by_the_next_process() {
    let mut kept = Kept::new();
    let key = kept.pair.open(1, false);
    kept.pair.settle();
    kept.pair
        .server
        .write(kept.pair.asked[0], Bytes::from_static(b"half"));
    kept.restart();
    kept.pair.settle();
    assert_eq!(kept.pair.asked.len(), 1);
    let answer = kept.pair.response(key).unwrap_err();
    assert_eq!(answer, Reading::Broken(ErrCode::Unknown));
}

#[test]
fn what_was_passed_on_once_is_only_taken_up_by_the_next_process() {
    let mut kept = Kept::new();
    kept.pair.open(1, false);
    kept.pair.settle();
    let parent = kept.pair.asked[0];
    let child = ExchangeKey {
        exchange: [9; 16],
        ..parent
    };
    let opening = Opening {
        keep: KEEP,
        repeatable: false,
        parent: Some(parent),
    };
    assert!(kept.pair.server.open(child, opening, kept.pair.now));
    kept.pair
        .server
        .write(child, Bytes::from_static(b"request"));
    kept.pair.server.finish(child);

    kept.restart();
    kept.pair.settle();
    assert_eq!(kept.pair.asked, [parent, parent]);
    assert!(kept.pair.server.is_taken_up(parent));
    assert_eq!(kept.pair.server.adopt(parent), Some(child));
    let written = kept.pair.server.written_bytes(child, 0);
    assert_eq!(written, "request");
}

#[test]
fn a_request_that_was_kept_is_acted_on_once_whenever_the_node_is_started_again() {
    let mut kept_before = 0;
    for time in 0..12 {
        let mut kept = Kept::new();
        let key = kept.pair.open(1, false);
        kept.pair.run(Duration::from_millis(time), true, true);
        let before = kept.pair.asked.len();
        kept_before += kept.files() - before;
        kept.restart();
        kept.pair.settle();
        assert_eq!(kept.pair.asked.len(), 1, "{time} ms");
        if before == 0 {
            kept.pair.answer(b"done");
            kept.pair.settle();
            assert_eq!(kept.pair.response(key).unwrap(), b"done");
        }
    }
    assert!(kept_before > 0, "some were kept and not acted on");
}

#[test]
fn a_damaged_file_is_lost_and_says_so() {
    let mut kept = Kept::new();
    let key = kept.pair.open(1, true);
    kept.pair.settle();
    kept.pair
        .server
        .write(kept.pair.asked[0], Bytes::from(vec![7; 300_000]));
    kept.pair.settle();
    let _ = kept.pair.response(key);

    let file = std::fs::read_dir(kept.folder.path()).unwrap();
    let file = file.map(|file| file.unwrap().path());
    let file = file
        .filter(|path| path.extension().is_some())
        .last()
        .unwrap();
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[200_000] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    kept.restart();
    kept.pair.settle();
    assert_eq!(kept.pair.asked.len(), 1);
    let answer = kept.pair.response(key).unwrap_err();
    assert_eq!(answer, Reading::Broken(ErrCode::Unknown));
}

#[test]
fn a_full_disk_costs_memory_and_nothing_else() {
    let mut kept = Kept::new();
    kept.pair.restart_server();
    let disk = Disk::open(kept.folder.path(), 10_000).unwrap();
    kept.pair.server.keep_on(disk, kept.pair.now);
    let key = kept.pair.open(1, true);
    kept.pair.settle();
    kept.pair
        .server
        .write(kept.pair.asked[0], Bytes::from(vec![7; 100_000]));
    kept.pair.server.finish(kept.pair.asked[0]);
    kept.pair.settle();
    assert_eq!(kept.pair.response(key).unwrap(), vec![7; 100_000]);
    assert_eq!(kept.files(), 0);
}
