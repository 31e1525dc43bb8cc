//! `tunnel: { direct }` of a route: connections to the target from here, beside a next proxy or in its place.

use std::net::{SocketAddr, TcpListener};

use hermes_tests::raw::{End, Raw};
use hermes_tests::{Node, origins};

/// A node that leads tunnels to a proxy at `edge`, with these further keys of its route.
fn near(edge: SocketAddr, keys: &str) -> String {
    format!(
        r#"
        listeners: {{ web: {{ http: "127.0.0.1:0" }} }}
        upstreams: {{ edge: {{ endpoints: ["{edge}"] }} }}
        routes: [ {{ to: edge{keys} }} ]
        egress: {{ allow: [127.0.0.0/8] }}
        "#
    )
}

const FALLBACK: &str = ", tunnel: { direct: fallback }";

/// An echo through the node, and the status that it gave.
fn echo(node: &Node, target: SocketAddr) -> Result<(), u16> {
    let opened = Raw::tunnel(node.address("web"), &target.to_string(), "");
    let mut raw = opened.map_err(|head| head.status())?;
    raw.send("hello");
    assert_eq!(raw.exactly(5), b"hello");
    raw.finish();
    assert_eq!(raw.rest(), (Vec::new(), End::Closed));
    Ok(())
}

#[test]
fn a_proxy_that_is_not_there_is_passed_by_where_the_route_says_so_alone() {
    let origin = origins::tcp_echo();
    let unserved = origins::Unserved::new();
    let away = unserved.address();
    let node = Node::start("alice", &near(away, FALLBACK));
    assert_eq!(echo(&node, origin.address()), Ok(()));
    let record = node.record(|record| record["status"] == 200);
    assert_eq!(record["upstream"], "(target)", "{record}");

    let strict = Node::start("alice", &near(away, ""));
    assert_eq!(echo(&strict, origin.address()), Err(502));
    let denied = near(away, FALLBACK).replace("127.0.0.0/8", "10.0.0.0/8");
    let denied = Node::start("alice", &denied);
    assert_eq!(
        echo(&denied, origin.address()),
        Err(502),
        "`egress` counts, and the reason is that of the proxy"
    );
    assert_eq!(origin.connections(), 1);
}

#[test]
fn a_proxy_that_says_no_is_heeded_and_one_that_fails_is_not() {
    let origin = origins::tcp_echo();
    for (answer, expected) in [
        ("403 Forbidden", Err(403)),
        ("407 Proxy Authentication Required", Err(502)),
        ("503 Service Unavailable", Ok(())),
    ] {
        let answer = format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\n\r\n");
        let edge = origins::scripted(&answer);
        for keys in [FALLBACK, ", tunnel: { direct: { after: 10s } }"] {
            let node = Node::start("alice", &near(edge.address(), keys));
            assert_eq!(echo(&node, origin.address()), expected, "{answer} {keys}");
        }
    }
}

#[test]
fn a_proxy_that_is_slow_loses_the_race_and_gets_no_byte_of_the_client() {
    let origin = origins::tcp_echo();
    // It takes a connection and never answers.
    let edge = TcpListener::bind("127.0.0.1:0").unwrap();
    let keys = ", tunnel: { direct: { after: 50ms } }";
    let node = Node::start("alice", &near(edge.local_addr().unwrap(), keys));
    assert_eq!(echo(&node, origin.address()), Ok(()));
    assert_eq!(origin.connections(), 1);

    let mut asked = Raw::from(edge.accept().unwrap().0);
    let head = asked.head();
    assert!(head.line.starts_with("CONNECT"), "{head:?}");
    assert_eq!(asked.rest().0, b"", "and the end");
}

#[test]
fn a_proxy_that_answers_in_its_head_start_has_the_tunnel_alone() {
    let origin = origins::tcp_echo();
    let edge = Node::start(
        "edge",
        r#"
        listeners: { web: { http: "127.0.0.1:0" } }
        routes: [ { terminate: true } ]
        egress: { allow: [127.0.0.0/8] }
        "#,
    );
    let keys = ", tunnel: { direct: { after: 10s } }";
    let node = Node::start("alice", &near(edge.address("web"), keys));
    assert_eq!(echo(&node, origin.address()), Ok(()));
    let record = node.record(|record| record["status"] == 200);
    assert_eq!(record["upstream"], "edge", "{record}");
    assert_eq!(origin.connections(), 1);
}

#[test]
fn a_reload_keeps_connections_from_here_until_the_route_forbids_them() {
    let origin = origins::tcp_echo();
    let unserved = origins::Unserved::new();
    let away = unserved.address();
    let node = Node::start("alice", &near(away, FALLBACK));
    let target = origin.address().to_string();
    let Ok(mut raw) = Raw::tunnel(node.address("web"), &target, "") else {
        panic!("no tunnel");
    };
    raw.send("before");
    assert_eq!(raw.exactly(6), b"before");

    let changed = near(away, ", tunnel: { direct: { after: 1s } }");
    assert_eq!(node.reload(&changed).0, 200);
    raw.send("after");
    assert_eq!(raw.exactly(5), b"after");

    assert_eq!(node.reload(&near(away, "")).0, 200);
    assert_ne!(raw.rest().1, End::Closed, "it is broken off");
}
