//! What may be done once: whichever node dies, it is not done twice, and no one is told what is not known.

use hermes_tests::eventually::eventually_true;
use hermes_tests::raw::Raw;

use super::file::FileOrigin;
use super::row::{Row, dies};

const POST: &str = "POST http://files/do HTTP/1.1\r\nHost: files\r\nContent-Length: 5\r\nConnection: close\r\n\r\nthis\n";

/// A request that the origin has heard and not answered.
fn begin() -> (FileOrigin, Row, Raw) {
    let origin = FileOrigin::start();
    let row = Row::start(origin.address, "");
    let raw = row.ask(POST);
    eventually_true("the origin acts", || origin.heads().len() == 1);
    (origin, row, raw)
}

#[test]
fn what_was_done_is_answered_when_the_node_in_the_middle_was_started_again() {
    let (origin, mut row, mut raw) = begin();
    dies(&mut row.core);
    origin.release();
    assert_eq!(raw.head().status(), 200);
    assert_eq!(raw.rest().0, b"done\n");
    assert_eq!(origin.heads().len(), 1);
}

#[test]
fn what_the_last_node_began_is_not_begun_again_by_the_next_process() {
    let (origin, mut row, mut raw) = begin();
    dies(&mut row.far);
    origin.release();
    let head = raw.head();
    assert_eq!(head.status(), 502);
    let says = head.field("proxy-status").unwrap();
    assert!(
        says.contains("whether it was acted on is unknown"),
        "{says}"
    );
    assert_eq!(origin.heads().len(), 1);
}

#[test]
fn what_was_done_when_the_last_node_died_is_answered_or_said_to_be_unknown() {
    let (origin, mut row, mut raw) = begin();
    row.core.kill();
    origin.release();
    eventually_true("the last node has heard the answer", || {
        let answered = |record: &serde_json::Value| record["status"] == 200;
        row.far.access().iter().any(answered)
    });
    dies(&mut row.far);
    row.core.restart();

    // Whether its end was on disk already, no one can say.
    let status = raw.head().status();
    let content = raw.rest().0;
    match status {
        200 => assert_eq!(content, b"done\n"),
        _ => assert_eq!(status, 502),
    }
    assert_eq!(origin.heads().len(), 1);
}

#[test]
fn a_node_that_its_client_asked_does_nothing_again() {
    let (origin, mut row, mut raw) = begin();
    dies(&mut row.near);
    origin.release();
    assert_eq!(raw.rest().0, b"");
    // Another one is its own request.
    assert_eq!(row.ask(POST).head().status(), 200);
    assert_eq!(origin.heads().len(), 2);
}
