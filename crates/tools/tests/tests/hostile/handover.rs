//! The file at which a process gives its sockets to the next: whose it is, who may come there, and a process that has no descriptor left.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

use hermes_tests::eventually::eventually_true;
use hermes_tests::{Node, curl, free, program};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::Signal;

#[test]
fn a_file_that_is_no_socket_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("node.yaml");
    let yaml = "version: 1\nlisteners: { web: { http: 127.0.0.1:0 } }\n\
                routes: [ { respond: { status: 404 } } ]\n";
    fs::write(&file, yaml).unwrap();

    // A node that starts all the same is ended, so that the test ends.
    let mut command = Command::new("timeout");
    command.arg("20").arg(program::path()).arg("run").arg(&file);
    let said = command.arg("--handover").arg(&file).output().unwrap();
    let error = String::from_utf8(said.stderr).unwrap();
    assert_eq!(said.status.code(), Some(1), "{error}");
    assert!(error.contains("is not a socket"), "{error}");
    assert_eq!(fs::read_to_string(&file).unwrap(), yaml);
}

#[test]
fn a_process_that_had_no_descriptor_left_gives_its_sockets_afterwards_and_to_its_user_alone() {
    let folder = tempfile::tempdir().unwrap();
    let meeting = folder.path().join("handover");
    let address = free::tcp();
    let yaml = format!(
        "listeners: {{ web: {{ http: \"{address}\" }} }}\n\
         routes: [ {{ respond: {{ status: 204 }} }} ]\n"
    );
    let start = |name: &str| {
        let mut command = Command::new("bash");
        let script = "umask 000; exec \"$0\" \"$@\"";
        command.args(["-c", script]).arg(program::path());
        let arguments = ["--handover", meeting.to_str().unwrap()];
        Node::start_with_by(command, name, &yaml, &arguments)
    };
    let first = start("first");
    assert_eq!(fs::metadata(&meeting).unwrap().mode() & 0o777, 0o600);

    limit(&first, "5:");
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    connect(&socket, &SocketAddrUnix::new(&meeting).unwrap()).unwrap();
    eventually_true("it says that it has none", || {
        let log = first.log();
        log.contains("no other process can be given the sockets")
    });
    drop(socket);
    limit(&first, "1024:");

    // Who gets no sockets cannot bind the port, and does not start.
    let second = start("second");
    assert_eq!(second.address("web"), address);
    let response = curl(&["-x", &second.url("web"), "http://a/"]);
    assert_eq!(response.status, 204);
}

#[test]
fn a_process_that_is_killed_leaves_the_sockets_to_the_one_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let meeting = folder.path().join("handover");
    let address = free::tcp();
    let yaml = format!(
        "listeners: {{ web: {{ http: \"{address}\" }} }}\n\
         routes: [ {{ respond: {{ status: 204 }} }} ]\n"
    );
    let start = |name: &str| {
        let arguments = ["--handover", meeting.to_str().unwrap()];
        Node::start_with_by(Command::new(program::path()), name, &yaml, &arguments)
    };

    let _first = start("first");
    for name in ["second", "third"] {
        let mut killed = start(name);
        killed.signal(Signal::KILL);
        killed.wait();
    }
    // Without the sockets it could not bind the port, and would not start.
    let last = start("last");
    assert_eq!(curl(&["-x", &last.url("web"), "http://a/"]).status, 204);
}

/// Changes how many descriptors the process of a node may have, its soft limit.
fn limit(node: &Node, limit: &str) {
    let mut command = Command::new("prlimit");
    command.arg("--pid").arg(node.pid().to_string());
    let changed = command.arg(format!("--nofile={limit}")).status();
    assert!(changed.unwrap().success());
}
