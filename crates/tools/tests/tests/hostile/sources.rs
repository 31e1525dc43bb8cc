//! One source, or one user, that opens as many connections as it can at a listener that asks who its clients are.

use std::fs;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hermes_tests::eventually::eventually_true;
use hermes_tests::raw::{End, Raw};
use hermes_tests::{Node, curl, origins};
use socket2::{Domain, Socket, Type};

/// A node that takes 200 connections, and knows Alice and Bob.
fn node(limits: &str) -> Node {
    let folder = tempfile::tempdir().unwrap();
    let hash = bcrypt::hash("secret", 4).unwrap();
    fs::write(
        folder.path().join("users"),
        format!("alice:{hash}\nbob:{hash}\n"),
    )
    .unwrap();
    let yaml = format!(
        r#"
        workers: 1
        listeners:
          web: {{ http: 127.0.0.1:0, auth: {{ basic: {{ file: users }} }}, limits: {{ connections: 200{limits} }} }}
        routes: [ {{ match: {{ path: / }}, respond: {{ status: 204 }} }}, {{ terminate: true }} ]
        egress: {{ allow: [127.0.0.0/8] }}
        "#
    );
    Node::start_in(folder, "edge", &yaml, &[])
}

/// A connection from another address of this machine; `None` if it was reset before the kernel had told that it is open.
fn try_connect_from(source: &str, address: SocketAddr) -> Option<Raw> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let source: SocketAddr = format!("{source}:0").parse().unwrap();
    socket.bind(&source.into()).unwrap();
    match socket.connect(&address.into()) {
        Ok(()) => Some(Raw::from(TcpStream::from(socket))),
        Err(error) if error.kind() == ErrorKind::ConnectionReset => None,
        Err(error) => panic!("{error}"),
    }
}

/// A connection from there that is not refused.
pub fn connect_from(source: &str, address: SocketAddr) -> Raw {
    try_connect_from(source, address).expect("the connection was reset")
}

/// Whether a connection from there is reset, and nothing is said to it.
fn is_reset_from(source: &str, address: SocketAddr) -> bool {
    let connected = try_connect_from(source, address);
    connected.is_none_or(|mut raw| raw.rest() == (Vec::new(), End::Reset))
}

fn request(user: &str) -> String {
    let credentials = BASE64_STANDARD.encode(format!("{user}:secret"));
    format!("GET http://a/ HTTP/1.1\r\nHost: a\r\nProxy-Authorization: Basic {credentials}\r\n\r\n")
}

fn asked(node: &Node, source: &str, user: &str) -> u16 {
    curl(&[
        "--interface",
        source,
        "-x",
        &node.url("web"),
        "-U",
        &format!("{user}:secret"),
        "http://a/",
    ])
    .status
}

#[test]
fn connections_whose_client_says_nothing_are_bounded_by_source_where_clients_are_asked() {
    let node = node("");
    let held: Vec<_> = (0..300)
        .map(|_| try_connect_from("127.0.0.2", node.address("web")))
        .collect();
    assert!(is_reset_from("127.0.0.2", node.address("web")));
    assert_eq!(
        asked(&node, "127.0.0.3", "alice"),
        204,
        "another source is served"
    );
    drop(held);
    eventually_true("there is room again", || {
        asked(&node, "127.0.0.2", "alice") == 204
    });
}

#[test]
fn connections_of_known_clients_do_not_count_against_their_source() {
    let node = node("");
    let mut known: Vec<_> = (0..40)
        .map(|_| {
            let mut raw = connect_from("127.0.0.2", node.address("web"));
            raw.send(request("alice"));
            assert_eq!(raw.head().status(), 204);
            raw
        })
        .collect();
    // A wrong password makes no one known.
    let strangers: Vec<_> = (0..20)
        .map(|_| {
            let mut raw = connect_from("127.0.0.2", node.address("web"));
            raw.send("GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n");
            assert_eq!(raw.head().status(), 407);
            raw
        })
        .collect();
    assert!(is_reset_from("127.0.0.2", node.address("web")));
    for raw in &mut known {
        raw.send(request("alice"));
        assert_eq!(raw.head().status(), 204, "known ones go on");
    }
    drop(strangers);
}

#[test]
fn one_user_does_not_take_all_connections() {
    let node = node(", connections_per_user: 30");
    let open = |user: &str| {
        let mut raw = connect_from("127.0.0.2", node.address("web"));
        raw.send(request(user));
        (raw.head(), raw)
    };
    let held: Vec<_> = (0..30).map(|_| open("alice")).collect();
    assert!(held.iter().all(|(head, _)| head.status() == 204));
    let (refused, _) = open("alice");
    assert_eq!(refused.status(), 429);
    let status = refused.field("proxy-status").unwrap();
    assert!(
        status.contains("limits.connections_per_user is 30"),
        "{status}"
    );
    assert_eq!(open("bob").0.status(), 204);
    drop(held);
    eventually_true("there is room again", || open("alice").0.status() == 204);
}

#[test]
fn slow_content_of_a_client_that_is_asked_who_it_is_ends() {
    let node = node(", rate_window: 300ms");
    let mut raw = connect_from("127.0.0.2", node.address("web"));
    let origin = origins::http();
    let to = format!("http://{}/post", origin.address());
    let slow = request("alice").replace("GET http://a/", &format!("POST {to}"));
    raw.send(slow.replace("\r\n\r\n", "\r\nContent-Length: 100000\r\n\r\n"));
    raw.send("x");
    assert_eq!(raw.head().status(), 408);
}
