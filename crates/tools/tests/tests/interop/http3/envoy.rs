//! HTTP/3 against Envoy: every payload that it sends to Hermes, and that Hermes sends to it.

use std::net::SocketAddr;

use hermes_tests::capsules::UdpTunnel;
use hermes_tests::envoy::{bootstrap, http3};
use hermes_tests::raw::Raw;
use hermes_tests::shown::shown_of;
use hermes_tests::udp::Client;
use hermes_tests::{Envoy, Node, Pki, Role, curl, envoy, eventually, free, origins};
use serde_json::{Value, json};

use super::{NAMES, before, end};

/// Lengths of datagrams.
const LENGTHS: [usize; 4] = [0, 1, 1000, 1200];

/// Envoy's packets are as large as those that came in the handshake, 1280 bytes, whatever the path carries: one of these is too
/// large for them, and one of [`LENGTHS`] is not.
const TOO_LARGE: usize = 1280;

fn showed(role: Role, payload: &str) {
    shown_of("Envoy", envoy::version, role, payload);
}

/// A node that ends everything, and an Envoy with these listeners that sends what comes to it, to the cluster `sap`.
struct Client3 {
    sap: Node,
    envoy: Envoy,
}

impl Client3 {
    fn new(listeners: Vec<Value>) -> Self {
        let pki = Pki::new();
        let sap = end(&pki);
        let envoy = Envoy::start(
            "dp",
            listeners,
            vec![http3::cluster(
                "sap",
                sap.address("web"),
                NAMES[1],
                &pki.ca(),
            )],
        );
        Self { sap, envoy }
    }

    /// The record of the exchange of this kind, which came over HTTP/3.
    fn record(&self, kind: &str) -> Value {
        let record = self
            .sap
            .record(|record| record["kind"] == kind && record["event"] == "end");
        assert_eq!(record["protocol"], "h3", "{record}");
        record
    }
}

/// An Envoy with these routes and clusters behind a node, which speaks HTTP/1.1 to its own clients.
struct Server3 {
    dp: Node,
    envoy: Envoy,
}

impl Server3 {
    fn new(routes: &[Value], cluster: Value) -> Self {
        let (pki, at) = (Pki::new(), free::udp());
        let listener = http3::listener("web", at, routes, &pki.issue(&[&at.ip().to_string()]));
        let envoy = Envoy::start("sap", vec![listener], vec![cluster]);
        Self {
            dp: before(&pki, at),
            envoy,
        }
    }
}

/// A listener of Envoy for programs that speak HTTP/1.1.
fn web() -> Vec<Value> {
    vec![bootstrap::http("web", &bootstrap::forward("sap"))]
}

/// Bytes there and back, and the end of both directions.
fn bytes_pass(proxy: SocketAddr, authority: &str) {
    let mut raw = Raw::tunnel(proxy, authority, "").unwrap();
    let sent = vec![7; 300_000];
    let mut writer = raw.other();
    let sending = sent.clone();
    let sender = std::thread::spawn(move || writer.send(&sending));
    assert!(raw.exactly(sent.len()) == sent);
    sender.join().unwrap();
}

/// Frames of a WebSocket there and back.
fn frames_pass(proxy: SocketAddr, authority: &str) {
    let mut raw = Raw::connect(proxy);
    raw.send(format!(
        "GET http://{authority}/chat HTTP/1.1\r\nHost: {authority}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    ));
    let head = raw.head();
    assert_eq!(head.status(), 101, "{head:?}");
    assert_eq!(
        head.field("sec-websocket-accept").as_deref(),
        Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
    );
    for length in [1, 70_000] {
        raw.send(vec![b'f'; length]);
        assert!(raw.exactly(length) == vec![b'f'; length]);
    }
}

#[test]
fn envoy_sends_requests_to_hermes_over_http3() {
    let (origin, pair) = (origins::http(), Client3::new(web()));
    let url = format!("http://{}/a?b", origin.address());
    let got = curl(&["-x", &pair.envoy.url("web"), "-d", "content", &url]);
    assert_eq!((got.exit, got.status), (0, 200), "{got:?}");
    assert_eq!(
        (&got.json()["body"], origin.last().uri.as_str()),
        (&json!("content"), "/a?b")
    );
    pair.record("http");
    showed(Role::Client, "request");
}

#[test]
fn envoy_sends_connect_to_hermes_over_http3() {
    let (origin, pair) = (origins::tcp_echo(), Client3::new(web()));
    bytes_pass(pair.envoy.address("web"), &origin.address().to_string());
    pair.record("connect");
    showed(Role::Client, "CONNECT");
}

#[test]
fn envoy_sends_websocket_to_hermes_over_http3() {
    let (origin, pair) = (origins::tcp_upgrades(), Client3::new(web()));
    frames_pass(pair.envoy.address("web"), &origin.address().to_string());
    assert_eq!(pair.record("upgrade")["status"], 200);
    showed(Role::Client, "WebSocket");
}

#[test]
fn envoy_sends_connect_udp_to_hermes_over_http3() {
    let origin = origins::udp_echo(origins::V4);
    let pair = Client3::new(vec![bootstrap::udp(
        "udp",
        "sap",
        "127.0.0.1",
        origin.port(),
    )]);
    let client = Client::connect(pair.envoy.address("udp"));
    for length in LENGTHS {
        assert_eq!(client.ask(vec![9; length]).len(), length);
    }
    showed(Role::Client, "UDP, datagrams");
}

#[test]
fn hermes_sends_requests_to_envoy_over_http3() {
    let origin = origins::http();
    let pair = Server3::new(
        &bootstrap::forward("web"),
        bootstrap::origin("web", origin.address()),
    );
    let got = curl(&[
        "-x",
        &pair.dp.url("web"),
        "-d",
        "content",
        "http://VIDEO/a?b",
    ]);
    assert_eq!((got.exit, got.status), (0, 200), "{got:?}");
    assert_eq!(
        (&got.json()["body"], origin.last().uri.as_str()),
        (&json!("content"), "/a?b")
    );
    showed(Role::Server, "request");
}

#[test]
fn hermes_sends_connect_to_envoy_over_http3() {
    let origin = origins::tcp_echo();
    let pair = Server3::new(
        &bootstrap::terminate("CONNECT", "tcp"),
        bootstrap::origin("tcp", origin.address()),
    );
    bytes_pass(pair.dp.address("web"), &origin.address().to_string());
    showed(Role::Server, "CONNECT");
}

#[test]
fn hermes_sends_websocket_to_envoy_over_http3() {
    let origin = origins::tcp_upgrades();
    let pair = Server3::new(
        &bootstrap::forward("web"),
        bootstrap::origin("web", origin.address()),
    );
    frames_pass(pair.dp.address("web"), &origin.address().to_string());
    showed(Role::Server, "WebSocket");
}

#[test]
fn hermes_sends_connect_udp_to_envoy_over_http3() {
    let origin = origins::udp_echo(origins::V4);
    let pair = Server3::new(
        &bootstrap::terminate("CONNECT-UDP", "udp"),
        bootstrap::udp_origin("udp", origin.address()),
    );
    let mut tunnel = UdpTunnel::h1(pair.dp.address("web"), "127.0.0.1", origin.port(), "").unwrap();
    for length in LENGTHS {
        let payload = vec![9; length];
        tunnel.send(&payload);
        assert_eq!(tunnel.receive(), payload);
    }
    // It comes to the target, and Envoy has no packet for the answer.
    tunnel.send(vec![9; TOO_LARGE]);
    tunnel.send("after");
    assert_eq!(tunnel.receive(), b"after");
    assert_eq!(
        origin.seen().iter().map(|(_, payload)| payload.len()).max(),
        Some(TOO_LARGE)
    );
    eventually("Envoy says so", || {
        pair.envoy
            .log()
            .contains("DATAGRAM_STATUS_TOO_LARGE")
            .then_some(())
    });
    showed(Role::Server, "UDP, datagrams");
}
