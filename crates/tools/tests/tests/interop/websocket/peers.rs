//! `websockets` and `wsproto` as client and server, with one and with two nodes between them.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use hermes_tests::Node;
use hermes_tests::pki::Pki;

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
    command
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/interop/websocket/peer.py"
        ))
        .args(arguments);
    command
}

impl Server {
    fn start(version: &str) -> Self {
        Self::with(version, &[])
    }

    fn with(version: &str, environment: &[(&str, &Path)]) -> Self {
        let mut server = peer(&["server", version]);
        let mut process = server
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        Self {
            port: line.trim().parse().expect("the server prints its port"),
            process,
        }
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
    every_case_passes_with(version, gateway, &[]);
}

fn every_case_passes_with(version: &str, gateway: &Node, environment: &[(&str, &Path)]) {
    let mut client = peer(&["client", version, &gateway.address("web").to_string()]);
    let output = client.envs(environment.iter().copied()).output().unwrap();
    let (said, error) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(
        said.ends_with(&format!("{CASES} cases, 0 failed\n")),
        "{said}{error}"
    );
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

/// TLS on every connection: client, DP, SaP (which knows the DP by its certificate), server.
fn under_tls(client: &str, link: &str, server: &str) {
    let pki = Pki::new();
    let [video, dp, sap, origin] =
        ["video", "dp.test", "sap.test", "origin.test"].map(|name| pki.issue(&[name]));
    let server_process = Server::with(
        server,
        &[("WS_CERT", &origin.cert), ("WS_KEY", &origin.key)],
    );
    let (ca, port) = (pki.ca(), server_process.port);
    let upstream = |address: &str, version: &str, own: &str, name: &str| {
        let (ca, number) = (ca.display(), &version[1..]);
        format!(
            "{{ endpoints: [\"{address}\"], http: {number}, tls: {{ ca_file: {ca}, server_name: {name}{own} }} }}"
        )
    };
    let sap_node = Node::start(
        "sap",
        &format!(
            r#"
            listeners:
              web: {{ http: 127.0.0.1:0, auth: mtls, gateway: true, tls: {{ {}, client_ca_file: {} }} }}
            routes: [ {{ match: {{ protocol: websocket, target: VIDEO }}, terminate: server }} ]
            upstreams: {{ server: {} }}
            peers: {{ dp: {{ certificate: dp.test, speaks_for: ["*"] }} }}
            "#,
            sap.yaml(),
            ca.display(),
            upstream(&format!("127.0.0.1:{port}"), server, "", "origin.test"),
        ),
    );
    let dp_node = Node::start(
        "dp",
        &format!(
            r#"
            identity: {{ user: alice }}
            listeners: {{ web: {{ http: 127.0.0.1:0, gateway: true, tls: {{ {} }} }} }}
            routes: [ {{ to: sap }} ]
            upstreams: {{ sap: {} }}
            "#,
            video.yaml(),
            upstream(
                &sap_node.address("web").to_string(),
                link,
                &format!(", {}", dp.yaml()),
                "sap.test"
            ),
        ),
    );
    every_case_passes_with(client, &dp_node, &[("WS_CA", &ca)]);
    let record = sap_node.record(|record| record["kind"] == "upgrade");
    assert_eq!(
        (&record["protocol"], &record["user"]),
        (&link.into(), &"alice".into()),
        "{record}"
    );
}

#[test]
fn under_tls_from_h1_to_h1_with_h2_between() {
    under_tls("h1", "h2", "h1");
}

#[test]
fn under_tls_from_h2_to_h1_with_h1_between() {
    under_tls("h2", "h1", "h1");
}

#[test]
fn under_tls_from_h1_to_h2_with_h2_between() {
    under_tls("h1", "h2", "h2");
}

#[test]
fn under_tls_from_h2_to_h2_with_h2_between() {
    under_tls("h2", "h2", "h2");
}
