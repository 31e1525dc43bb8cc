//! A cache on the way through custody: a response that came after its client had left is served to the next one, by the last hop that is alive.

use std::path::Path;
use std::process::{Command, Stdio};

use hermes_tests::eventually::eventually_true;
use hermes_tests::{Node, program};

use super::file::{FIRST, FileOrigin, WHOLE, agreed};
use super::row::Row;

const CACHE: &str = ", through: [cache]";

/// A client that goes on where the file ends.
fn resuming(row: &Row, file: &Path) -> Command {
    let mut curl = Command::new("curl");
    curl.args(["-sSf", "-C", "-", "-x", &row.near.url("web"), "-o"])
        .arg(file)
        .arg("http://files/file")
        .stdout(Stdio::null());
    curl
}

/// A client begins, and leaves in the middle of the content that the origin has sent so far.
fn begin_and_leave(row: &Row, file: &Path) {
    let mut first = resuming(row, file).spawn().unwrap();
    let length = || std::fs::metadata(file).map_or(0, |file| file.len());
    eventually_true("a part of the file", || length() > 100_000);
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(length() <= FIRST as u64);
}

fn is_whole(file: &Path) -> bool {
    let content = std::fs::read(file).unwrap();
    content.len() == WHOLE && agreed(0, &content) == WHOLE
}

/// Whether the node has nothing under way.
fn is_idle(node: &Node) -> bool {
    node.exchanges().is_empty()
}

#[test]
fn what_a_client_left_in_custody_is_given_to_it_and_to_others_by_the_first_node() {
    let origin = FileOrigin::start();
    let mut row = Row::start_with(origin.address, CACHE, "");
    let folder = tempfile::tempdir().unwrap();
    let files = ["resumed", "another"].map(|name| folder.path().join(name));
    begin_and_leave(&row, &files[0]);
    origin.release();
    eventually_true("all of it came", || is_idle(&row.near) && is_idle(&row.far));

    // No hop behind the first is alive.
    row.core.kill();
    for file in &files {
        assert!(resuming(&row, file).status().unwrap().success());
        assert!(is_whole(file), "{}", file.display());
    }
    assert_eq!(origin.heads().len(), 1, "{:?}", origin.heads());
}

#[test]
fn what_a_client_left_in_custody_is_given_by_the_node_in_the_middle() {
    let origin = FileOrigin::start();
    let mut row = Row::start_with(origin.address, "", CACHE);
    let folder = tempfile::tempdir().unwrap();
    let files = ["resumed", "another"].map(|name| folder.path().join(name));
    begin_and_leave(&row, &files[0]);
    eventually_true("its exchange is over", || is_idle(&row.near));
    origin.release();
    eventually_true("all of it came", || is_idle(&row.core) && is_idle(&row.far));

    row.far.kill();
    for file in &files {
        assert!(resuming(&row, file).status().unwrap().success());
        assert!(is_whole(file), "{}", file.display());
    }
    assert_eq!(origin.heads().len(), 1, "{:?}", origin.heads());
}

#[test]
fn a_fetch_that_is_resumed_while_the_rest_still_comes_asks_no_one_again() {
    let origin = FileOrigin::start();
    let row = Row::start_with(origin.address, CACHE, CACHE);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    begin_and_leave(&row, &file);
    let mut second = resuming(&row, &file).spawn().unwrap();
    let length = || std::fs::metadata(&file).map_or(0, |file| file.len());
    // curl keeps the last of it until more comes.
    let said = FIRST as u64 - 100_000;
    eventually_true("almost all that the origin has said", || length() > said);
    origin.release();
    assert!(second.wait().unwrap().success());
    assert!(is_whole(&file));
    assert_eq!(origin.heads().len(), 1, "{:?}", origin.heads());
}

#[test]
fn tunnels_in_custody_are_not_changed_and_a_transform_there_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("node.yaml");
    let key = super::row::key(folder.path());
    for (through, of_upstream, reason) in [
        ("[compress]", "", "tunnels in custody are not changed"),
        (
            "[cache, compress]",
            ", retry: { custody: true }",
            "tunnels in custody are not changed",
        ),
        ("[cache]", "", "valid, with 1 listener"),
    ] {
        let of_route = if of_upstream.is_empty() {
            ", retry: { custody: true }"
        } else {
            ""
        };
        let yaml = format!(
            "version: 1\nlisteners: {{ web: {{ http: 127.0.0.1:0 }} }}\n\
             defaults: {{ custody: {{ key_file: key, neighbours: {{ next: {{ key: \"{key}\", address: 192.0.2.1:4500 }} }} }} }}\n\
             upstreams: {{ next: {{ endpoints: [192.0.2.1:1]{of_upstream} }} }}\n\
             routes: [ {{ to: next, through: {through}{of_route} }} ]\n"
        );
        std::fs::write(&file, yaml).unwrap();
        let said = program::run(&["check", file.to_str().unwrap()]);
        let said = said.stdout + &said.stderr;
        assert!(said.contains(reason), "{through}: {said}");
    }
}
