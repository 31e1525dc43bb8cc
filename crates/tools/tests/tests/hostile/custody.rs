//! Custody: a port that strangers flood, and uploads that no one takes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hermes_tests::attacks::custody::{Hop, HopEnd, flood};
use hermes_tests::attacks::uploads::{UNREAD, UPLOADS, stuck, uploads};
use hermes_tests::{Node, curl, eventually, origins};

/// Requests of others while a port is flooded.
const OTHERS: usize = 10;

/// For how long a flood goes on if others are not served: far longer than they need.
const FLOOD: Duration = Duration::from_secs(60);

/// How long contents may move until they stand still: a debug build seals some ten megabytes a second on one processor.
const REST: Duration = Duration::from_secs(120);

/// Asks an origin by a node, as someone else does.
fn is_served(node: &Node, origin: impl std::fmt::Display) {
    let answer = curl(&[
        "-x",
        &node.url("web"),
        &format!("http://{origin}/bytes/1000"),
    ]);
    assert_eq!(
        (answer.status, answer.body.len()),
        (200, 1000),
        "{answer:?}"
    );
}

/// Processor time of both nodes, in ticks of 10 ms.
fn ticks_of(hop: &Hop) -> u64 {
    ticks(hop.near.pid()) + ticks(hop.far.pid())
}

/// Bytes that move while their cost is taken: some 3,000 datagrams and their acknowledgements.
const MOVED: usize = 4 << 20;

/// Processor time of both nodes for a download in custody.
fn cost_of_download(hop: &Hop, origin: impl std::fmt::Display) -> u64 {
    let before = ticks_of(hop);
    let url = format!("http://{origin}/bytes/{MOVED}");
    let answer = curl(&["-x", &hop.near.url("web"), &url]);
    assert_eq!((answer.status, answer.body.len()), (200, MOVED));
    ticks_of(hop) - before
}

/// Whether both nodes leave a processor alone within [`REST`].
fn comes_to_rest(hop: &Hop) -> bool {
    let begin = Instant::now();
    let mut before = ticks_of(hop);
    while begin.elapsed() < REST {
        std::thread::sleep(Duration::from_secs(1));
        let now = ticks_of(hop);
        if now - before < 10 {
            return true;
        }
        before = now;
    }
    false
}

/// Processor time of a process, in ticks of 10 ms.
fn ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, rest) = stat.rsplit_once(')').unwrap();
    let fields: Vec<_> = rest.split_whitespace().collect();
    let time = |index: usize| fields[index].parse::<u64>().unwrap();
    time(11) + time(12)
}

#[test]
fn a_flood_of_a_custody_port_leaves_others_their_turns() {
    let hop = Hop::start("", "", HopEnd::default());
    let origin = origins::http();
    is_served(&hop.far, origin.address());

    let is_over = AtomicBool::new(false);
    let served = std::thread::scope(|scope| {
        let flood = scope.spawn(|| {
            let until = Instant::now() + FLOOD;
            flood(hop.at, || {
                is_over.load(Ordering::Relaxed) || Instant::now() >= until
            });
            is_over.store(true, Ordering::Relaxed);
        });
        let mut served = 0;
        while served < OTHERS && !is_over.load(Ordering::Relaxed) {
            is_served(&hop.far, origin.address());
            served += 1;
        }
        is_over.store(true, Ordering::Relaxed);
        flood.join().unwrap();
        served
    });
    assert_eq!(served, OTHERS, "while the port was flooded");
    // Then the neighbour is heard again.
    is_served(&hop.near, origin.address());
}

#[test]
fn uploads_in_custody_that_no_one_takes_cost_no_processor_and_stop_no_one() {
    let hop = stuck();
    let origin = origins::http();
    is_served(&hop.near, origin.address());

    let uploads = uploads(hop.near.address("web"), UNREAD, UPLOADS);
    eventually("the uploads", || {
        (hop.far.exchanges().len() == UPLOADS).then_some(())
    });

    // Nothing moves any more, and nothing is done.
    assert!(comes_to_rest(&hop), "both nodes are busy without an end");
    is_served(&hop.near, origin.address());
    is_served(&hop.far, origin.address());

    for upload in uploads {
        drop(upload.shutdown(std::net::Shutdown::Both));
    }
    hop.near.idle();
    hop.far.idle();
}

/// How much more a download may cost beside uploads that stand still: they take a place in tables, and no time of every datagram.
const BESIDE: u64 = 4;

#[test]
fn contents_that_move_beside_uploads_that_no_one_takes_cost_what_they_cost_alone() {
    let hop = stuck();
    let origin = origins::http();
    is_served(&hop.near, origin.address());
    let alone = cost_of_download(&hop, origin.address());

    let uploads = uploads(hop.near.address("web"), UNREAD, UPLOADS);
    eventually("the uploads", || {
        (hop.far.exchanges().len() == UPLOADS).then_some(())
    });
    assert!(comes_to_rest(&hop), "both nodes are busy without an end");
    let beside = cost_of_download(&hop, origin.address());

    // Both are measured in this run; some ticks are those of a short measurement.
    assert!(
        beside <= alone * BESIDE + 20,
        "{beside} ticks, {alone} alone"
    );
    for upload in uploads {
        drop(upload.shutdown(std::net::Shutdown::Both));
    }
}
