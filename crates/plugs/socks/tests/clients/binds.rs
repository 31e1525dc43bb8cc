//! BIND: clients that wait for a connection, here and at the far end of two nodes.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::ops::RangeInclusive;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::node::{ASKED, Node, OPEN, address, bytes, echo, request, request_of};

const BIND: u8 = 2;

/// Granted, with this address.
fn granted(address: SocketAddr) -> Vec<u8> {
    [&[5, 0, 0][..], &super::node::address(address)].concat()
}

/// Ports that were free a moment ago, one after the other.
fn free_ports(count: u16) -> RangeInclusive<u16> {
    let is_free = |port| std::net::TcpListener::bind(("127.0.0.1", port)).is_ok();
    let any = || {
        let free = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        free.local_addr().unwrap().port()
    };
    (0..100)
        .map(|_| any())
        .filter(|low| low.checked_add(count).is_some())
        .map(|low| low..=low + count - 1)
        .find(|ports| ports.clone().all(is_free))
        .unwrap()
}

/// A route that waits at these ports; with further keys.
fn bind(ports: &RangeInclusive<u16>, more: &str) -> String {
    let (low, high) = (ports.start(), ports.end());
    format!("bind: {{ listen: 127.0.0.1, tcp: {{ ports: {low}-{high}{more} }} }}")
}

/// The same in this configuration.
fn waiting(yaml: &str, ports: &RangeInclusive<u16>, more: &str) -> String {
    let route = format!("terminate: true, {}", bind(ports, more));
    yaml.replace("terminate: true", &route)
}

/// The peer that is expected: its port is that of another connection.
fn peer() -> SocketAddr {
    ([127, 0, 0, 1], 21).into()
}

/// A client that waits, and the address that it was told.
async fn waits(node: &Node, said: &[u8]) -> (TcpStream, SocketAddr) {
    let (client, answer) = node.answer(said, 12).await;
    (client, told(&answer[2..]))
}

/// The address of a reply that grants.
fn told(reply: &[u8]) -> SocketAddr {
    let [5, 0, 0, 1, a, b, c, d, high, low] = *reply else {
        panic!("{reply:?}");
    };
    ([a, b, c, d], u16::from_be_bytes([high, low])).into()
}

/// Connects from another address; whether a byte or an end came, or a reset.
async fn is_reset(address: [u8; 4], to: SocketAddr) -> bool {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((address, 0).into()).unwrap();
    // The reset may be there before the connection is looked at.
    let Ok(mut stranger) = socket.connect(to).await else {
        return true;
    };
    let _ = stranger.write_all(b"RETR passwords").await;
    stranger
        .read_u8()
        .await
        .is_err_and(|error| error.kind() == ErrorKind::ConnectionReset)
}

/// The peer connects to the client's port, and the client hears who has come.
async fn comes(client: &mut TcpStream, at: SocketAddr) -> TcpStream {
    let peer = TcpStream::connect(at).await.unwrap();
    let second = bytes(client, 10).await;
    assert_eq!(second, granted(peer.local_addr().unwrap()));
    peer
}

/// Bytes pass in both directions, and ends.
async fn is_tunnel(mut client: TcpStream, mut peer: TcpStream) {
    peer.write_all(b"220 ready").await.unwrap();
    assert_eq!(bytes(&mut client, 9).await, b"220 ready");
    client.write_all(b"hello").await.unwrap();
    assert_eq!(bytes(&mut peer, 5).await, b"hello");
    client.shutdown().await.unwrap();
    assert_eq!(bytes(&mut peer, 1).await, b"", "half-close passes");
    peer.write_all(b"bye").await.unwrap();
    peer.shutdown().await.unwrap();
    assert_eq!(bytes(&mut client, 10).await, b"bye");
}

#[tokio::test]
async fn a_client_hears_where_it_listens_and_then_who_has_come() {
    let ports = free_ports(8);
    let node = Node::start("socks-bind", &waiting(OPEN, &ports, ""));
    let (mut client, at) = waits(&node, &request(BIND, &address(peer()))).await;
    assert!(ports.contains(&at.port()), "{at} in {ports:?}");
    let peer = comes(&mut client, at).await;
    assert!(
        TcpStream::connect(at).await.is_err(),
        "the port is for one connection"
    );
    is_tunnel(client, peer).await;

    // Version 4 has the same, in its own form, and version 6.
    let said = [4, BIND, 0, 21, 127, 0, 0, 1, b'x', 0];
    let (mut client, first) = node.answer(&said, 8).await;
    assert_eq!(first[..2], [0, 0x5a]);
    let at = SocketAddr::from(([127, 0, 0, 1], u16::from_be_bytes([first[2], first[3]])));
    let peer = TcpStream::connect(at).await.unwrap();
    let port = peer.local_addr().unwrap().port().to_be_bytes();
    let second = bytes(&mut client, 8).await;
    assert_eq!(second, [0, 0x5a, port[0], port[1], 127, 0, 0, 1]);
    is_tunnel(client, peer).await;
    node.end().await;
}

#[tokio::test]
async fn version_6_is_answered_twice_after_its_first_reply() {
    let ports = free_ports(4);
    let yaml = waiting(OPEN, &ports, "").replace("127.0.0.1:0", "127.0.0.1:0, experimental: true");
    let node = Node::start("socks-bind-6", &yaml);
    let said = [6, BIND, 0, 0, 0, 21, 0, 1, 127, 0, 0, 1];
    let (mut client, first) = node.answer(&said, 16).await;
    assert_eq!(first[..6], [6, 0, 0, 0, 6, 0]);
    let at = SocketAddr::from(([127, 0, 0, 1], u16::from_be_bytes([first[8], first[9]])));
    let peer = TcpStream::connect(at).await.unwrap();
    let port = peer.local_addr().unwrap().port().to_be_bytes();
    let second = bytes(&mut client, 12).await;
    assert_eq!(second, [6, 0, 0, 0, port[0], port[1], 0, 1, 127, 0, 0, 1]);
    is_tunnel(client, peer).await;
    node.end().await;
}

/// A node that leads everything to another one, by HTTP.
fn near(far: SocketAddr) -> String {
    format!(
        "listeners: {{ s: {{ socks: 127.0.0.1:0 }} }}\n\
         upstreams: {{ far: {{ endpoints: ['{far}'] }} }}\n\
         routes: [{{ to: far }}]\n"
    )
}

#[tokio::test]
async fn the_port_is_that_of_the_last_of_two_nodes() {
    let ports = free_ports(4);
    let yaml = waiting(OPEN, &ports, "").replace("socks:", "http:");
    let far = Node::start("socks-bind-far", &yaml);
    let node = Node::start("socks-bind-near", &near(far.address()));
    for _ in 0..2 {
        let (mut client, at) = waits(&node, &request(BIND, &address(peer()))).await;
        assert!(ports.contains(&at.port()), "{at} in {ports:?}");
        let peer = comes(&mut client, at).await;
        is_tunnel(client, peer).await;
    }
    node.end().await;
    far.end().await;
}

#[tokio::test]
async fn a_connection_hears_the_address_that_ports_would_have_at_the_last_node() {
    let target = echo().await;
    let ports = free_ports(4);
    let public = waiting(OPEN, &ports, "")
        .replace("listen: 127.0.0.1", "listen: 127.0.0.1, public: 192.0.2.45");
    for (name, yaml, named) in [
        ("public", &public, [192, 0, 2, 45]),
        ("listen", &waiting(OPEN, &ports, ""), [127, 0, 0, 1]),
        ("none", &OPEN.to_owned(), [0, 0, 0, 0]),
    ] {
        let far = Node::start(
            &format!("socks-local-far-{name}"),
            &yaml.replace("socks:", "http:"),
        );
        let node = Node::start(&format!("socks-local-{name}"), &near(far.address()));
        let (_, answered) = node.answer(&request(1, &address(target)), 12).await;
        let wanted = [&[5, 0][..], &granted((named, 0).into())].concat();
        assert_eq!(answered, wanted, "{name}");
        node.end().await;
        far.end().await;
    }
}

#[tokio::test]
async fn a_proxy_that_knows_nothing_of_it_is_not_taken_for_a_port() {
    let target = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let node = Node::start("socks-bind-old", &near(proxy.local_addr().unwrap()));
    let asked = request(BIND, &address(target.local_addr().unwrap()));
    let answering = async {
        let (mut stream, _) = proxy.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.extend(bytes(&mut stream, 1).await);
        }
        let head = String::from_utf8(head).unwrap().to_lowercase();
        assert!(head.contains("\r\nhermes-listen: ?1\r\n"), "{head}");
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        stream
    };
    let (_stream, (_, answer)) = tokio::join!(answering, node.answer(&asked, 12));
    assert_eq!(answer[2..4], [5, 7], "the command is not served");
    node.end().await;
}

#[tokio::test]
async fn nothing_listens_unless_the_route_and_the_policy_say_so() {
    let ports = free_ports(2);
    let asked = request(BIND, &address(peer()));
    let anyone = request(BIND, &address(([0, 0, 0, 0], 0).into()));
    let denied = "policy: { default: allow, rules: [{ match: { fields: { hermes-listen: '?1' } }, deny: true }] }\n";
    let elsewhere = waiting(OPEN, &ports, "").replace("127.0.0.0/8", "10.0.0.0/8");
    for (name, yaml, asked) in [
        ("off", OPEN.to_owned(), &asked),
        ("denied", waiting(OPEN, &ports, "") + denied, &asked),
        ("anyone", waiting(OPEN, &ports, ""), &anyone),
        ("egress", elsewhere, &asked),
    ] {
        let node = Node::start(&format!("socks-bind-{name}"), &yaml);
        let (_, answer) = node.answer(asked, 12).await;
        assert_eq!(answer[2..4], [5, 2], "{name}: {answer:?}");
        for port in ports.clone() {
            let connected = TcpStream::connect(("127.0.0.1", port)).await;
            assert!(connected.is_err(), "{name}: nothing listens at {port}");
        }
        node.end().await;
    }
}

#[tokio::test]
async fn anyone_may_come_where_the_route_says_so_within_egress() {
    let ports = free_ports(2);
    let yaml = waiting(OPEN, &ports, ", anyone: true").replace("127.0.0.0/8", "127.0.0.1/32");
    let node = Node::start("socks-bind-anyone", &yaml);
    let any = request(BIND, &address(([0, 0, 0, 0], 0).into()));
    let (mut client, at) = waits(&node, &any).await;
    assert!(is_reset([127, 0, 0, 7], at).await);
    let peer = comes(&mut client, at).await;
    is_tunnel(client, peer).await;
    node.end().await;
}

#[tokio::test]
async fn strangers_are_reset_and_the_expected_peer_still_comes() {
    let ports = free_ports(2);
    let node = Node::start("socks-bind-stranger", &waiting(OPEN, &ports, ""));
    let (mut client, at) = waits(&node, &request(BIND, &address(peer()))).await;
    for _ in 0..50 {
        assert!(is_reset([127, 0, 0, 9], at).await);
    }
    let peer = comes(&mut client, at).await;
    is_tunnel(client, peer).await;
    node.end().await;
}

#[tokio::test]
async fn a_port_waits_so_long_and_its_client_hears_that_no_one_came() {
    let ports = free_ports(1);
    let node = Node::start("socks-bind-late", &waiting(OPEN, &ports, ", wait: 200ms"));
    for _ in 0..2 {
        // The one port is free again for the next.
        let (mut client, at) = waits(&node, &request(BIND, &address(peer()))).await;
        let rest = bytes(&mut client, 100).await;
        assert_eq!(rest, [5, 4, 0, 1, 0, 0, 0, 0, 0, 0], "and the end");
        assert!(TcpStream::connect(at).await.is_err());
    }
    node.end().await;
}

#[tokio::test]
async fn a_client_that_leaves_gives_its_port_back() {
    let ports = free_ports(1);
    let yaml = waiting(OPEN, &ports, ", per_user: 9").replace("socks:", "http:");
    let far = Node::start("socks-bind-left-far", &yaml);
    let node = Node::start("socks-bind-left", &near(far.address()));
    let asked = request(BIND, &address(peer()));
    for leaves_by_reset in [false, true] {
        let (client, at) = waits(&node, &asked).await;
        let (_, answer) = node.answer(&asked, 12).await;
        assert_eq!(answer[2..4], [5, 1], "there is one port alone");
        if leaves_by_reset {
            client.set_zero_linger().unwrap();
        }
        drop(client);
        while TcpStream::connect(at).await.is_ok() {
            tokio::task::yield_now().await;
        }
    }
    waits(&node, &asked).await;
    node.end().await;
    far.end().await;
}

#[tokio::test]
async fn one_user_has_so_many_ports_and_others_have_theirs() {
    let ports = free_ports(8);
    let node = Node::start("socks-bind-many", &waiting(ASKED, &ports, ", per_user: 3"));
    let of = |user: &str| request_of(user, &format!("of {user}"), BIND, &address(peer()));
    let mut held = Vec::new();
    for _ in 0..3 {
        let (client, answer) = node.answer(&of("alice"), 14).await;
        told(&answer[4..]);
        held.push(client);
    }
    let (_, answer) = node.answer(&of("alice"), 14).await;
    assert_eq!(answer[4..6], [5, 1], "a fourth one is refused");
    let (mut client, answer) = node.answer(&of("bob"), 14).await;
    let peer = comes(&mut client, told(&answer[4..])).await;
    is_tunnel(client, peer).await;
    node.end().await;
}

#[tokio::test]
async fn ports_are_closed_and_tunnels_end_when_the_route_waits_for_no_one_any_more() {
    let ports = free_ports(4);
    let node = Node::start("socks-bind-over", &waiting(OPEN, &ports, ""));
    let asked = request(BIND, &address(peer()));
    let (mut waiting, at) = waits(&node, &asked).await;
    let (mut client, other) = waits(&node, &asked).await;
    let mut peer = comes(&mut client, other).await;

    node.apply(OPEN);
    assert_eq!(bytes(&mut waiting, 100).await, b"", "it is broken off");
    assert_eq!(bytes(&mut peer, 1).await, b"");
    assert!(TcpStream::connect(at).await.is_err());
    node.end().await;
}
