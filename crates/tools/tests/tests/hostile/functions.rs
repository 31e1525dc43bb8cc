//! Functions outside that go wrong at the word of one user, bombs of a peer, and requests for paths without end: a bystander of another
//! user and address is served by the same function meanwhile, and all is given back.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hermes_tests::attacks::{self, Attack, BYSTANDER, CALM, Stage};
use hermes_tests::eventually::eventually_true;
use hermes_tests::raw::Raw;

use crate::standing::MIB;

/// Memory of a node under any attack.
const MEMORY: usize = 256 * MIB;

/// The address of the bystander.
const SOURCE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Least time of an attack.
const TIME: Duration = Duration::from_secs(2);

/// Connections to one origin that a worker of a node keeps for the next requests: fewer than places of a function that hangs.
const SPARE: usize = 66;

fn attack(name: &str) -> &'static Attack {
    let found = attacks::ALL.iter().find(|attack| attack.name == name);
    found.unwrap()
}

/// Requests of the bystander until the attack has ended: the slowest of them, and their number. None may fail.
fn bystander(calm: SocketAddr, ended: &AtomicBool) -> (Duration, usize) {
    let ask = format!("GET http://{BYSTANDER}/ HTTP/1.1\r\nHost: {BYSTANDER}\r\n\r\n");
    let mut slowest = Duration::ZERO;
    let mut requests = 0;
    while !ended.load(Ordering::SeqCst) {
        let begin = Instant::now();
        // Each on a connection of its own: one that was opened before the attack would not need room.
        let mut raw = Raw::connect_from(SocketAddr::from((SOURCE, 0)), calm);
        raw.send(&ask);
        let (head, _) = raw.response();
        assert_eq!(head.status(), 200, "after {requests} requests: {head:?}");
        slowest = slowest.max(begin.elapsed());
        requests += 1;
        thread::sleep(Duration::from_millis(20));
    }
    (slowest, requests)
}

/// Attacks behind one origin; gives the stage when all connections of the attacker are gone.
fn survives(name: &str) -> Stage {
    survives_before(1, name)
}

/// As [`survives`], before so many origins.
#[allow(
    clippy::print_stdout,
    reason = "the cost of an attack is not all that a test asserts"
)]
fn survives_before(origins: usize, name: &str) -> Stage {
    let attack = attack(name);
    let stage = (attack.prepare)();
    let descriptors = stage.node.fds();
    let ended = AtomicBool::new(false);
    let calm = stage.node.address(CALM);
    thread::scope(|scope| {
        let watched = scope.spawn(|| bystander(calm, &ended));
        let begin = Instant::now();
        let effort = (attack.run)(&stage);
        thread::sleep(TIME.saturating_sub(begin.elapsed()));
        ended.store(true, Ordering::SeqCst);
        let (slowest, requests) = watched.join().unwrap();
        println!(
            "{name}: {} attempts, {} bytes; {requests} requests beside, {slowest:?} at most; {} MiB",
            effort.attempts,
            effort.bytes,
            stage.node.peak() / MIB
        );
        assert!(requests > 0);
        assert_eq!(effort.passed, 0);
    });
    let peak = stage.node.peak();
    assert!(peak < MEMORY, "{peak} bytes");

    stage.node.idle();
    // Connections to the function are the attacker's, and go with his.
    let workers = thread::available_parallelism().map_or(1, usize::from);
    eventually_true("descriptors are given back", || {
        stage.node.fds() <= descriptors + SPARE * workers * origins
    });
    eventually_true("nothing is charged", || {
        stage.node.status()["memory"]["charged_bytes"] == 0
    });
    stage
}

/// The refusals of the attacker's exchanges, in records.
fn refusals(stage: &Stage, words: &str) -> usize {
    let records = stage.node.access();
    let of_attacker = records.iter().filter(|record| {
        let text = record.to_string();
        text.contains("alice") && text.contains(words)
    });
    of_attacker.count()
}

#[test]
fn a_scanner_that_goes_wrong_at_the_word_of_one_user_serves_another() {
    let stage = survives("acting-scanner");
    // 128 places of 256 are one user's; the others are refused at once.
    assert!(refusals(&stage, "no room left for this user") > 0);
}

#[test]
fn a_processor_that_goes_wrong_at_the_word_of_one_user_serves_another() {
    let stage = survives("acting-processor");
    assert!(refusals(&stage, "no room left for this user") > 0);
}

#[test]
fn requests_of_one_user_that_wait_for_origins_without_room_leave_room_for_another() {
    let stage = survives("paced-requests");
    // A thousand of 1,400 wait.
    assert!(refusals(&stage, "too many requests of this user wait") > 300);
}

#[test]
fn contents_that_are_costly_to_translate_leave_room_for_another() {
    let stage = survives("translated-contents");
    assert!(refusals(&stage, "nested too deeply") > 0);
    assert!(refusals(&stage, "stands twice") > 0);
    // 200 trees of 6 MB each are more than one user may hold.
    assert!(refusals(&stage, "memory for") > 0);
}

#[test]
fn origins_that_lie_and_stand_still_mix_nothing_and_hold_no_one_else_up() {
    let stage = survives_before(2, "lying-origins");
    let origins = &stage.node.status()["plugs"]["origins"]["origins"];
    for index in [0, 1] {
        let told = |key: &str| origins[index][key].as_u64().unwrap();
        assert!(told("unlike") > 0, "{origins:#}");
        assert!(told("failures") > 0, "{origins:#}");
    }
}

#[test]
fn a_process_that_goes_wrong_at_the_word_of_one_user_serves_another() {
    let stage = survives("acting-hop");
    assert!(refusals(&stage, "no room left for this user") > 0);
}

#[test]
fn bombs_of_zstandard_are_unpacked_no_faster_than_they_are_read() {
    survives("zstd-bombs");
}

#[test]
fn requests_for_paths_without_end_cost_their_users_alone() {
    let stage = survives("areas-requests");
    let status = stage.node.status();
    let paths = status["plugs"]["areas"]["paths"].as_array().unwrap();
    assert!(paths.len() <= 1, "{status:#}");

    // Who may have no path is told so before a content has come, and takes no turn.
    let mut mallory = Raw::connect(stage.node.address("other"));
    let head = "POST /areas/v1/paths HTTP/1.1\r\nHost: api.test\r\nContent-Length: 60000\r\n\r\n";
    mallory.send(head);
    assert_eq!(mallory.head().status(), 403);
}
