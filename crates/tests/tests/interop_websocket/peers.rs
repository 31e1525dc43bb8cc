//! `websockets` and `wsproto` as client and server, with one and with two nodes between them.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use hermes_tests::Node;

/// The cases that `peer.py` runs.
const CASES: usize = 26;

/// A server; dropping it ends the process.
struct Server {
    process: Child,
    port: u16,
}

fn peer(arguments: &[&str]) -> Command {
    let python = std::env::var_os("HERMES_PYTHON").expect("HERMES_PYTHON is set by ./test");
    let mut command = Command::new(python);
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/interop_websocket/peer.py")).args(arguments);
    command
}

impl Server {
    fn start(version: &str) -> Self {
        let mut process = peer(&["server", version]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { port: line.trim().parse().expect("the server prints its port"), process }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// A node whose gateway ends the overlay at `port`, spoken to in this version.
fn last(port: u16, version: &str) -> Node {
    let number = &version[1..];
    Node::start(
        "sap",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0, gateway: true }} }}
            routes: [ {{ match: {{ protocol: websocket, target: VIDEO }}, terminate: server }} ]
            upstreams: {{ server: {{ endpoints: ["127.0.0.1:{port}"], http: {number} }} }}
            "#
        ),
    )
}

fn first(sap: &Node, version: &str) -> Node {
    let (number, address) = (&version[1..], sap.address("web"));
    Node::start(
        "dp",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0, gateway: true }} }}
            routes: [ {{ to: sap }} ]
            upstreams: {{ sap: {{ endpoints: ["{address}"], http: {number} }} }}
            "#
        ),
    )
}

fn every_case_passes(version: &str, gateway: &Node) {
    let output = peer(&["client", version, &gateway.address("web").to_string()]).output().unwrap();
    let (said, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(said.ends_with(&format!("{CASES} cases, 0 failed\n")), "{said}{error}");
}

fn through_one_node(client: &str, server: &str) {
    let server_process = Server::start(server);
    let node = last(server_process.port, server);
    every_case_passes(client, &node);
    let record = node.record(|record| record["kind"] == "upgrade");
    assert_eq!(record["protocol"], client, "{record}");
}

#[test]
fn from_h1_to_h1() {
    through_one_node("h1", "h1");
}

#[test]
fn from_h1_to_h2() {
    through_one_node("h1", "h2");
}

#[test]
fn from_h2_to_h1() {
    through_one_node("h2", "h1");
}

#[test]
fn from_h2_to_h2() {
    through_one_node("h2", "h2");
}

#[test]
fn from_h1_to_h1_with_h2_between() {
    let server = Server::start("h1");
    let sap = last(server.port, "h1");
    every_case_passes("h1", &first(&sap, "h2"));
}
