//! Capsules that two ways lead into one client's stream, and tunnels that are to move within one.

use std::net::{SocketAddr, TcpListener};

use hermes_tests::capsules::path;
use hermes_tests::eventually::eventually_true;
use hermes_tests::raw::{End, Raw};
use hermes_tests::{Node, Pki, origins};

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

/// Asks for a tunnel.
fn ask(proxy: SocketAddr) -> Raw {
    let mut client = Raw::connect(proxy);
    client.send(format!(
        "GET http://{proxy}{} HTTP/1.1\r\nHost: {proxy}\r\nConnection: Upgrade\r\nUpgrade: connect-udp\r\n\
         Capsule-Protocol: ?1\r\n\r\n",
        path("VOICE", 1)
    ));
    client
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
    let mut client = ask(node.address("web"));
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

/// A tunnel through a node with one route and two upstreams.
struct Moving {
    node: Node,
    client: Raw,
    upstreams: String,
}

impl Moving {
    /// A tunnel that waits for its answer.
    fn start(route: &str, upstreams: [(&str, SocketAddr); 2]) -> Self {
        let [(one, first), (two, second)] = upstreams;
        let upstreams =
            format!("upstreams:\n  {one}: {{ endpoints: [\"{first}\"] }}\n  {two}: {{ endpoints: [\"{second}\"] }}\n");
        let node = Node::start("alice", &with(route, &upstreams));
        let client = ask(node.address("web"));
        Self { node, client, upstreams }
    }

    fn moves(&self, route: &str) {
        assert_eq!(reload(&self.node, &with(route, &self.upstreams)), counts(0, 0, 1, 0), "{route}");
    }

    fn stays(&self) {
        eventually_true("the log says that it stays", || self.node.log().contains("not moved; a capsule"));
    }
}

fn with(route: &str, upstreams: &str) -> String {
    format!("listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\nroutes: [ {route} ]\n{upstreams}")
}

#[test]
fn a_tunnel_does_not_move_while_its_client_is_within_a_capsule() {
    let ((old, old_address), (new, new_address)) = (listener(), listener());
    let mut moving = Moving::start("{ to: old }", [("old", old_address), ("new", new_address)]);
    let (mut old, whole) = (accept(&old), capsule("begun"));
    assert_eq!(moving.client.head().status(), 101);
    moving.client.send(&whole[..4]);
    assert_eq!(old.exactly(4), whole[..4]);
    moving.moves("{ to: new }");
    let mut left = accept(&new);
    moving.stays();
    assert_eq!(left.rest().0, b"", "nothing of it went there");
    old.send(capsule("down"));
    assert_eq!(moving.client.exactly(6), capsule("down"));
    moving.client.send([&whole[4..], &capsule("next")].concat());
    assert_eq!(old.exactly(whole.len() - 4), whole[4..]);
    assert_eq!(old.exactly(6), capsule("next"));

    // Between two capsules it can.
    moving.moves("{ to: new, set: { a: b } }");
    let mut new = accept(&new);
    new.send(capsule("hello"));
    assert_eq!(moving.client.exactly(7), capsule("hello"));
    moving.client.send(capsule("up"));
    assert_eq!(new.exactly(4), capsule("up"));
}

#[test]
fn a_tunnel_does_not_move_while_an_answer_is_within_a_capsule() {
    let ((old, old_address), (new, new_address)) = (listener(), listener());
    let mut moving = Moving::start("{ to: old }", [("old", old_address), ("new", new_address)]);
    let (mut old, whole) = (accept(&old), capsule("begun"));
    assert_eq!(moving.client.head().status(), 101);
    old.send(&whole[..4]);
    assert_eq!(moving.client.exactly(4), whole[..4]);
    moving.moves("{ to: new }");
    let mut left = accept(&new);
    left.send(capsule("wrong"));
    moving.stays();
    moving.client.send(capsule("up"));
    assert_eq!(old.exactly(4), capsule("up"));
    old.send([&whole[4..], &capsule("next")].concat());
    assert_eq!(moving.client.exactly(whole.len() - 4), whole[4..]);
    assert_eq!(moving.client.exactly(6), capsule("next"));
}

#[test]
fn a_datagram_that_has_begun_is_not_torn_by_a_move() {
    let (one, two) = (origins::udp_echo(origins::V4), origins::udp_echo(origins::V4));
    let mut moving = Moving::start("{ terminate: one }", [("one", one.address()), ("two", two.address())]);
    assert_eq!(moving.client.head().status(), 101);
    // What comes with a datagram that was answered has been read.
    moving.client.send(b"\0\x06\0first\0\x06\0be");
    assert_eq!(moving.client.exactly(8), b"\0\x06\0first");
    moving.moves("{ terminate: two }");
    moving.stays();
    moving.client.send(b"gun\0\x05\0next");
    assert_eq!(moving.client.exactly(15), b"\0\x06\0begun\0\x05\0next");
    assert!(two.seen().is_empty());
}

/// As a tunnel of bytes, which cannot be moved at all.
#[test]
fn a_tunnel_that_may_not_stay_ends_if_a_capsule_keeps_it_from_moving() {
    let ((old, old_address), voice) = (listener(), origins::udp_echo(origins::V4));
    let mut moving = Moving::start("{ to: old }", [("old", old_address), ("voice", voice.address())]);
    let (mut old, whole) = (accept(&old), capsule("begun"));
    assert_eq!(moving.client.head().status(), 101);
    moving.client.send(&whole[..4]);
    assert_eq!(old.exactly(4), whole[..4]);
    moving.moves("{ name: here, terminate: voice }");
    assert_eq!(moving.client.rest(), (Vec::new(), End::Reset));
    let record = moving.node.record(|record| record["kind"] == "connect-udp");
    let reason =
        "policy_changed: route here does something else with it (and a capsule that had begun kept it from moving)";
    assert_eq!(record["reason"], reason, "{record}");
}

#[test]
fn nothing_follows_a_piece_of_a_capsule_on_a_way_that_was_left() {
    let ((old, old_address), (new, new_address)) = (listener(), listener());
    let mut moving = Moving::start("{ to: old }", [("old", old_address), ("new", new_address)]);
    let mut old = accept(&old);
    assert_eq!(moving.client.head().status(), 101);
    moving.moves("{ to: new }");
    let mut new = accept(&new);
    new.send(capsule("hello"));
    assert_eq!(moving.client.exactly(7), capsule("hello"));
    let late = capsule("late");
    old.send(&late[..3]);
    assert_eq!(moving.client.exactly(3), late[..3]);
    new.send(capsule("next"));
    assert_eq!(moving.client.rest(), (Vec::new(), End::Reset));
    let record = moving.node.record(|record| record["kind"] == "connect-udp");
    assert_eq!(record["reason"], "target_reset: a way that was left ended within a capsule", "{record}");
}
