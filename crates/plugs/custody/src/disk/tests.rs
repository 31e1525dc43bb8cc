//! Exchanges on disk: found again, damaged, cut off, and too many.

use std::fs::Permissions;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::time::Duration;

use hermes_proto::custody::ObjectPart;

use tempfile::TempDir;

use super::record::HEADER;
use super::*;
use hermes_noise::PublicKey;

const LIMIT: u64 = 1 << 20;

fn terms(exchange: u8) -> KeptTerms {
    KeptTerms {
        name: KeptName {
            neighbour: PublicKey([1; 32]),
            exchange: [exchange; 16],
        },
        parent: None,
        once: true,
        until: std::time::UNIX_EPOCH + Duration::from_secs(7_000_000_000),
    }
}

fn open(folder: &TempDir, limit: u64) -> Disk {
    Disk::open(folder.path(), limit).unwrap()
}

/// Waits until everything is written.
fn write_out(disk: &Disk) {
    while disk.is_writing() {
        disk.take_grown();
        std::thread::yield_now();
    }
}

/// Keeps an exchange of which a request, half a response, and its confirmation have come.
fn keep(disk: &Disk) -> PathBuf {
    let mut log = disk.begin(&terms(7), None).unwrap();
    log.keep(ObjectPart::Request, 0, b"request").unwrap();
    log.keep_total(ObjectPart::Request, 7);
    log.confirmed();
    log.keep(ObjectPart::Response, 0, b"half a").unwrap();
    log.path.clone()
}

/// What was kept, as text.
fn tell(kept: &Kept) -> String {
    let pieces = kept.pieces.iter().map(|(part, offset, at, _)| {
        let bytes = kept.log.read(*at).unwrap();
        format!("{part:?} {offset} {}, ", String::from_utf8_lossy(&bytes))
    });
    let pieces: String = pieces.collect();
    format!("{pieces}{:?} {}", kept.totals, kept.is_confirmed)
}

const WHOLE: &str = "Request 0 request, Response 0 half a, [(Request, 7)] true";

#[test]
fn an_exchange_is_found_again_as_it_was_left() {
    let folder = tempfile::tempdir().unwrap();
    keep(&open(&folder, LIMIT));
    let kept = open(&folder, LIMIT).load();
    assert_eq!(kept.len(), 1);
    assert_eq!(kept[0].terms, terms(7));
    assert_eq!(tell(&kept[0]), WHOLE);

    let child = KeptTerms {
        parent: Some(terms(7).name),
        once: false,
        ..terms(8)
    };
    assert_eq!(KeptTerms::decode(&child.encode()), Some(child));
}

#[test]
fn a_flipped_bit_costs_the_exchange_and_delivers_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = keep(&open(&folder, LIMIT));
    let right = std::fs::read(&path).unwrap();
    for bit in 0..right.len() * 8 {
        let mut wrong = right.clone();
        wrong[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&path, wrong).unwrap();
        assert!(open(&folder, LIMIT).load().is_empty(), "bit {bit}");
        assert!(!path.exists());
    }
}

#[test]
fn what_was_being_written_is_forgotten_and_what_stands_before_it_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = keep(&open(&folder, LIMIT));
    let right = std::fs::read(&path).unwrap();
    let last = HEADER + "half a".len();
    for cut in 1..last {
        std::fs::write(&path, &right[..right.len() - cut]).unwrap();
        let kept = open(&folder, LIMIT).load();
        assert_eq!(tell(&kept[0]), WHOLE.replace("Response 0 half a, ", ""));
    }

    // What comes next stands right behind it.
    let mut kept = open(&folder, LIMIT).load();
    let log = &mut kept[0].log;
    let appended = log.keep(ObjectPart::Response, 0, b"half a").unwrap();
    while !log.settled().has(appended.end) {
        std::thread::yield_now();
    }
    drop(kept);
    assert_eq!(std::fs::read(&path).unwrap(), right);
}

#[test]
fn a_byte_that_changes_while_the_file_is_in_use_is_not_delivered() {
    let folder = tempfile::tempdir().unwrap();
    let disk = open(&folder, LIMIT);
    let mut log = disk.begin(&terms(7), None).unwrap();
    let at = log.keep(ObjectPart::Response, 0, b"right").unwrap().at;
    write_out(&disk);
    assert_eq!(log.read(at).unwrap(), "right");
    let file = log.file.file().unwrap();
    file.write_all_at(b"l", at + HEADER as u64).unwrap();
    assert_eq!(log.read(at), None);
}

#[test]
fn a_folder_that_is_full_takes_no_more_and_gets_its_room_back() {
    let folder = tempfile::tempdir().unwrap();
    let disk = open(&folder, 2 * RECORD as u64);
    let mut log = disk.begin(&terms(7), None).unwrap();
    assert!(log.keep(ObjectPart::Response, 0, &[7; RECORD]).is_some());
    assert!(
        log.keep(ObjectPart::Response, RECORD as u64, &[7; RECORD])
            .is_none()
    );
    write_out(&disk);
    assert!(!log.path.exists(), "it would not be whole");
    let at = log.end - (HEADER + RECORD) as u64;
    assert_eq!(log.read(at).unwrap(), vec![7; RECORD], "it is still read");
    assert!(
        log.keep(ObjectPart::Response, RECORD as u64, b"x")
            .is_none()
    );
    drop(log);
    assert_eq!(disk.0.usage.lock().all, 0);

    let mut log = disk.begin(&terms(8), None).unwrap();
    assert!(log.keep(ObjectPart::Response, 0, &[7; RECORD]).is_some());
}

#[test]
fn no_user_has_more_than_half_of_what_others_leave() {
    let folder = tempfile::tempdir().unwrap();
    let disk = open(&folder, 100 * RECORD as u64);
    let fill = |exchange, owner| {
        let mut log = disk.begin(&terms(exchange), None).unwrap();
        log.belongs(Owner {
            user: owner,
            neighbour: None,
        });
        let mut count = 0;
        while log
            .keep(ObjectPart::Response, count * RECORD as u64, &[7; RECORD])
            .is_some()
        {
            count += 1;
        }
        // It is given up then, and its room is not free before it is dropped.
        (count, log)
    };
    let first = fill(1, 1);
    let second = fill(2, 2);
    let again = fill(3, 1);
    assert_eq!((first.0, second.0, again.0), (49, 25, 0));
}

#[test]
fn one_process_uses_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let disk = open(&folder, LIMIT);
    let error = Disk::open(folder.path(), LIMIT).unwrap_err();
    assert_eq!(error.to_string(), "another process uses it");
    drop(disk);
    open(&folder, LIMIT);
}

#[test]
fn a_folder_that_others_can_write_to_or_own_is_refused_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let spool = folder.path().join("spool");
    let refused = || Disk::open(&spool, LIMIT).unwrap_err().to_string();
    let set = |mode| std::fs::set_permissions(&spool, Permissions::from_mode(mode)).unwrap();

    drop(Disk::open(&spool, LIMIT).unwrap());
    for mode in [0o777, 0o1777, 0o770] {
        set(mode);
        assert!(refused().contains("chmod 700"), "{}", refused());
    }
    set(0o750);
    drop(Disk::open(&spool, LIMIT).unwrap());

    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&spool, Some(12345), None).unwrap();
        assert!(refused().contains("another user"), "{}", refused());
    }
}

#[test]
fn a_neighbour_that_writes_crumbs_without_end_goes_on_in_memory_and_others_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let disk = open(&folder, 1 << 30);
    let owner = |neighbour: u64| Owner {
        user: neighbour,
        neighbour: Some(neighbour),
    };

    let mut log = disk.begin(&terms(1), Some(owner(1))).unwrap();
    // All of its pace, as of a time that is still to come.
    let later = Instant::now() + Duration::from_secs(3600);
    let mut usage = disk.0.usage.lock();
    while usage.pace.allows(1, pace::of_piece(1), later) {}
    drop(usage);
    assert!(log.keep(ObjectPart::Request, 0, &[7; RECORD]).is_some());
    assert!(log.keep(ObjectPart::Request, RECORD as u64, b"x").is_none());
    assert!(disk.begin(&terms(2), Some(owner(1))).is_none());

    let mut other = disk.begin(&terms(3), Some(owner(2))).unwrap();
    assert!(other.keep(ObjectPart::Request, 0, b"request").is_some());
    // What was refused counts for nothing.
    drop(log);
    assert_eq!(disk.0.usage.lock().all, other.end);
}

#[test]
fn a_file_that_cannot_be_made_costs_no_exchange() {
    let folder = tempfile::tempdir().unwrap();
    let disk = open(&folder, LIMIT);
    std::fs::remove_file(folder.path().join(LOCK)).unwrap();
    std::fs::remove_dir(folder.path()).unwrap();
    let mut log = disk.begin(&terms(7), None).unwrap();
    write_out(&disk);
    assert_eq!(log.settled(), Settled::InMemory);
    assert!(log.keep(ObjectPart::Request, 0, b"request").is_none());
}
