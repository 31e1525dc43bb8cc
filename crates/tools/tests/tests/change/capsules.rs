//! Capsules that two ways lead into one client's stream, and tunnels that are to move within one.

use std::net::{SocketAddr, TcpListener};

use hermes_tests::capsules::path;
use hermes_tests::eventually::eventually_true;
use hermes_tests::raw::{End, Raw};
use hermes_tests::{Node, Pki, origins};

use super::tunnels::{counts, reload};

const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: connect-udp\r\nCapsule-Protocol: ?1\r\n\r\n";

/// A capsule of a type that no one knows, whose value is this.
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
    assert_eq!(
        reload(&node, &with_route("{ to: new }")),
        counts(0, 0, 1, 0)
    );
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
    listener: String,
    upstreams: String,
    /// The proxy before it, if the tunnel comes over a link, and whose certificates are used there.
    _front: Option<(Node, Pki)>,
}

impl Moving {
    /// A tunnel that waits for its answer.
    fn start(route: &str, upstreams: [(&str, SocketAddr); 2]) -> Self {
        let (listener, upstreams) = ("{ http: 127.0.0.1:0 }".to_owned(), both(upstreams));
        let node = Node::start("alice", &with(&listener, route, &upstreams));
        let client = ask(node.address("web"));
        Self {
            node,
            client,
            listener,
            upstreams,
            _front: None,
        }
    }

    /// One that comes to the node over HTTP/3.
    fn start_over_http3(route: &str, upstreams: [(&str, SocketAddr); 2]) -> Self {
        let pki = Pki::new();
        let listener = format!(
            "{{ http: 127.0.0.1:0, tls: {{ {} }} }}",
            pki.issue(&["127.0.0.1"]).yaml()
        );
        let upstreams = both(upstreams);
        let node = Node::start("edge", &with(&listener, route, &upstreams));
        let front = Node::start(
            "alice",
            &format!(
                "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\nroutes: [ {{ to: edge }} ]\n\
                 upstreams: {{ edge: {{ endpoints: [\"{}\"], http: 3, tls: {{ ca_file: {} }} }} }}\n",
                node.address("web"),
                pki.ca().display()
            ),
        );
        let client = ask(front.address("web"));
        Self {
            node,
            client,
            listener,
            upstreams,
            _front: Some((front, pki)),
        }
    }

    fn moves(&self, route: &str) {
        let yaml = with(&self.listener, route, &self.upstreams);
        assert_eq!(reload(&self.node, &yaml), counts(0, 0, 1, 0), "{route}");
    }

    /// The upstream that carries it, as the node says.
    fn carrier(&self) -> String {
        self.node.exchanges()[0]["upstream"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// It is opened there again, without a reload, and moves.
    fn ends_up_at(&mut self, new: &TcpListener) {
        let mut new = accept(new);
        new.send(capsule("hello"));
        assert_eq!(self.client.exactly(7), capsule("hello"));
        self.client.send(capsule("up"));
        assert_eq!(new.exactly(4), capsule("up"));
        assert_eq!(self.carrier(), "new");
    }

    fn stays(&self) {
        eventually_true("the log says that it stays", || {
            self.node.log().contains("not moved; a capsule")
        });
    }
}

fn both([(one, first), (two, second)]: [(&str, SocketAddr); 2]) -> String {
    format!(
        "upstreams:\n  {one}: {{ endpoints: [\"{first}\"] }}\n  {two}: {{ endpoints: [\"{second}\"] }}\n"
    )
}

fn with(listener: &str, route: &str, upstreams: &str) -> String {
    format!("listeners: {{ web: {listener} }}\nroutes: [ {route} ]\n{upstreams}")
}

/// How a tunnel begins.
type Start = fn(&str, [(&str, SocketAddr); 2]) -> Moving;

#[test]
fn a_tunnel_moves_when_the_capsule_of_its_client_has_ended() {
    moves_after_the_clients_capsule(Moving::start);
}

#[test]
fn over_http3_a_tunnel_moves_when_the_capsule_of_its_client_has_ended() {
    moves_after_the_clients_capsule(Moving::start_over_http3);
}

#[test]
fn a_tunnel_moves_when_the_capsule_of_an_answer_has_ended() {
    moves_after_an_answers_capsule(Moving::start);
}

#[test]
fn over_http3_a_tunnel_moves_when_the_capsule_of_an_answer_has_ended() {
    moves_after_an_answers_capsule(Moving::start_over_http3);
}

fn moves_after_the_clients_capsule(start: Start) {
    let ((old, old_address), (new, new_address)) = (listener(), listener());
    let mut moving = start("{ to: old }", [("old", old_address), ("new", new_address)]);
    let (mut old, whole) = (accept(&old), capsule("begun"));
    assert_eq!(moving.client.head().status(), 101);
    moving.client.send(&whole[..4]);
    assert_eq!(old.exactly(4), whole[..4]);
    moving.moves("{ to: new }");
    let mut left = accept(&new);
    moving.stays();
    assert_eq!(left.rest().0, b"", "nothing of it went there");
    assert_eq!(moving.carrier(), "old");
    old.send(capsule("down"));
    assert_eq!(moving.client.exactly(6), capsule("down"));
    moving.client.send([&whole[4..], &capsule("next")].concat());
    assert_eq!(old.exactly(whole.len() - 4), whole[4..]);
    assert_eq!(old.exactly(6), capsule("next"));

    moving.ends_up_at(&new);
}

fn moves_after_an_answers_capsule(start: Start) {
    let ((old, old_address), (new, new_address)) = (listener(), listener());
    let mut moving = start("{ to: old }", [("old", old_address), ("new", new_address)]);
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
    moving.ends_up_at(&new);
}

#[test]
fn a_datagram_that_has_begun_is_not_torn_by_a_move() {
    let (one, two) = (
        origins::udp_echo(origins::V4),
        origins::udp_echo(origins::V4),
    );
    let mut moving = Moving::start(
        "{ terminate: one }",
        [("one", one.address()), ("two", two.address())],
    );
    assert_eq!(moving.client.head().status(), 101);
    // What comes with a datagram that was answered has been read.
    moving.client.send(b"\0\x06\0first\0\x06\0be");
    assert_eq!(moving.client.exactly(8), b"\0\x06\0first");
    moving.moves("{ terminate: two }");
    moving.stays();
    moving.client.send(b"gun\0\x05\0next");
    assert_eq!(moving.client.exactly(15), b"\0\x06\0begun\0\x05\0next");
    eventually_true("it moves when the datagram has ended", || {
        moving.client.send(b"\0\x05\0more");
        assert_eq!(moving.client.exactly(7), b"\0\x05\0more");
        !two.seen().is_empty()
    });
    assert!(
        two.seen().iter().all(|(_, datagram)| datagram == b"more"),
        "no piece of what had begun"
    );
}

#[test]
fn a_tunnel_stays_if_the_rules_lead_back_before_the_capsule_has_ended() {
    // Both stay in use: an upstream that no route goes on to is watched otherwise.
    let there = |other: &str, own: &str| {
        format!("{{ match: {{ target: OTHER }}, to: {other} }}, {{ to: {own} }}")
    };
    let ((old, old_address), (new, new_address)) = (listener(), listener());
    let mut moving = Moving::start(
        &there("new", "old"),
        [("old", old_address), ("new", new_address)],
    );
    let (mut old, whole) = (accept(&old), capsule("begun"));
    assert_eq!(moving.client.head().status(), 101);
    moving.client.send(&whole[..4]);
    assert_eq!(old.exactly(4), whole[..4]);
    moving.moves(&there("old", "new"));
    drop(accept(&new));
    moving.stays();
    let back = with(&moving.listener, &there("new", "old"), &moving.upstreams);
    assert_eq!(reload(&moving.node, &back), counts(1, 0, 0, 0));
    moving.client.send(&whole[4..]);
    assert_eq!(old.exactly(whole.len() - 4), whole[4..]);
    moving.client.send(capsule("next"));
    assert_eq!(old.exactly(6), capsule("next"));
    new.set_nonblocking(true).unwrap();
    assert!(new.accept().is_err(), "it was not opened there again");
}

/// As a tunnel of bytes, which cannot be moved at all.
#[test]
fn a_tunnel_that_may_not_stay_ends_if_a_capsule_keeps_it_from_moving() {
    let ((old, old_address), voice) = (listener(), origins::udp_echo(origins::V4));
    let mut moving = Moving::start(
        "{ to: old }",
        [("old", old_address), ("voice", voice.address())],
    );
    let (mut old, whole) = (accept(&old), capsule("begun"));
    assert_eq!(moving.client.head().status(), 101);
    moving.client.send(&whole[..4]);
    assert_eq!(old.exactly(4), whole[..4]);
    moving.moves("{ name: here, terminate: voice }");
    assert_eq!(moving.client.rest(), (Vec::new(), End::Reset));
    let record = moving.node.record(|record| record["kind"] == "connect-udp");
    let reason = "policy_changed: route here does something else with it (and a capsule that had begun kept it from moving)";
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
    assert_eq!(
        record["reason"], "target_reset: a way that was left ended within a capsule",
        "{record}"
    );
}
