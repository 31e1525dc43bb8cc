//! A way that breaks in the middle of a capsule.

use std::net::{SocketAddr, TcpListener};

use hermes_tests::Node;
use hermes_tests::capsules::path;
use hermes_tests::raw::{End, Raw};

/// A tunnel whose session can be opened again.
const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: connect-udp\r\nCapsule-Protocol: ?1\r\n\
                      Hermes-Session: :AAAAAAAAAAAAAAAAAAAAAA==:\r\n\r\n";

/// A capsule of a type that no one knows, with a value of four bytes.
const CAPSULE: &[u8] = b"\x2a\x04here";

/// A proxy towards a next hop, and a client's tunnel through both; the next hop's end of it.
fn tunnel() -> (Node, TcpListener, Raw, Raw) {
    let next = TcpListener::bind("127.0.0.1:0").unwrap();
    let yaml = format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\nroutes: [ {{ to: next }} ]\nworkers: 1\n\
         upstreams: {{ next: {{ endpoints: [\"{}\"] }} }}\n",
        next.local_addr().unwrap()
    );
    let node = Node::start("middle", &yaml);
    let mut client = open(node.address("web"));
    let far = accept(&next);
    assert_eq!(client.head().status(), 101);
    (node, next, client, far)
}

fn open(proxy: SocketAddr) -> Raw {
    let mut client = Raw::connect(proxy);
    client.send(format!(
        "GET http://{proxy}{} HTTP/1.1\r\nHost: {proxy}\r\nConnection: Upgrade\r\nUpgrade: connect-udp\r\n\
         Capsule-Protocol: ?1\r\nHermes-Session: ?1\r\n\r\n",
        path("VOICE", 1)
    ));
    client
}

fn accept(listener: &TcpListener) -> Raw {
    let mut raw = Raw::from(listener.accept().unwrap().0);
    raw.head();
    raw.send(SWITCH);
    raw
}

#[test]
fn a_way_that_breaks_between_capsules_is_opened_again() {
    let (_node, next, mut client, mut far) = tunnel();
    far.send(CAPSULE);
    assert_eq!(client.exactly(CAPSULE.len()), CAPSULE);
    far.reset();
    let mut far = accept(&next);
    far.send(CAPSULE);
    assert_eq!(client.exactly(CAPSULE.len()), CAPSULE);
    client.send(CAPSULE);
    assert_eq!(far.exactly(CAPSULE.len()), CAPSULE);
}

#[test]
fn a_way_that_breaks_within_an_answer_ends_the_tunnel() {
    let (_node, _next, mut client, mut far) = tunnel();
    far.send(&CAPSULE[..4]);
    assert_eq!(client.exactly(4), CAPSULE[..4]);
    far.reset();
    assert_eq!(client.rest(), (Vec::new(), End::Reset));
}

#[test]
fn a_way_that_breaks_within_what_the_client_sends_ends_the_tunnel() {
    let (_node, _next, mut client, mut far) = tunnel();
    client.send(&CAPSULE[..4]);
    assert_eq!(far.exactly(4), CAPSULE[..4]);
    far.reset();
    assert_eq!(client.rest(), (Vec::new(), End::Reset));
}
