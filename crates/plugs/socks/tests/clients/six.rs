//! SOCKS6, by hand: the codec that others of these tests use is left aside.

use super::node::{ASKED, CLOSED, Node, OPEN, bytes, echo};
use tokio::io::AsyncWriteExt;

/// The first reply to a client that may go on, and to one that may not.
pub const KNOWN: [u8; 4] = [6, 0, 0, 0];
pub const SUCCEEDED: [u8; 12] = [6, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0];

const NOOP: u8 = 0;
const CONNECT: u8 = 1;

pub fn experimental(yaml: &str) -> String {
    yaml.replace("127.0.0.1:0", "127.0.0.1:0, experimental: true")
}

/// A request for an address of IPv4.
pub fn request(command: u8, target: std::net::SocketAddr, options: &[&[u8]]) -> Vec<u8> {
    let std::net::SocketAddr::V4(target) = target else {
        panic!("{target} is no address of IPv4");
    };
    let options = options.concat();
    let length = u16::try_from(options.len()).unwrap();
    let mut said = vec![6, command];
    said.extend(length.to_be_bytes());
    said.extend(target.port().to_be_bytes());
    said.extend([0, 1]);
    said.extend(target.ip().octets());
    said.extend(options);
    said
}

pub fn nowhere() -> std::net::SocketAddr {
    ([0, 0, 0, 0], 0).into()
}

/// An option, padded to a multiple of 4 bytes.
pub fn option(kind: u16, data: &[u8]) -> Vec<u8> {
    let length = (4 + data.len()).next_multiple_of(4);
    let mut option = kind.to_be_bytes().to_vec();
    option.extend(u16::try_from(length).unwrap().to_be_bytes());
    option.extend(data);
    option.resize(length, 0);
    option
}

fn password(user: &str, password: &str) -> Vec<u8> {
    let mut data = vec![2, 1, u8::try_from(user.len()).unwrap()];
    data.extend(user.as_bytes());
    data.push(u8::try_from(password.len()).unwrap());
    data.extend(password.as_bytes());
    option(4, &data)
}

/// The first reply of the node: whether the client may go on, and the options.
async fn first(client: &mut tokio::net::TcpStream) -> (bool, Vec<(u16, Vec<u8>)>) {
    let head = bytes(client, 4).await;
    let [6, kind, high, low] = *head else {
        panic!("{head:?}");
    };
    let mut rest = bytes(client, usize::from(u16::from_be_bytes([high, low]))).await;
    let mut options = Vec::new();
    while let [a, b, c, d, ..] = *rest {
        let length = usize::from(u16::from_be_bytes([c, d]));
        options.push((u16::from_be_bytes([a, b]), rest[4..length].to_vec()));
        rest.drain(..length);
    }
    (kind == 0, options)
}

#[tokio::test]
async fn a_connection_takes_one_round_trip_and_its_first_bytes_go_with_the_request() {
    let target = echo().await;
    let node = Node::start("six-early", &experimental(OPEN));
    let initial = option(2, &[0, 5, 2]);
    let early = vec![b'e'; 100_000];
    for (options, first) in [
        (&[][..], &b"hello"[..]),
        (&[&initial[..]][..], b"hello"),
        (&[], &early),
    ] {
        let mut said = request(CONNECT, target, options);
        said.extend(first);
        let wanted = [&KNOWN[..], &SUCCEEDED].concat();
        let (mut client, answered) = node.answer(&said, wanted.len()).await;
        assert_eq!(answered, wanted);
        client.write_all(b" and late").await.unwrap();
        client.shutdown().await.unwrap();
        let heard = bytes(&mut client, usize::MAX).await;
        assert_eq!(heard, [first, b" and late"].concat());
    }
    node.end().await;
}

#[tokio::test]
async fn names_and_refusals_are_as_in_other_versions() {
    let target = echo().await;
    let node = Node::start("six-refusals", &experimental(OPEN));
    let mut named = vec![6, 1, 0, 0];
    named.extend(target.port().to_be_bytes());
    named.extend(b"\0\x03\x09127.0.0.1\0\0");
    let (_, answered) = node.answer(&named, 16).await;
    assert_eq!(answered, [&KNOWN[..], &SUCCEEDED].concat());

    let outside = "192.0.2.1:80".parse().unwrap();
    for (said, reply) in [
        (request(CONNECT, CLOSED.parse().unwrap(), &[]), 5),
        (request(CONNECT, outside, &[]), 2),
        (request(CONNECT, nowhere(), &[]), 1),
        (request(2, target, &[]), 2),
        (request(9, target, &[]), 7),
        (request(NOOP, nowhere(), &[]), 0),
    ] {
        let (_, answered) = node.answer(&said, usize::MAX).await;
        let expected = [&KNOWN[..], &[6, reply, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]].concat();
        assert_eq!(answered, expected, "{said:?}");
    }
    node.end().await;
}

#[tokio::test]
async fn a_password_is_shown_in_the_request() {
    let target = echo().await;
    let node = Node::start("six-password", &experimental(ASKED));
    let right = password("alice", "of alice");
    let mut client = node.connect().await;
    let said = request(CONNECT, target, &[&right]);
    client
        .write_all(&[&said[..], b"hello"].concat())
        .await
        .unwrap();
    let status = vec![2, 1, 0, 0];
    assert_eq!(first(&mut client).await, (true, vec![(4, status)]));
    assert_eq!(
        bytes(&mut client, 17).await,
        [&SUCCEEDED[..], b"hello"].concat()
    );

    let none = (3, vec![255, 0, 0, 0]);
    let wrong = (4, vec![2, 1, 1, 0]);
    for (options, expected) in [
        (vec![], none.clone()),
        (vec![option(2, &[0, 0, 2])], none),
        (vec![password("alice", "of bob")], wrong.clone()),
        (vec![password("carol", "of carol")], wrong),
    ] {
        let options: Vec<_> = options.iter().map(Vec::as_slice).collect();
        let mut client = node.connect().await;
        client
            .write_all(&request(CONNECT, target, &options))
            .await
            .unwrap();
        assert_eq!(first(&mut client).await, (false, vec![expected]));
        assert_eq!(bytes(&mut client, 1).await, b"", "and the connection ends");
    }
    node.end().await;
}

/// Begins a session with a window of 4 tokens; gives its ID.
async fn begin(node: &Node, proof: &[u8]) -> Vec<u8> {
    let said = request(
        NOOP,
        nowhere(),
        &[proof, &option(5, &[]), &option(11, &[0, 0, 0, 4])],
    );
    let mut client = node.connect().await;
    client.write_all(&said).await.unwrap();
    let (is_known, options) = first(&mut client).await;
    assert!(is_known);
    let window = options.iter().find(|(kind, _)| *kind == 12).unwrap();
    assert_eq!(window.1, [0, 0, 0, 0, 0, 0, 0, 4]);
    let id = options.into_iter().find(|(kind, _)| *kind == 6).unwrap();
    id.1
}

#[tokio::test]
async fn a_session_needs_no_further_password_while_its_user_is_there() {
    let target = echo().await;
    let node = Node::start("six-session", &experimental(ASKED));
    let id = begin(&node, &password("alice", "of alice")).await;
    let in_session = option(6, &id);
    let said = request(CONNECT, target, &[&in_session]);
    let mut client = node.connect().await;
    client.write_all(&said).await.unwrap();
    let (is_known, options) = first(&mut client).await;
    assert!(is_known);
    assert_eq!(options[0], (8, vec![]));
    assert_eq!(bytes(&mut client, 12).await, SUCCEEDED);

    let refused = |options: Vec<Vec<u8>>| {
        let said = request(
            CONNECT,
            target,
            &options.iter().map(Vec::as_slice).collect::<Vec<_>>(),
        );
        let node = &node;
        async move {
            let mut client = node.connect().await;
            client.write_all(&said).await.unwrap();
            assert_eq!(first(&mut client).await, (false, vec![(9, vec![])]));
            assert_eq!(bytes(&mut client, 1).await, b"");
        }
    };
    let mut guessed = id.clone();
    guessed[0] ^= 1;
    // A right password does not help: the request says that it belongs to the session.
    refused(vec![option(6, &guessed), password("alice", "of alice")]).await;

    write_users_without_alice(&node);
    refused(vec![in_session]).await;
    node.end().await;
}

fn write_users_without_alice(node: &Node) {
    node.has_only(&["bob"], &experimental(ASKED));
}

#[tokio::test]
async fn a_session_ends_when_its_client_says_so() {
    let node = Node::start("six-teardown", &experimental(OPEN));
    let id = begin(&node, &[]).await;
    let in_session = option(6, &id);
    let (_, answered) = node
        .answer(
            &request(NOOP, nowhere(), &[&in_session, &option(10, &[])]),
            usize::MAX,
        )
        .await;
    assert_eq!(answered, [&KNOWN[..], &SUCCEEDED].concat());
    let (_, answered) = node
        .answer(&request(NOOP, nowhere(), &[&in_session]), usize::MAX)
        .await;
    assert_eq!(answered, [6, 1, 0, 4, 0, 9, 0, 4]);
    node.end().await;
}

#[tokio::test]
async fn a_replayed_request_is_refused_and_never_reaches_its_target() {
    let target = echo().await;
    let node = Node::start("six-replay", &experimental(OPEN));
    let id = begin(&node, &[]).await;
    for (token, is_new) in [
        (0, true),
        (0, false),
        (2, true),
        (1, true),
        (2, false),
        (3, true),
        (99, false),
    ] {
        let options = [option(6, &id), option(13, &[0, 0, 0, token])];
        let said = request(CONNECT, target, &[&options[0], &options[1]]);
        let mut client = node.connect().await;
        client.write_all(&said).await.unwrap();
        let (is_known, options) = first(&mut client).await;
        assert_eq!(is_known, is_new, "{token}");
        let verdict = if is_new { 14 } else { 15 };
        assert!(
            options.iter().any(|(kind, _)| *kind == verdict),
            "{options:?}"
        );
        let rest = bytes(&mut client, 12).await;
        assert_eq!(rest, if is_new { &SUCCEEDED[..] } else { b"" });
    }
    node.end().await;
}

#[tokio::test]
async fn broken_requests_are_refused_and_halves_end() {
    let node = Node::start("six-broken", &experimental(OPEN));
    for said in [
        &b"\x06\0\x40\x01\0\0\0\x01\0\0\0\0"[..],
        b"\x06\0\0\x04\0\0\0\x01\0\0\0\0\0\x05\0\x03",
        b"\x06\x01\0\0\0\x50\0\x02\0\0\0\0",
        b"\x06\x01\0\0\0\x50\0\x03\x03a b",
    ] {
        let (_, answered) = node.answer(said, usize::MAX).await;
        assert_eq!(answered, [6, 1, 0, 0], "{said:?}");
    }
    let mut half = node.connect().await;
    half.write_all(b"\x06\x01\0\x10\0\x50").await.unwrap();
    assert_eq!(bytes(&mut half, 1).await, b"", "it is not waited for long");
    node.end().await;
}

#[tokio::test]
async fn a_listener_that_is_not_experimental_knows_no_version_6() {
    let node = Node::start("six-not", OPEN);
    let (_, answered) = node
        .answer(&request(NOOP, nowhere(), &[]), usize::MAX)
        .await;
    assert_eq!(answered, b"");
    node.end().await;
}
