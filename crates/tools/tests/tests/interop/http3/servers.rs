//! Servers behind a node, which speaks HTTP/1.1 to its own clients. Each test writes down what it has shown, for the table
//! in `docs/interop.md`.

use hermes_tests::capsules::UdpTunnel;
use hermes_tests::raw::Raw;
use hermes_tests::{HttpPeer, HttpServer, Node, Pki, Role, curl, origins, shown};
use serde_json::{Value, json};

use super::before;

/// One test for each payload that a server takes.
macro_rules! servers {
    ($($name:ident: $peer:expr => $($payload:ident),+;)+) => {
        $(mod $name {
            use hermes_tests::HttpPeer;
            $(#[test]
            fn $payload() {
                super::$payload($peer);
            })+
        })+
    };
}

servers! {
    aioquic: HttpPeer::Aioquic => request, trailers, interim, connect, datagrams, capsules, websocket;
    h3: HttpPeer::H3 => request, trailers, interim, connect, datagrams, capsules;
    masque_go: HttpPeer::MasqueGo => real_datagrams;
    quic_go: HttpPeer::QuicGo => request, trailers, interim, connect, datagrams, capsules, websocket;
    quiche: HttpPeer::Quiche => request, trailers, interim, connect, datagrams, capsules, websocket;
}

/// A server, and the node before it.
struct Pair {
    node: Node,
    _server: HttpServer,
}

impl Pair {
    fn new(peer: HttpPeer, words: &[&str]) -> Self {
        let pki = Pki::new();
        let server = peer.server(&pki, words);
        Self {
            node: before(&pki, server.address()),
            _server: server,
        }
    }

    fn connect(&self) -> Raw {
        Raw::connect(self.node.address("web"))
    }
}

fn request(peer: HttpPeer) {
    let pair = Pair::new(peer, &[]);
    let got = curl(&[
        "-x",
        &pair.node.url("web"),
        "-d",
        "content",
        "http://VIDEO/a?b",
    ]);
    assert_eq!((got.exit, got.status), (0, 200), "{got:?}");
    let seen = got.json();
    assert_eq!(
        (&seen[":authority"], &seen[":path"], &seen["bytes"]),
        (&json!("VIDEO"), &json!("/a?b"), &json!(7))
    );
    let got = curl(&["-x", &pair.node.url("web"), "http://VIDEO/bytes/300000"]);
    assert_eq!((got.exit, got.status, got.body.len()), (0, 200, 300_000));
    shown(peer, Role::Server, "request");
}

fn trailers(peer: HttpPeer) {
    let pair = Pair::new(peer, &[]);
    let mut raw = pair.connect();
    raw.send(
        "POST http://VIDEO/post HTTP/1.1\r\nHost: VIDEO\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\
         x-checksum: 42\r\n\r\n",
    );
    let text = whole(&mut raw);
    let seen: Value =
        serde_json::from_str(&text[text.find('{').unwrap()..=text.rfind('}').unwrap()]).unwrap();
    assert_eq!(
        (&seen["bytes"], &seen["trailers"]),
        (&json!(3), &json!({ "x-checksum": "42" })),
        "{text}"
    );
    let mut raw = pair.connect();
    raw.send("GET http://VIDEO/trailers HTTP/1.1\r\nHost: VIDEO\r\nTE: trailers\r\nConnection: TE\r\n\r\n");
    let text = whole(&mut raw);
    assert!(
        text.ends_with("5\r\nbody\n\r\n0\r\nx-checksum: 42\r\n\r\n"),
        "{text}"
    );
    shown(peer, Role::Server, "trailers");
}

/// A response with content of unknown or known length, as it stands on the wire.
fn whole(raw: &mut Raw) -> String {
    let head = raw.head();
    assert_eq!(head.status(), 200, "{head:?}");
    match head.field("content-length") {
        Some(length) => String::from_utf8(raw.exactly(length.parse().unwrap())).unwrap(),
        None => {
            let ended = |bytes: &[u8]| {
                bytes.ends_with(b"\r\n\r\n") && bytes.windows(5).any(|five| five == b"\r\n0\r\n")
            };
            String::from_utf8(raw.until(ended)).unwrap()
        }
    }
}

fn interim(peer: HttpPeer) {
    let pair = Pair::new(peer, &[]);
    let got = curl(&["-x", &pair.node.url("web"), "http://VIDEO/hints"]);
    let statuses: Vec<u16> = got.heads.iter().map(|head| head.status()).collect();
    assert_eq!(
        (statuses, got.text()),
        (vec![103, 200], "done\n".to_owned())
    );
    shown(peer, Role::Server, "1xx");
}

fn connect(peer: HttpPeer) {
    let pair = Pair::new(peer, &[]);
    let mut raw = Raw::tunnel(pair.node.address("web"), "DB:5432", "").unwrap();
    let sent = vec![7; 300_000];
    raw.send(&sent);
    raw.finish();
    assert_eq!(raw.exactly(sent.len()), sent);
    assert!(raw.rest().0.is_empty());
    shown(peer, Role::Server, "CONNECT");
}

/// Datagrams of all lengths to a target and back.
fn udp(node: &Node, host: &str, port: u16, lengths: &[usize]) {
    let mut tunnel = UdpTunnel::h1(node.address("web"), host, port, "").unwrap();
    for length in lengths {
        let payload = vec![9; *length];
        tunnel.send(&payload);
        assert_eq!(tunnel.receive(), payload);
    }
}

fn datagrams(peer: HttpPeer) {
    udp(
        &Pair::new(peer, &[]).node,
        "VOICE",
        5004,
        &[0, 1, 1000, 1100],
    );
    shown(peer, Role::Server, "UDP, datagrams");
}

fn capsules(peer: HttpPeer) {
    udp(
        &Pair::new(peer, &["capsules"]).node,
        "VOICE",
        5004,
        &[0, 1, 1000, 1400],
    );
    shown(peer, Role::Server, "UDP, capsules");
}

/// Of a proxy that sends them on itself.
fn real_datagrams(peer: HttpPeer) {
    let target = origins::udp_echo(origins::V4);
    udp(
        &Pair::new(peer, &[]).node,
        "127.0.0.1",
        target.port(),
        &[1, 1000, 1200],
    );
    shown(peer, Role::Server, "UDP, datagrams");
}

fn websocket(peer: HttpPeer) {
    let pair = Pair::new(peer, &[]);
    let mut raw = pair.connect();
    raw.send(
        "GET http://CHAT/ HTTP/1.1\r\nHost: CHAT\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    );
    assert_eq!(raw.head().status(), 101);
    raw.send("frame");
    assert_eq!(raw.exactly(5), b"frame");
    shown(peer, Role::Server, "WebSocket");
}
