//! HTTP/3 against aioquic and masque-go, as client and as server: their QUIC, HTTP/3 and QPACK are not ours.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise, in its helpers too")]

use std::net::SocketAddr;

use hermes_tests::capsules::UdpTunnel;
use hermes_tests::raw::Raw;
use hermes_tests::{Http3Server, Masque, Node, Pki, curl, http3_client, origins};
use serde_json::json;

/// A node that ends tunnels and requests of anybody on this machine.
fn end(pki: &Pki) -> Node {
    let yaml = format!(
        r#"
        listeners: {{ web: {{ http: 127.0.0.1:0, tls: {{ {} }} }} }}
        routes: [ {{ terminate: true }} ]
        egress: {{ allow: [127.0.0.0/8] }}
        "#,
        pki.issue(&["127.0.0.1"]).yaml()
    );
    Node::start("end", &yaml)
}

/// A node whose next proxy is this one.
fn before(pki: &Pki, next: SocketAddr) -> Node {
    let yaml = format!(
        r#"
        listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
        routes: [ {{ to: next }} ]
        upstreams: {{ next: {{ endpoints: ["{next}"], http: 3, tls: {{ ca_file: {} }} }} }}
        "#,
        pki.ca().display()
    );
    Node::start("entry", &yaml)
}

#[test]
fn aioquic_sends_requests_bytes_datagrams_and_websocket_to_hermes() {
    let pki = Pki::new();
    let (node, ca) = (end(&pki), pki.ca());
    let address = node.address("web");
    let (http, tcp, udp, socket) =
        (origins::http(), origins::tcp_echo(), origins::udp_echo(origins::V4), origins::tcp_upgrades());
    let got = http3_client(&ca, address, &["get", &http.address().to_string(), "/bytes/300000"]);
    assert_eq!((&got["status"], &got["bytes"]), (&json!(200), &json!(300_000)), "{got}");
    let got = http3_client(&ca, address, &["bytes", &tcp.address().to_string(), "300000"]);
    assert_eq!(got, json!({ "status": 200, "bytes": 300_000 }));
    let got = http3_client(&ca, address, &["udp", &udp.address().to_string(), "0", "1", "1000", "1100"]);
    assert_eq!(got, json!({ "status": 200, "came": [0, 1, 1000, 1100] }));
    let got = http3_client(&ca, address, &["websocket", &socket.address().to_string(), "/chat"]);
    assert_eq!(got, json!({ "status": 200, "came": "frame" }));
}

#[test]
fn a_tunnel_of_aioquic_goes_on_when_its_address_changes() {
    let pki = Pki::new();
    let (node, udp) = (end(&pki), origins::udp_echo(origins::V4));
    let got = http3_client(&pki.ca(), node.address("web"), &["moving", &udp.address().to_string()]);
    assert_eq!(got, json!({ "status": 200, "came": ["before", "after"] }));
    // The target saw one client all the time.
    let seen = udp.seen();
    assert_eq!(seen[0].0, seen[1].0);
}

#[test]
fn hermes_sends_requests_bytes_datagrams_and_websocket_to_aioquic() {
    let pki = Pki::new();
    let next = Http3Server::start(&pki);
    let node = before(&pki, next.address());
    let proxy = node.address("web");
    let got = curl(&["-x", &node.url("web"), "http://VIDEO/a?b"]);
    assert_eq!((got.exit, got.status), (0, 200), "{got:?}");
    assert_eq!((&got.json()[":authority"], &got.json()[":path"]), (&json!("VIDEO"), &json!("/a?b")));

    let mut raw = Raw::tunnel(proxy, "DB:5432", "").unwrap();
    raw.send("hello");
    assert_eq!(raw.exactly(5), b"hello");

    let mut tunnel = UdpTunnel::h1(proxy, "VOICE", 5004, "").unwrap();
    for length in [0, 1, 1000, 1100] {
        let payload = vec![9; length];
        tunnel.send(&payload);
        assert_eq!(tunnel.receive(), payload);
    }

    let mut raw = Raw::connect(proxy);
    raw.send(
        "GET http://CHAT/ HTTP/1.1\r\nHost: CHAT\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    );
    assert_eq!(raw.head().status(), 101);
    raw.send("frame");
    assert_eq!(raw.exactly(5), b"frame");
}

#[test]
fn masque_go_sends_datagrams_through_hermes() {
    let pki = Pki::new();
    let (node, udp) = (end(&pki), origins::udp_echo(origins::V4));
    let lengths = [1, 1000, 1200];
    assert_eq!(Masque::client(&pki.ca(), node.address("web"), udp.address(), &lengths), lengths);
    let record = node.record(|record| record["kind"] == "connect-udp");
    assert_eq!(record["datagrams"], json!({ "client_to_target": 3, "target_to_client": 3, "dropped": 0 }));
}

#[test]
fn masque_go_sends_datagrams_through_two_nodes() {
    let (pki, udp) = (Pki::new(), origins::udp_echo(origins::V4));
    let end = end(&pki);
    let middle = Node::start(
        "middle",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0, tls: {{ {} }} }} }}
            routes: [ {{ to: next }} ]
            upstreams: {{ next: {{ endpoints: ["{}"], http: 3, tls: {{ ca_file: {} }} }} }}
            "#,
            pki.issue(&["127.0.0.1"]).yaml(),
            end.address("web"),
            pki.ca().display()
        ),
    );
    let lengths = [1, 1000, 1200];
    assert_eq!(Masque::client(&pki.ca(), middle.address("web"), udp.address(), &lengths), lengths);
}

#[test]
fn hermes_sends_datagrams_through_masque_go() {
    let (pki, udp) = (Pki::new(), origins::udp_echo(origins::V4));
    let next = Masque::proxy(&pki);
    let node = before(&pki, next.address());
    let mut tunnel = UdpTunnel::h1(node.address("web"), "127.0.0.1", udp.port(), "").unwrap();
    for length in [1, 1000, 1200] {
        let payload = vec![9; length];
        tunnel.send(&payload);
        assert_eq!(tunnel.receive(), payload);
    }
}
