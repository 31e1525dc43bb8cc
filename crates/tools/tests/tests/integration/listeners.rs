//! `tcp` and `udp` listeners: ports whose traffic enters the overlay as it is.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::Duration;

use hermes_tests::eventually::eventually_true;
use hermes_tests::raw::{End, Raw};
use hermes_tests::udp::Client;
use hermes_tests::{Node, eventually, origins};

/// A node whose listener `port` (of this kind, on this address) leads to `target`.
fn port(kind: &str, on: &str, target: SocketAddr) -> Node {
    Node::start(
        "alice",
        &format!(
            r#"
            identity: {{ user: alice }}
            listeners: {{ port: {{ {kind}: "{on}:0", target: "{target}" }} }}
            routes: [ {{ terminate: true, timeouts: {{ udp: 1s }} }} ]
            egress: {{ allow: [127.0.0.0/8, "::1/128"] }}
            "#
        ),
    )
}

#[test]
fn a_tcp_server_may_speak_first_and_halves_close_one_by_one() {
    let origin = origins::tcp_speaks_first();
    let node = port("tcp", "127.0.0.1", origin.address());
    let mut raw = Raw::connect(node.address("port"));
    assert_eq!(
        raw.exactly(origins::GREETING.len()),
        origins::GREETING.as_bytes()
    );
    raw.send("hello");
    raw.finish();
    assert_eq!(
        raw.rest(),
        (
            format!("hello{}", origins::farewell(5)).into_bytes(),
            End::Closed
        )
    );
    let record = node.record(|_| true);
    assert_eq!(record["kind"], "connect");
    assert_eq!(record["protocol"], "tcp");
    assert_eq!(record["user"], "alice");
    assert_eq!(record["target"], origin.address().to_string());
    assert_eq!(record["bytes"]["client_to_target"], 5);
}

#[test]
fn a_server_that_closes_its_half_still_hears_the_client() {
    let origin = origins::tcp_closes_first();
    let node = port("tcp", "127.0.0.1", origin.address());
    let mut raw = Raw::connect(node.address("port"));
    assert_eq!(raw.rest(), (b"that is all\n".to_vec(), End::Closed));
    raw.send("still here");
    raw.finish();
    let heard = eventually("the origin hears the end", || origin.seen().pop());
    assert_eq!(heard, b"still here");
}

#[test]
fn a_large_transfer_passes_in_both_directions_at_once() {
    let origin = origins::tcp_echo();
    let node = port("tcp", "[::1]", origin.address());
    let mut raw = Raw::connect(node.address("port"));
    let mut writer = raw.other();
    let sent: Vec<u8> = (0..5_000_000_u32)
        .map(|number| (number % 251) as u8)
        .collect();
    let expected = sent.clone();
    let sending = std::thread::spawn(move || {
        writer.send(&sent);
        writer.finish();
    });
    let (received, end) = raw.rest();
    sending.join().unwrap();
    assert_eq!(end, End::Closed);
    assert!(received == expected, "{} bytes", received.len());
}

#[test]
fn a_reset_passes_through_in_both_directions() {
    let origin = origins::tcp_resets();
    let node = port("tcp", "127.0.0.1", origin.address());
    let mut raw = Raw::connect(node.address("port"));
    assert_eq!(raw.exactly(4), b"half");
    origin.release();
    assert_eq!(raw.rest(), (Vec::new(), End::Reset));

    let origin = origins::tcp_echo();
    let node = port("tcp", "127.0.0.1", origin.address());
    let mut raw = Raw::connect(node.address("port"));
    raw.send("ping");
    assert_eq!(raw.exactly(4), b"ping");
    raw.reset();
    eventually_true("the target sees the reset", || {
        origin.seen() == [b"ConnectionReset"]
    });
}

#[test]
fn a_target_that_no_one_serves_resets_the_client() {
    let unserved = origins::Unserved::new();
    let gone = unserved.address();
    let node = port("tcp", "127.0.0.1", gone);
    let mut raw = Raw::connect(node.address("port"));
    assert_eq!(raw.rest(), (Vec::new(), End::Reset));
    let record = node.record(|_| true);
    assert!(
        record["reason"]
            .as_str()
            .unwrap()
            .starts_with("connection_refused"),
        "{record}"
    );
}

#[test]
fn datagrams_of_every_size_come_back_as_they_were() {
    for (on, address) in [("127.0.0.1", origins::V4), ("[::1]", origins::V6)] {
        let origin = origins::udp_echo(address);
        let node = port("udp", on, origin.address());
        let client = Client::connect(node.address("port"));
        assert_eq!(client.ask("first"), b"first");
        for size in [0, 1, 1200, 1472, 9000, 60_000] {
            let datagram = vec![b'd'; size];
            client.send(&datagram);
            assert_eq!(client.receive().len(), size, "on {on}");
        }
    }
}

#[test]
fn datagrams_that_come_before_the_tunnel_is_open_are_kept() {
    let origin = origins::udp_echo(origins::V4);
    let node = port("udp", "127.0.0.1", origin.address());
    let client = Client::connect(node.address("port"));
    for number in 0..10 {
        client.send(format!("datagram {number}"));
    }
    for number in 0..10 {
        assert_eq!(client.receive(), format!("datagram {number}").into_bytes());
    }
}

#[test]
fn two_clients_do_not_mix() {
    let origin = origins::udp_echo(origins::V4);
    let node = port("udp", "127.0.0.1", origin.address());
    let clients = [
        Client::connect(node.address("port")),
        Client::connect(node.address("port")),
    ];
    for round in 0..5 {
        for (number, client) in clients.iter().enumerate() {
            client.send(format!("{number} {round}"));
        }
        for (number, client) in clients.iter().enumerate() {
            assert_eq!(client.receive(), format!("{number} {round}").into_bytes());
        }
    }
    let sources: HashSet<_> = origin
        .seen()
        .into_iter()
        .map(|(source, _)| source)
        .collect();
    assert_eq!(sources.len(), 2, "each session has its own socket");
    assert_eq!(node.exchanges().len(), 2);
}

#[test]
fn a_silent_session_ends_and_the_next_datagram_begins_another() {
    let origin = origins::udp_echo(origins::V4);
    let node = port("udp", "127.0.0.1", origin.address());
    let client = Client::connect(node.address("port"));
    assert_eq!(client.ask("one"), b"one");
    let record = node.record(|_| true);
    assert_eq!(
        (&record["kind"], &record["protocol"]),
        (&"connect-udp".into(), &"udp".into())
    );
    assert!(
        record["reason"].as_str().unwrap().starts_with("idle"),
        "{record}"
    );
    assert_eq!(client.ask("two"), b"two");
}

#[test]
fn a_udp_target_that_is_refused_leaves_the_client_without_an_answer() {
    let node = Node::start(
        "alice",
        r#"
        listeners: { port: { udp: 127.0.0.1:0, target: "127.0.0.1:9" } }
        routes: [ { terminate: true } ]
        "#,
    );
    let client = Client::connect(node.address("port"));
    client.send("x");
    let record = node.record(|_| true);
    assert!(
        record["reason"]
            .as_str()
            .unwrap()
            .starts_with("destination_ip_prohibited"),
        "{record}"
    );
    assert_eq!(client.receive_within(Duration::from_millis(50)), None);
}

#[test]
fn sessions_leave_no_descriptor_behind() {
    let origin = origins::udp_echo(origins::V4);
    let node = port("udp", "127.0.0.1", origin.address());
    assert_eq!(Client::connect(node.address("port")).ask("x"), b"x");
    node.idle();
    let before = node.fds();
    let clients: Vec<_> = (0..50)
        .map(|_| Client::connect(node.address("port")))
        .collect();
    clients
        .iter()
        .for_each(|client| assert_eq!(client.ask("x"), b"x"));
    eventually_true("all sessions end", || node.access().len() >= 51);
    node.idle();
    eventually_true("descriptors are given back", || node.fds() <= before);
}

#[test]
fn the_listeners_fields_travel_with_its_exchanges() {
    let origin = origins::tcp_echo();
    let edge = Node::start(
        "edge",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0, insecure_trust: [127.0.0.0/8] }} }}
            routes: [ {{ match: {{ fields: {{ service: db }}, user: carol, target: "DB:5432" }}, terminate: db }} ]
            upstreams: {{ db: {{ endpoints: ["{}"] }} }}
            "#,
            origin.address()
        ),
    );
    let alice = Node::start(
        "alice",
        &format!(
            r#"
            listeners: {{ db: {{ tcp: 127.0.0.1:0, target: "DB:5432", user: carol, set: {{ service: db }} }} }}
            routes: [ {{ to: edge }} ]
            upstreams: {{ edge: {{ endpoints: ["{}"] }} }}
            "#,
            edge.address("web")
        ),
    );
    let mut raw = Raw::connect(alice.address("db"));
    raw.send("through");
    assert_eq!(raw.exactly(7), b"through");
    assert_eq!(edge.exchanges()[0]["user"], "carol");
}
