//! Downloads while nodes die that have them in custody on disk, and clients that go and come back.

use std::process::{Command, Stdio};

use hermes_tests::eventually::eventually_true;
use hermes_tests::raw::Raw;

use super::file::{FIRST, FileOrigin, WHOLE, agreed};
use super::row::{Row, dies};

const GET: &str = "GET http://files/file HTTP/1.1\r\nHost: files\r\nConnection: close\r\n\r\n";

/// A download of which the first part has come.
fn begin(row: &Row) -> (Raw, Vec<u8>) {
    let mut raw = row.ask(GET);
    let head = raw.head();
    assert_eq!(head.status(), 200);
    let content = raw.exactly(FIRST);
    (raw, content)
}

#[test]
fn a_download_goes_on_whichever_node_in_the_row_was_started_again() {
    let origin = FileOrigin::start();
    let mut row = Row::start(origin.address, "");
    let (mut raw, mut content) = begin(&row);
    dies(&mut row.core);
    dies(&mut row.far);
    origin.release();
    content.extend(raw.rest().0);
    assert_eq!(content.len(), WHOLE);
    assert_eq!(agreed(0, &content), WHOLE);
}

#[test]
fn what_was_published_after_a_restart_is_never_mixed_with_what_was_before() {
    let origin = FileOrigin::start();
    let mut row = Row::start(origin.address, "");
    let (mut raw, mut content) = begin(&row);
    row.far.kill();
    origin.publish(1);
    origin.release();
    row.far.restart();

    // The length was announced: a client sees that this is not all.
    content.extend(raw.rest().0);
    assert!(content.len() < WHOLE, "{}", content.len());
    assert_eq!(agreed(0, &content), content.len());
    let log = row.far.log();
    assert!(log.contains("is not the one that was begun"), "{log}");

    let mut raw = row.ask(GET);
    assert_eq!(raw.head().status(), 200);
    assert_eq!(agreed(1, &raw.rest().0), WHOLE);
}

#[test]
fn a_client_that_goes_comes_back_for_the_rest() {
    let origin = FileOrigin::start();
    let row = Row::start(origin.address, "");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    let curl = || {
        let mut curl = Command::new("curl");
        curl.args(["-sSf", "-C", "-", "-x", &row.near.url("web"), "-o"])
            .arg(&file)
            .arg("http://files/file")
            .stdout(Stdio::null());
        curl
    };

    let mut first = curl().spawn().unwrap();
    let length = || std::fs::metadata(&file).map_or(0, |file| file.len());
    eventually_true("a part of the file", || length() > 100_000);
    first.kill().unwrap();
    first.wait().unwrap();
    eventually_true("its exchange is over", || row.far.exchanges().is_empty());
    let before = length();
    assert!(before <= FIRST as u64);

    origin.release();
    assert!(curl().status().unwrap().success());
    assert_eq!(agreed(0, &std::fs::read(&file).unwrap()), WHOLE);
    let heads = origin.heads();
    let range = format!("range: bytes={before}-");
    assert!(heads.last().unwrap().contains(&range), "{heads:?}");
}
