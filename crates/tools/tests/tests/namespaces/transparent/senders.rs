//! Traffic of users and control groups of one machine.

use std::process::Command;

use hermes_lab::topology::Topology;

use super::network::{SERVERS, as_user, hear, networks, node, serve, tables};

/// The words of the server as a program hears them, which runs as this command.
fn heard(command: &mut Command, address: &str) -> String {
    let script = format!("exec 3<>/dev/tcp/{address}/8000 && cat <&3");
    let output = command.args(["-c", &script]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn of_user(topology: &Topology, user: u32, address: &str) -> String {
    heard(&mut as_user(topology, user, "bash"), address)
}

#[test]
fn a_users_connections_are_captured_and_no_one_elses() {
    let topology = networks();
    serve(&topology, 8000);
    let node = node(&topology, "only: { users: 1000 }");

    for address in SERVERS {
        let before = node.access().len();
        of_user(&topology, 1000, address);
        let record = node.record(|record| record["target"].as_str().unwrap().contains(address));
        assert_eq!(record["listener"], "lan", "{record:#}");
        // Of root, as the node itself is, and of another user.
        hear(&topology, "router", address, 8000).unwrap();
        of_user(&topology, 1001, address);
        assert_eq!(node.access().len(), before + 1);
    }
}

#[test]
fn the_nodes_own_connections_are_not_captured_though_its_user_is() {
    let topology = networks();
    serve(&topology, 8000);
    let node = node(&topology, "only: { users: 0 }");
    for address in SERVERS {
        hear(&topology, "router", address, 8000).unwrap();
    }
    // Each captured connection would have opened another one.
    node.record(|record| record["target"] == "[fd02::2]:8000");
    assert_eq!(node.access().len(), SERVERS.len());
}

#[test]
fn answers_to_clients_from_elsewhere_are_not_captured() {
    let topology = networks();
    let node = node(&topology, "only: { users: 0 }");
    let listening = super::super::within(&topology, "router", || {
        std::net::TcpListener::bind("10.0.1.1:8000").unwrap()
    });
    std::thread::spawn(move || {
        use std::io::Write;
        let (mut stream, _) = listening.accept().unwrap();
        stream.write_all(b"hello").unwrap();
    });
    assert_eq!(
        hear(&topology, "client", "10.0.1.1", 8000).unwrap(),
        "hello"
    );
    assert!(node.access().is_empty());
}

#[test]
fn a_killed_node_lets_its_users_pass() {
    let topology = networks();
    serve(&topology, 8000);
    let mut node = node(&topology, "only: { users: 1000 }");
    of_user(&topology, 1000, "10.0.2.2");
    node.kill();
    assert_eq!(tables(&topology), Vec::<String>::new());
    assert_eq!(of_user(&topology, 1000, "10.0.2.2"), "10.0.2.1");
}
