//! Passwords are dear to check: a client that sends wrong ones must not keep others out, wherever it comes from.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hermes_tests::eventually::eventually_true;
use hermes_tests::raw::Raw;
use hermes_tests::{Node, runtime};
use tokio::net::TcpSocket;

/// More than once made a listener refuse everyone.
const FLOOD: usize = 300;

/// bcrypt's cost: some tens of milliseconds in a build for tests.
const COST: u32 = 8;

fn node() -> Node {
    let folder = tempfile::tempdir().unwrap();
    let line = |user: &str| format!("{user}:{}\n", bcrypt::hash(user, COST).unwrap());
    fs::write(
        folder.path().join("users"),
        ["alice", "bob", "carol"].map(line).concat(),
    )
    .unwrap();
    Node::start_in(folder, "edge", YAML, &[])
}

const YAML: &str = "listeners: { web: { http: 127.0.0.1:0, auth: { basic: { file: users } } } }\n\
                    routes: [ { respond: { status: 200 } } ]\n";

/// A connection from this address of the machine on which user and password were sent.
fn login(node: &Node, from: Ipv4Addr, user: &str, password: &str) -> Raw {
    let to = node.address("web");
    let stream = runtime::block_on(async {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::new(IpAddr::V4(from), 0)).unwrap();
        socket.connect(to).await.unwrap().into_std().unwrap()
    });
    stream.set_nonblocking(false).unwrap();
    let mut raw = Raw::from(stream);
    let pair = STANDARD.encode(format!("{user}:{password}"));
    raw.send(format!(
        "GET http://site/ HTTP/1.1\r\nhost: site\r\nproxy-authorization: Basic {pair}\r\n\r\n"
    ));
    raw
}

/// Wrong ones of `user`, or each of another user where that is empty, that wait by now.
fn flood(node: &Node, user: &str) -> Vec<Raw> {
    let wrong = |number: usize| {
        let user = if user.is_empty() {
            format!("user{number}")
        } else {
            user.to_owned()
        };
        login(node, Ipv4Addr::LOCALHOST, &user, &format!("wrong {number}"))
    };
    let flood: Vec<Raw> = (0..FLOOD).map(wrong).collect();
    eventually_true("the flood waits", || node.exchanges().len() > FLOOD / 2);
    flood
}

#[test]
fn right_passwords_get_through_three_hundred_wrong_ones() {
    let (here, elsewhere) = (Ipv4Addr::LOCALHOST, Ipv4Addr::new(127, 0, 0, 2));
    let node = node();
    assert_eq!(login(&node, here, "bob", "bob").head().status(), 200);
    // What is remembered of bob outlives a change of the configuration.
    assert_eq!(node.reload(YAML).0, 200);
    let flood = flood(&node, "alice");
    let (mut of_bob, mut of_alice) = (
        login(&node, here, "bob", "bob"),
        login(&node, elsewhere, "alice", "alice"),
    );
    let (mut of_carol, mut same) = (
        login(&node, here, "carol", "carol"),
        login(&node, here, "alice", "alice"),
    );
    for (right, who) in [
        (&mut of_bob, "bob"),
        (&mut of_alice, "alice, elsewhere"),
        (&mut of_carol, "carol"),
    ] {
        assert_eq!(right.head().status(), 200, "{who}");
    }
    assert!(
        node.exchanges().len() > FLOOD / 2,
        "they did not wait for the flood"
    );
    // Even at the flood's own address and name: once it has rested.
    assert_eq!(same.head().status(), 200);
    drop(flood);
}

#[test]
fn many_users_of_one_address_lock_out_no_one_else() {
    let node = node();
    let mut flood = flood(&node, "");
    let mut elsewhere = login(&node, Ipv4Addr::new(127, 0, 0, 2), "alice", "alice");
    assert_eq!(elsewhere.head().status(), 200);
    let waiting = node.exchanges().len();
    assert!(waiting > 10, "it did not wait for the flood: {waiting}");
    assert_eq!(flood[0].head().status(), 407);
}
