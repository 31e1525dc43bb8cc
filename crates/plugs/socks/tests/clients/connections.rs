//! CONNECT, of each version.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream, UnixStream};

use super::node::{CLOSED, Node, OPEN, address, bytes, echo, request};

const SUCCEEDED: [u8; 10] = [5, 0, 0, 1, 0, 0, 0, 0, 0, 0];

/// A request of version 4, with a name where there is one.
fn v4(target: SocketAddr, name: &str) -> Vec<u8> {
    let mut said = vec![4, 1];
    said.extend(target.port().to_be_bytes());
    match name {
        "" => said.extend(&address(target)[1..5]),
        _ => said.extend([0, 0, 0, 1]),
    }
    said.extend(b"someone\0");
    if !name.is_empty() {
        said.extend(name.as_bytes());
        said.push(0);
    }
    said
}

#[tokio::test]
async fn each_version_connects_by_address_and_by_name() {
    let target = echo().await;
    let node = Node::start("socks-versions", OPEN);
    let mut named = vec![3, 9];
    named.extend(b"127.0.0.1");
    named.extend(target.port().to_be_bytes());

    let granted = [0, 0x5a, 0, 0, 0, 0, 0, 0];
    let chosen = [&[5, 0][..], &SUCCEEDED].concat();
    for (said, answer) in [
        (v4(target, ""), &granted[..]),
        (v4(target, "127.0.0.1"), &granted),
        (request(1, &address(target)), &chosen),
        (request(1, &named), &chosen),
    ] {
        let (mut client, answered) = node.answer(&said, answer.len()).await;
        assert_eq!(answered, answer, "{said:?}");
        client.write_all(b"hello").await.unwrap();
        assert_eq!(bytes(&mut client, 5).await, b"hello");
        client.shutdown().await.unwrap();
        assert_eq!(bytes(&mut client, 1).await, b"", "half-close passes");
    }
    node.end().await;
}

#[tokio::test]
async fn bytes_before_the_reply_arrive_once() {
    let target = echo().await;
    let node = Node::start("socks-early", OPEN);
    let early = vec![b'e'; 100_000];
    for first in [&b"early"[..], &early] {
        let mut said = request(1, &address(target));
        said.extend(first);
        let (mut client, answered) = node.answer(&said, 12).await;
        assert_eq!(answered[2..], SUCCEEDED);
        client.write_all(b" and late").await.unwrap();
        client.shutdown().await.unwrap();
        let heard = bytes(&mut client, usize::MAX).await;
        assert_eq!(heard, [first, b" and late"].concat());
    }
    node.end().await;
}

#[tokio::test]
async fn a_request_may_come_byte_by_byte() {
    let target = echo().await;
    let node = Node::start("socks-bytes", OPEN);
    let mut client = node.connect().await;
    client.set_nodelay(true).unwrap();
    for byte in request(1, &address(target)) {
        client.write_all(&[byte]).await.unwrap();
        tokio::task::yield_now().await;
    }
    assert_eq!(bytes(&mut client, 12).await[2..], SUCCEEDED);
    node.end().await;
}

#[tokio::test]
async fn a_refusal_says_its_reason_and_ends_the_connection() {
    let yaml = "listeners: { s: { socks: 127.0.0.1:0 } }\n\
                policy: { default: allow, rules: [{ name: secret, match: { target: secret.test }, deny: true }] }\n\
                egress: { allow: [127.0.0.1/32] }\n\
                routes: [{ match: { target: gone.test }, respond: { status: 410 } }, \
                         { match: { target: [127.0.0.0/8, secret.test, '*.secret.test'] }, terminate: true }]\n";
    let node = Node::start("socks-refusals", yaml);
    let named = |name: &str| {
        let length = u8::try_from(name.len()).unwrap();
        [&[3, length], name.as_bytes(), &[0, 80]].concat()
    };
    for (command, target, reply) in [
        (1, address(CLOSED.parse().unwrap()), 5),
        (1, address("127.0.0.2:80".parse().unwrap()), 2),
        (1, named("secret.test"), 2),
        (1, named("SECRET.test."), 2),
        (1, named("elsewhere.test"), 4),
        (1, named("gone.test"), 1),
        (1, address("127.0.0.1:0".parse().unwrap()), 1),
        (2, address("127.0.0.1:80".parse().unwrap()), 2),
        (9, address("127.0.0.1:80".parse().unwrap()), 7),
        (1, vec![2, 0, 0, 0, 0, 0, 0], 8),
        (1, named("a b"), 4),
        (1, named("a\r\nhost: x"), 4),
        (1, named("\0"), 4),
        (1, named(""), 4),
    ] {
        // Bytes that the client sent too early must not cost it the reply.
        let said = [request(command, &target), vec![b'x'; 3000]].concat();
        let (_, answered) = node.answer(&said, usize::MAX).await;
        let expected = [&[5, 0, 5, reply, 0, 1][..], &[0; 6]].concat();
        assert_eq!(answered, expected, "{command} {target:?}");
    }

    let (_, answered) = node
        .answer(&v4(CLOSED.parse().unwrap(), ""), usize::MAX)
        .await;
    assert_eq!(answered, [0, 0x5b, 0, 0, 0, 0, 0, 0]);
    node.end().await;
}

#[tokio::test]
async fn a_unix_socket_carries_connections_and_no_datagrams() {
    let target = echo().await;
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socks.sock");
    let at = format!("unix:{}", socket.display());
    let node = Node::start("socks-unix", &OPEN.replace("127.0.0.1:0", &at));

    let mut client = UnixStream::connect(&socket).await.unwrap();
    client
        .write_all(&request(1, &address(target)))
        .await
        .unwrap();
    client.write_all(b"hello").await.unwrap();
    let heard = bytes(&mut client, 12 + 5).await;
    assert_eq!(heard, [&[5, 0][..], &SUCCEEDED, b"hello"].concat());

    let mut client = UnixStream::connect(&socket).await.unwrap();
    client
        .write_all(&request(3, &address(target)))
        .await
        .unwrap();
    let heard = bytes(&mut client, usize::MAX).await;
    assert_eq!(heard[..4], [5, 0, 5, 7], "it has no address for them");
    node.end().await;
}

/// A target that neither takes nor refuses connections: its queue is full. The second value keeps it so.
async fn silent() -> (SocketAddr, impl Sized) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    loop {
        let connected = TcpStream::connect(address);
        let in_time = tokio::time::timeout(Duration::from_millis(300), connected).await;
        match in_time {
            Ok(connected) => waiting.push(connected.unwrap()),
            Err(_) => return (address, (listener, waiting)),
        }
    }
}

#[tokio::test]
async fn a_client_that_leaves_before_its_target_answers_gives_its_place_back() {
    let target = echo().await;
    let (silent, _full) = silent().await;
    let one = "socks: 127.0.0.1:0, limits: { connections: 1 }";
    let yaml = OPEN.replace("socks: 127.0.0.1:0", one);
    // So long would its place be taken otherwise.
    let node = Node::start(
        "socks-left",
        &format!("defaults: {{ timeouts: {{ connect: 1h }} }}\n{yaml}"),
    );

    for early in [&b""[..], b"early"] {
        let mut client = place(&node, silent, &[5, 0]).await;
        client.write_all(early).await.unwrap();
        if !early.is_empty() {
            // After bytes for its target the end of its side alone says nothing.
            client.set_zero_linger().unwrap();
        }
        drop(client);
        let served = [&[5, 0][..], &SUCCEEDED].concat();
        place(&node, target, &served).await;
    }
    node.end().await;
}

/// Asks for a target until there is a place for the client, which is answered so.
async fn place(node: &Node, target: SocketAddr, answer: &[u8]) -> TcpStream {
    let said = request(1, &address(target));
    let placed = async {
        loop {
            // A client for which there is no place is reset, perhaps while it connects.
            let Ok(mut client) = TcpStream::connect(node.address()).await else {
                continue;
            };
            let _ = client.write_all(&said).await;
            if bytes(&mut client, answer.len()).await == answer {
                return client;
            }
        }
    };
    let placed = tokio::time::timeout(Duration::from_secs(20), placed).await;
    placed.expect("a place that the client before gave back")
}

#[tokio::test]
async fn a_load_balancer_introduces_clients() {
    let introduced =
        "socks: 127.0.0.1:0, proxy_protocol: accept, proxy_protocol_from: [127.0.0.0/8]";
    let rule = "{ name: known, match: { source: 192.0.2.7/32 }, allow: true }";
    let yaml = OPEN.replace("socks: 127.0.0.1:0", introduced);
    let yaml = format!("policy: {{ default: deny, rules: [{rule}] }}\n{yaml}");
    let node = Node::start("socks-introduced", &yaml);
    let target = address(CLOSED.parse().unwrap());
    for (source, reply) in [("192.0.2.7", 5), ("192.0.2.8", 2)] {
        let header = format!("PROXY TCP4 {source} 192.0.2.1 5 1080\r\n");
        let said = [header.as_bytes(), &request(1, &target)].concat();
        let (_, answered) = node.answer(&said, usize::MAX).await;
        assert_eq!(answered[..4], [5, 0, 5, reply], "{source}");
    }

    let header = b"PROXY TCP4 192.0.2.7 192.0.2.1 5 1080\r\n";
    let said = [&header[..], &request(3, &target)].concat();
    let (_control, answered) = node.answer(&said, 12).await;
    assert_eq!(
        answered[..10],
        [5, 0, 5, 0, 0, 1, 127, 0, 0, 1],
        "an address of this node"
    );
    let (_, answered) = node.answer(&request(1, &target), usize::MAX).await;
    assert_eq!(answered, b"", "who is not introduced is reset");
    node.end().await;
}
