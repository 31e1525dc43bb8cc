//! Tunnels: their opening is tried again, never what they carry.

use std::net::SocketAddr;

use hermes_tests::Node;
use hermes_tests::origins::{self, Act, acting};
use hermes_tests::raw::Raw;

/// A node whose CONNECT goes to the next proxies.
fn before(proxies: &[SocketAddr], keys: &str) -> Node {
    let endpoints = proxies
        .iter()
        .map(|proxy| format!("\"{proxy}\""))
        .collect::<Vec<_>>()
        .join(", ");
    Node::start(
        "alice",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
            routes: [ {{ to: next }} ]
            upstreams: {{ next: {{ endpoints: [{endpoints}]{keys} }} }}
            "#
        ),
    )
}

#[test]
fn a_tunnel_that_was_refused_is_asked_for_again() {
    let opened = "HTTP/1.1 200 OK\r\n\r\nhello\n".to_owned();
    let proxy = acting(&[Act::status(503, ""), Act::Reset, Act::Say(opened)]);
    let node = before(&[proxy.address()], ", retry: { on: 5xx }");
    let mut tunnel = Raw::tunnel(node.address("web"), "DB:5432", "").unwrap();
    assert_eq!(tunnel.exactly(6), b"hello\n");
    assert_eq!(proxy.seen().len(), 3);
    drop(tunnel);
    assert_eq!(node.record(|_| true)["attempts"], 3);
}

#[test]
fn without_a_policy_a_refusal_is_passed_on() {
    let proxy = acting(&[Act::status(503, ""), Act::status(200, "")]);
    let node = before(&[proxy.address()], "");
    assert_eq!(
        Raw::tunnel(node.address("web"), "DB:5432", "")
            .unwrap_err()
            .status(),
        503
    );
    assert_eq!(proxy.seen().len(), 1);
}

#[test]
fn a_proxy_that_does_not_answer_in_time_is_left_for_another() {
    let (slow, fast) = (
        acting(&[Act::Hang]),
        acting(&[Act::Say("HTTP/1.1 200 OK\r\n\r\n".to_owned())]),
    );
    let node = before(
        &[slow.address(), fast.address()],
        ", retry: { on: reset, per_try_timeout: 100ms }",
    );
    assert!(Raw::tunnel(node.address("web"), "DB:5432", "").is_ok());
    assert_eq!(fast.seen().len(), 1);
}

#[test]
fn what_a_tunnel_carried_is_never_sent_again() {
    let server = origins::tcp_resets();
    let node = Node::start(
        "alice",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
            routes: [ {{ terminate: db, retry: {{ on: 5xx, attempts: 5 }} }} ]
            upstreams: {{ db: {{ endpoints: ["{}"] }} }}
            "#,
            server.address()
        ),
    );
    let mut tunnel = Raw::tunnel(node.address("web"), "DB:5432", "").unwrap();
    assert_eq!(tunnel.exactly(4), b"half");
    server.release();
    tunnel.rest();
    assert_eq!(
        (
            node.record(|_| true)["attempts"].as_u64(),
            server.connections()
        ),
        (Some(1), 1)
    );
}

#[test]
fn a_connection_for_a_tunnel_is_tried_as_often_as_the_policy_says() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = listener.local_addr().unwrap();
    drop(listener);
    let node = Node::start(
        "alice",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
            routes: [ {{ terminate: db }} ]
            upstreams: {{ db: {{ endpoints: ["{closed}"], retry: {{ attempts: 3 }} }} }}
            "#
        ),
    );
    let head = Raw::tunnel(node.address("web"), "DB:5432", "").unwrap_err();
    assert_eq!(head.status(), 502);
    let status = head.field("proxy-status").unwrap();
    assert!(
        status.contains("error=connection_refused") && status.contains("(3 attempts)"),
        "{status}"
    );
    assert_eq!(node.record(|_| true)["attempts"], 3);
    assert!(
        node.metrics()
            .contains(r#"hermes_retries_total{upstream="db",reason="connect-failure"} 2"#)
    );
}

#[test]
fn a_tunnel_of_datagrams_that_was_refused_is_asked_for_again() {
    // What is answered is a capsule (RFC 9297, 3.5): type 0, length 6, context ID 0, five bytes.
    let opened = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: connect-udp\r\n\
                  Capsule-Protocol: ?1\r\n\r\n\u{0}\u{6}\u{0}hello";
    let proxy = acting(&[Act::status(503, ""), Act::Say(opened.to_owned())]);
    let node = Node::start(
        "alice",
        &format!(
            r#"
            listeners: {{ voice: {{ udp: 127.0.0.1:0, target: "VOICE:5004" }} }}
            routes: [ {{ to: next }} ]
            upstreams: {{ next: {{ endpoints: ["{}"], retry: {{ on: gateway-error }} }} }}
            "#,
            proxy.address()
        ),
    );
    let client = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    client
        .set_read_timeout(Some(hermes_tests::eventually::PATIENCE))
        .unwrap();
    client.send_to(b"knock", node.address("voice")).unwrap();
    let mut answer = [0; 16];
    let length = client.recv(&mut answer).unwrap();
    assert_eq!((&answer[..length], proxy.seen().len()), (&b"hello"[..], 2));
}
