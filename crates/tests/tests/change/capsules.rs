//! Capsules that two ways lead into one client's stream.

use std::net::{SocketAddr, TcpListener};

use hermes_tests::capsules::path;
use hermes_tests::raw::Raw;
use hermes_tests::{Node, Pki};

use super::tunnels::{counts, reload};

const SWITCH: &str =
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: connect-udp\r\nCapsule-Protocol: ?1\r\n\r\n";

/// A capsule of a type that nobody knows, whose value is this.
fn capsule(value: &str) -> Vec<u8> {
    [&[0x2a, value.len() as u8], value.as_bytes()].concat()
}

/// Takes the request for a tunnel that comes next.
fn accept(listener: &TcpListener) -> Raw {
    let mut raw = Raw::from(listener.accept().unwrap().0);
    raw.head();
    raw.send(SWITCH);
    raw
}

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// The answers on a way that was left are still taken. Over HTTP/3 one may come in pieces.
#[test]
fn a_capsule_on_a_way_that_was_left_is_not_torn_by_those_on_the_next() {
    let (pki, (old, old_address), (new, new_address)) = (Pki::new(), listener(), listener());
    let edge = Node::start(
        "edge",
        &format!(
            "listeners: {{ web: {{ http: 127.0.0.1:0, tls: {{ {} }} }} }}\nroutes: [ {{ to: old }} ]\n\
             upstreams: {{ old: {{ endpoints: [\"{old_address}\"] }} }}\n",
            pki.issue(&["127.0.0.1"]).yaml()
        ),
    );
    let with_route = |route: &str| {
        format!(
            "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\nroutes: [ {route} ]\n\
             upstreams:\n  edge: {{ endpoints: [\"{}\"], http: 3, tls: {{ ca_file: {} }} }}\n  \
             new: {{ endpoints: [\"{new_address}\"] }}\n",
            edge.address("web"),
            pki.ca().display()
        )
    };
    let node = Node::start("alice", &with_route("{ to: edge }"));
    let mut client = Raw::connect(node.address("web"));
    let proxy = node.address("web");
    client.send(format!(
        "GET http://{proxy}{} HTTP/1.1\r\nHost: {proxy}\r\nConnection: Upgrade\r\nUpgrade: connect-udp\r\n\
         Capsule-Protocol: ?1\r\n\r\n",
        path("VOICE", 1)
    ));
    let mut old = accept(&old);
    assert_eq!(client.head().status(), 101);
    assert_eq!(reload(&node, &with_route("{ to: new }")), counts(0, 0, 1, 0));
    let mut new = accept(&new);
    new.send(capsule("hello"));
    assert_eq!(client.exactly(7), capsule("hello"));

    let (late, next) = (capsule("late"), capsule("next"));
    old.send(&late[..3]);
    assert_eq!(client.exactly(3), late[..3]);
    new.send(&next);
    // The other direction works meanwhile, and it is the same task that would pass the capsule on.
    client.send(capsule("up"));
    assert_eq!(new.exactly(4), capsule("up"));
    old.send(&late[3..]);
    assert_eq!(client.exactly(late.len() - 3), late[3..]);
    assert_eq!(client.exactly(next.len()), next);
}
