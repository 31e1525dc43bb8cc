//! Clients of a node. Each test writes down what it has shown, for the table in `docs/interop.md`.

use hermes_tests::{HttpPeer, Pki, Role, origins, shown};
use serde_json::{Value, json};

use super::{NAMES, end};

/// One test for each payload that a client has.
macro_rules! clients {
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

clients! {
    aioquic: HttpPeer::Aioquic => request, trailers, interim, connect, datagrams, capsules, websocket, early_data, migration;
    h3: HttpPeer::H3 => request, trailers, interim, datagrams, capsules, early_get, migration, two_nodes;
    masque_go: HttpPeer::MasqueGo => datagrams, two_nodes;
    quic_go: HttpPeer::QuicGo => request, trailers, interim, connect, datagrams, capsules, websocket, early_get, two_nodes;
    quiche: HttpPeer::Quiche => request, trailers, interim, connect, datagrams, capsules, websocket, two_nodes;
}

/// Lengths of datagrams, which fit packets of 1280.
const LENGTHS: [usize; 4] = [0, 1, 1000, 1200];

/// What a client got for an action at a node that ends everything.
fn ask(peer: HttpPeer, action: &[&str]) -> Value {
    let pki = Pki::new();
    let node = end(&pki);
    peer.client(&pki.ca(), node.address("web"), action)
}

fn request(peer: HttpPeer) {
    let origin = origins::http();
    let got = ask(
        peer,
        &["get", &origin.address().to_string(), "/bytes/300000"],
    );
    assert_eq!(
        (&got["status"], &got["bytes"]),
        (&json!(200), &json!(300_000)),
        "{got}"
    );
    shown(peer, Role::Client, "request");
}

fn trailers(peer: HttpPeer) {
    let origin = origins::http();
    let authority = origin.address().to_string();
    let got = ask(peer, &["get", &authority, "/trailers"]);
    assert_eq!(
        (&got["text"], &got["trailers"]),
        (&json!("body\n"), &json!({ "x-checksum": "42" })),
        "{got}"
    );
    let got = ask(peer, &["post", &authority, "/post", "300000"]);
    let seen: Value = serde_json::from_str(got["text"].as_str().unwrap()).unwrap();
    assert_eq!(
        (&seen["bytes"], &seen["trailers"]),
        (&json!(300_000), &json!({ "x-checksum": "42" })),
        "{got}"
    );
    shown(peer, Role::Client, "trailers");
}

fn interim(peer: HttpPeer) {
    let origin = origins::early_hints();
    origin.release();
    let got = ask(peer, &["get", &origin.address().to_string(), "/"]);
    assert_eq!(
        (&got["status"], &got["interim"]),
        (&json!(200), &json!([103])),
        "{got}"
    );
    shown(peer, Role::Client, "1xx");
}

fn connect(peer: HttpPeer) {
    let tcp = origins::tcp_echo();
    let got = ask(peer, &["bytes", &tcp.address().to_string(), "300000"]);
    assert_eq!(got, json!({ "status": 200, "bytes": 300_000 }));
    shown(peer, Role::Client, "CONNECT");
}

/// Sends datagrams of all lengths, in these.
fn udp(peer: HttpPeer, action: &str) {
    let (pki, target) = (Pki::new(), origins::udp_echo(origins::V4));
    let node = end(&pki);
    let (target, lengths) = (
        target.address().to_string(),
        LENGTHS.map(|length| length.to_string()),
    );
    let action: Vec<&str> = [action, &target]
        .into_iter()
        .chain(lengths.iter().map(String::as_str))
        .collect();
    let got = peer.client(&pki.ca(), node.address("web"), &action);
    assert_eq!(got, json!({ "status": 200, "came": LENGTHS }));
    let record = node.record(|record| record["kind"] == "connect-udp");
    assert_eq!(
        record["datagrams"],
        json!({ "client_to_target": 4, "target_to_client": 4, "dropped": 0 })
    );
}

fn datagrams(peer: HttpPeer) {
    udp(peer, "udp");
    shown(peer, Role::Client, "UDP, datagrams");
}

fn capsules(peer: HttpPeer) {
    udp(peer, "capsules");
    shown(peer, Role::Client, "UDP, capsules");
}

#[test]
fn a_capsule_that_is_longer_than_udp_allows_ends_its_tunnel() {
    let (pki, target) = (Pki::new(), origins::udp_echo(origins::V4));
    let node = end(&pki);
    let action = ["capsules", &target.address().to_string(), "1", "65528"];
    let got = HttpPeer::H3.client(&pki.ca(), node.address("web"), &action);
    assert_eq!(
        (&got["status"], &got["came"]),
        (&json!(200), &json!([1])),
        "{got}"
    );
    assert!(
        got["ended"].as_str().unwrap().contains("H3_MESSAGE_ERROR"),
        "{got}"
    );
    assert_eq!(target.seen().len(), 1);
    let record = node.record(|record| record["kind"] == "connect-udp");
    assert_eq!(record["datagrams"]["client_to_target"], 1, "{record}");
}

fn websocket(peer: HttpPeer) {
    let origin = origins::tcp_upgrades();
    let got = ask(peer, &["websocket", &origin.address().to_string(), "/chat"]);
    assert_eq!(got, json!({ "status": 200, "came": "frame" }));
    shown(peer, Role::Client, "WebSocket");
}

/// Of a client that lets the handshake end when it will, so that the node need not know the request as early.
fn early_get(peer: HttpPeer) {
    let origin = origins::http();
    let got = ask(peer, &["early", "GET", &origin.address().to_string(), "/"]);
    assert_eq!(
        (&got["status"], &got["early"]),
        (&json!(200), &json!(true)),
        "{got}"
    );
    shown(peer, Role::Client, "0-RTT");
}

/// Of a client that lets the handshake end only when it has the answer.
fn early_data(peer: HttpPeer) {
    let (pki, origin) = (Pki::new(), origins::http());
    let (node, authority) = (end(&pki), origin.address().to_string());
    let ask = |method| {
        peer.client(
            &pki.ca(),
            node.address("web"),
            &["early", method, &authority, "/"],
        )
    };
    let got = ask("GET");
    assert_eq!(
        (&got["status"], &got["early"]),
        (&json!(200), &json!(true)),
        "{got}"
    );
    // RFC 8470, 5.1: the next one must know.
    assert_eq!(origin.last().field("early-data").as_deref(), Some("1"));
    origin.forget();
    let got = ask("POST");
    assert_eq!(
        (&got["status"], &got["early"]),
        (&json!(425), &json!(true)),
        "{got}"
    );
    let record = node.record(|record| record["status"] == 425);
    assert_eq!(
        (&record["method"], &record["event"]),
        (&json!("POST"), &json!("end")),
        "{record}"
    );
    assert!(
        record["target"].as_str().unwrap().starts_with(&authority),
        "{record}"
    );
    assert!(
        origin
            .seen()
            .iter()
            .all(|seen| seen.method == "GET" && seen.field("early-data").is_none())
    );
    shown(peer, Role::Client, "0-RTT");
}

fn migration(peer: HttpPeer) {
    let (pki, udp) = (Pki::new(), origins::udp_echo(origins::V4));
    let node = end(&pki);
    let got = peer.client(
        &pki.ca(),
        node.address("web"),
        &["moving", &udp.address().to_string()],
    );
    assert_eq!(got, json!({ "status": 200, "came": ["before", "after"] }));
    // The target saw one client all the time.
    let seen = udp.seen();
    assert_eq!(seen[0].0, seen[1].0);
    shown(peer, Role::Client, "migration");
}

/// Datagrams through a node that passes them on to the one that ends them.
fn two_nodes(peer: HttpPeer) {
    let (pki, udp) = (Pki::new(), origins::udp_echo(origins::V4));
    let end = end(&pki);
    let yaml = format!(
        r#"
        listeners: {{ web: {{ http: 127.0.0.1:0, tls: {{ {} }} }} }}
        routes: [ {{ to: next }} ]
        upstreams: {{ next: {{ endpoints: ["{}"], http: 3, tls: {{ ca_file: {} }} }} }}
        "#,
        pki.issue(&NAMES).yaml(),
        end.address("web"),
        pki.ca().display()
    );
    let middle = hermes_tests::Node::start("middle", &yaml);
    let got = peer.client(
        &pki.ca(),
        middle.address("web"),
        &["udp", &udp.address().to_string(), "1", "1000", "1200"],
    );
    assert_eq!(got, json!({ "status": 200, "came": [1, 1000, 1200] }));
}
