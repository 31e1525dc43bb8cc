//! Files that are watched, and the time of a drain.

use std::fs;

use hermes_tests::eventually::eventually_true;
use hermes_tests::raw::{End, Raw};
use hermes_tests::{Node, origins};

fn revision(node: &Node) -> u64 {
    node.status()["config"]["revision"].as_u64().unwrap()
}

/// Replaces a file as editors do: another one is written and renamed over it.
fn replace(node: &Node, name: &str, text: &str) {
    let new = node.folder().join("new~");
    fs::write(&new, text).unwrap();
    fs::rename(new, node.folder().join(name)).unwrap();
}

#[test]
fn a_watched_file_its_includes_and_what_they_name_are_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let hash = "$2b$04$abcdefghijklmnopqrstuuXq3Gq3Gq3Gq3Gq3Gq3Gq3Gq3Gq3Gq3G";
    fs::write(
        folder.path().join("routes.yaml"),
        "routes: [ { respond: { status: 201 } } ]\n",
    )
    .unwrap();
    fs::write(folder.path().join("users"), format!("alice:{hash}\n")).unwrap();
    let yaml = "watch: true\ninclude: [routes.yaml]\nlisteners:\n  web: { http: 127.0.0.1:0 }\n  \
                door: { http: 127.0.0.1:0, auth: { basic: { file: users } } }\n";
    let node = Node::start_in(folder, "alice", yaml, &[]);
    let mut raw = Raw::connect(node.address("web"));
    let mut status = || {
        raw.send("GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n");
        raw.response().0.status()
    };
    assert_eq!(status(), 201);
    replace(
        &node,
        "routes.yaml",
        "routes: [ { respond: { status: 202 } } ]\n",
    );
    eventually_true("the include is read again", || status() == 202);
    assert_eq!(revision(&node), 2);

    fs::write(
        node.folder().join("routes.yaml"),
        "routes: [ { respond: { status: 9 } } ]\n",
    )
    .unwrap();
    eventually_true("a bad file is reported", || {
        node.log().contains("not reloaded")
    });
    assert_eq!((status(), revision(&node)), (202, 2), "and changes nothing");

    fs::write(
        node.folder().join("routes.yaml"),
        "routes: [ { respond: { status: 203 } } ]\n",
    )
    .unwrap();
    eventually_true("the mended file is read", || status() == 203);

    fs::write(
        node.folder().join("users"),
        format!("alice:{hash}\nbob:{hash}\n"),
    )
    .unwrap();
    eventually_true("the users are read again", || revision(&node) == 4);

    let text = fs::read_to_string(node.file()).unwrap();
    replace(&node, "node.yaml", &format!("{text}drain: 1s\n"));
    eventually_true("the file itself is read again", || revision(&node) == 5);
}

#[test]
fn a_drain_ends_what_is_left_when_its_time_is_over() {
    let origin = origins::tcp_echo();
    let yaml = format!(
        "drain: 100ms\nlisteners: {{ db: {{ tcp: 127.0.0.1:0, target: \"DB:1\" }} }}\nroutes: [ {{ terminate: db }} ]\n\
         upstreams: {{ db: {{ endpoints: [\"{}\"] }} }}\n",
        origin.address()
    );
    let mut node = Node::start("alice", &yaml);
    let mut tunnel = Raw::connect(node.address("db"));
    tunnel.send("x");
    assert_eq!(tunnel.exactly(1), b"x");
    assert!(node.stop().success());
    assert!(matches!(tunnel.rest().1, End::Closed | End::Reset));
}
