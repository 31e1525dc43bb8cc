//! An ingress with users of its own, which hands in connections and datagrams, and tells why they were refused.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use hermes_example_plugs::socks::Socks;
use hermes_http::RefusalReason;
use hermes_plug::Plugs;
use hermes_proto::proxy_status::ProxyError;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

use super::node::{Node, hear, say};

const CONNECT: u8 = 1;
const ASSOCIATE: u8 = 3;

/// What a node answers whose ingress took the request.
const SUCCEEDED: u8 = 0;
const NOT_ALLOWED: u8 = 2;
const REFUSED: u8 = 5;

/// Bytes before the payload of a datagram to an IPv4 address.
const HEADER: usize = 10;

/// Where no one listens.
const CLOSED: &str = "127.0.0.1:9";

fn socks() -> Socks {
    let users = ["alice", "al", "bob"].map(|user| (user.to_owned(), format!("of {user}")));
    Socks::new(HashMap::from(users))
}

/// What alice alone may do, through an ingress of this name.
fn yaml(ingress: &str) -> String {
    format!(
        "listeners: {{ door: {{ tcp: 127.0.0.1:0, ingress: {ingress} }} }}\n\
         policy: {{ default: deny, rules: [{{ name: alice, match: {{ user: alice }}, allow: true }}] }}\n\
         egress: {{ allow: [127.0.0.0/8] }}\n\
         routes: [{{ terminate: true }}]\n"
    )
}

fn node(name: &str) -> Node {
    Node::start(name, &yaml("socks"), plugs())
}

fn plugs() -> Plugs {
    Plugs::new()
        .ingress("socks", socks())
        .ingress("other", socks())
}

/// A client of this user, and the reply to its request.
async fn ask(node: &Node, user: &str, command: u8, target: SocketAddr) -> (TcpStream, Vec<u8>) {
    ask_for(node, user, command, &address(target)).await
}

/// The same, with the target as it is written.
async fn ask_for(node: &Node, user: &str, command: u8, target: &[u8]) -> (TcpStream, Vec<u8>) {
    let mut client = node.connect().await;
    let password = format!("of {user}");
    let mut said = vec![5, 1, 2, 1, user.len() as u8];
    said.extend(user.as_bytes());
    said.push(password.len() as u8);
    said.extend(password.as_bytes());
    said.extend([5, command, 0]);
    said.extend(target);
    client.write_all(&said).await.unwrap();

    let mut known = [0; 4];
    client.read_exact(&mut known).await.unwrap();
    assert_eq!(known, [5, 2, 1, 0]);
    let mut reply = vec![0; HEADER];
    client.read_exact(&mut reply).await.unwrap();
    (client, reply)
}

fn address(target: SocketAddr) -> Vec<u8> {
    let SocketAddr::V4(target) = target else {
        panic!("{target} is no address of IPv4");
    };
    let mut bytes = vec![1];
    bytes.extend(target.ip().octets());
    bytes.extend(target.port().to_be_bytes());
    bytes
}

/// A name as an address, with a port that no one listens at.
fn named(name: &str) -> Vec<u8> {
    let mut bytes = vec![3, name.len() as u8];
    bytes.extend(name.as_bytes());
    bytes.extend([0, 9]);
    bytes
}

fn datagram(target: SocketAddr, payload: &str) -> Vec<u8> {
    let mut bytes = vec![0; 3];
    bytes.extend(address(target));
    bytes.extend(payload.as_bytes());
    bytes
}

/// A server that answers with its name before what it was asked.
async fn server(name: &'static str) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut room = [0; 2000];
        loop {
            let (length, peer) = socket.recv_from(&mut room).await.unwrap();
            let answer = [name.as_bytes(), &room[..length]].concat();
            socket.send_to(&answer, peer).await.unwrap();
        }
    });
    address
}

#[tokio::test]
async fn a_connection_is_of_the_user_whom_the_ingress_has_found_out() {
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = server.local_addr().unwrap();
    let node = node("socks-connect");

    let (mut client, reply) = ask(&node, "alice", CONNECT, target).await;
    assert_eq!(reply[1], SUCCEEDED);
    let (mut peer, _) = server.accept().await.unwrap();
    say(&mut client, "hello").await;
    hear(&mut peer, "hello").await;

    let (_, reply) = ask(&node, "bob", CONNECT, target).await;
    assert_eq!(reply[1], NOT_ALLOWED, "the policy knows who bob is");
    node.end().await;
}

#[tokio::test]
async fn a_refusal_says_its_reason_and_ends_the_connection() {
    let node = node("socks-refusal");
    let (mut client, reply) = ask(&node, "alice", CONNECT, CLOSED.parse().unwrap()).await;
    assert_eq!(reply[1], REFUSED);
    assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
    node.end().await;
}

#[tokio::test]
async fn the_word_of_an_ingress_counts_while_the_listener_has_it() {
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let node = node("socks-word");
    let target = server.local_addr().unwrap();
    let (mut client, reply) = ask(&node, "alice", CONNECT, target).await;
    assert_eq!(reply[1], SUCCEEDED);

    let report = node.apply("socks-word", &yaml("socks"));
    assert_eq!((report.tunnels.kept, report.tunnels.ended), (1, 0));
    let report = node.apply("socks-word", &yaml("other"));
    assert_eq!((report.tunnels.kept, report.tunnels.ended), (0, 1));
    assert!(!matches!(client.read(&mut [0]).await, Ok(1..)));
    node.end().await;
}

#[tokio::test]
async fn one_client_of_an_association_speaks_with_several_destinations() {
    let one = server("one ").await;
    let two = server("two ").await;
    let node = node("socks-associate");
    let (_control, reply) = ask(&node, "alice", ASSOCIATE, ([0, 0, 0, 0], 0).into()).await;
    assert_eq!(reply[1], SUCCEEDED);
    let port = u16::from_be_bytes([reply[8], reply[9]]);
    let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    client.connect(("127.0.0.1", port)).await.unwrap();

    for (target, name) in [(one, "one"), (two, "two"), (one, "one")] {
        client.send(&datagram(target, "who?")).await.unwrap();
        let mut room = [0; 2000];
        let length = client.recv(&mut room).await.unwrap();
        let wanted = datagram(target, &format!("{name} who?"));
        assert_eq!(room[..length], wanted, "it says whose answer it is");
    }
    node.end().await;
}

#[tokio::test]
async fn an_ingress_learns_why_datagrams_were_refused() {
    let socks = socks();
    let refused: Arc<Mutex<Vec<RefusalReason>>> = socks.refused();
    let plugs = Plugs::new().ingress("socks", socks);
    let node = Node::start("socks-denied", &yaml("socks"), plugs);
    let (_control, reply) = ask(&node, "bob", ASSOCIATE, ([0, 0, 0, 0], 0).into()).await;
    let port = u16::from_be_bytes([reply[8], reply[9]]);
    let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    client.connect(("127.0.0.1", port)).await.unwrap();

    client
        .send(&datagram(CLOSED.parse().unwrap(), "who?"))
        .await
        .unwrap();
    while refused.lock().is_empty() {
        tokio::task::yield_now().await;
    }
    let reason = refused.lock()[0].clone();
    assert_eq!(reason.error, ProxyError::HttpRequestDenied);
    assert_eq!(reason.status, 403);
    node.end().await;
}

#[tokio::test]
async fn a_user_or_target_is_the_same_under_each_of_its_names() {
    let yaml = "users: { alice: [al] }\n\
                listeners: { door: { tcp: 127.0.0.1:0, ingress: socks } }\n\
                policy: { default: deny, rules: [\n  \
                { name: hidden, match: { target: [secret.test, 127.0.0.0/8] }, deny: true },\n  \
                { name: alice, match: { user: alice }, allow: true }] }\n\
                routes: [{ terminate: true }]\n";
    let node = Node::start("socks-names", yaml, plugs());
    for name in [
        "secret.test",
        "SECRET.test",
        "secret.test.",
        "127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:7f00:1",
        "64:ff9b::7f00:1",
    ] {
        let (_, reply) = ask_for(&node, "alice", CONNECT, &named(name)).await;
        assert_eq!(reply[1], NOT_ALLOWED, "{name}");
    }
    for name in [
        "",
        " ",
        "a b",
        "x@127.0.0.1",
        "a/b",
        "\r\nx",
        "\0",
        "[",
        "%31",
    ] {
        let (_, reply) = ask_for(&node, "alice", CONNECT, &named(name)).await;
        assert_ne!(reply[1], SUCCEEDED, "{name}");
    }
    node.end().await;

    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = server.local_addr().unwrap();
    let yaml = format!("users: {{ alice: [al] }}\n{}", self::yaml("socks"));
    let node = Node::start("socks-alias", &yaml, plugs());
    let (_, reply) = ask(&node, "al", CONNECT, target).await;
    assert_eq!(reply[1], SUCCEEDED, "al is alice");
    node.end().await;
}
