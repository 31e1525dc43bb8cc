//! Users, and their passwords.

use tokio::io::AsyncWriteExt;

use super::node::{ASKED, CLOSED, Node, address, bytes, echo, request, request_of};

const CONNECT: u8 = 1;

#[tokio::test]
async fn a_password_is_answered_truly() {
    let target = address(echo().await);
    let node = Node::start("socks-password", ASKED);
    let (_, answered) = node
        .answer(&request_of("alice", "of alice", CONNECT, &target), 14)
        .await;
    assert_eq!(answered[..6], [5, 2, 1, 0, 5, 0]);

    for (user, password) in [
        ("alice", "of bob"),
        ("alice", ""),
        ("", ""),
        ("carol", "of carol"),
        ("alice:x", "of alice"),
        ("ali\0ce", "of alice"),
    ] {
        let said = request_of(user, password, CONNECT, &target);
        let (_, answered) = node.answer(&said, usize::MAX).await;
        assert_eq!(answered, [5, 2, 1, 1], "{user}: and the connection ends");
    }
    node.end().await;
}

#[tokio::test]
async fn who_shows_no_password_gets_nowhere_where_one_is_asked_for() {
    let target = address(echo().await);
    let node = Node::start("socks-nothing", ASKED);
    let (_, answered) = node.answer(&request(CONNECT, &target), usize::MAX).await;
    assert_eq!(answered, [5, 0xff]);
    let (_, answered) = node
        .answer(b"\x04\x01\0\x50\x7f\0\0\x01alice\0", usize::MAX)
        .await;
    assert_eq!(answered, [0, 0x5b, 0, 0, 0, 0, 0, 0]);
    node.end().await;
}

#[tokio::test]
async fn the_user_is_the_one_whom_the_rules_know() {
    let yaml = format!(
        "policy: {{ default: deny, rules: [{{ name: alice, match: {{ user: alice }}, allow: true }}] }}\n{ASKED}"
    );
    let node = Node::start("socks-user", &yaml);
    let target = address(CLOSED.parse().unwrap());
    for (user, reply) in [("alice", 5), ("bob", 2)] {
        let said = request_of(user, &format!("of {user}"), CONNECT, &target);
        let (_, answered) = node.answer(&said, 14).await;
        assert_eq!(answered[..6], [5, 2, 1, 0, 5, reply], "{user}");
    }
    node.end().await;
}

#[tokio::test]
async fn tunnels_end_when_their_user_goes_and_those_of_others_do_not() {
    let target = address(echo().await);
    let node = Node::start("socks-gone", ASKED);
    let mut clients = Vec::new();
    for user in ["alice", "bob"] {
        let said = request_of(user, &format!("of {user}"), CONNECT, &target);
        let (client, answered) = node.answer(&said, 14).await;
        assert_eq!(answered[5], 0);
        clients.push(client);
    }

    let report = node.has_users(&["bob", "carol"]);
    assert_eq!((report.tunnels.kept, report.tunnels.ended), (1, 1));
    assert_eq!(bytes(&mut clients[0], 1).await, b"");
    clients[1].write_all(b"still here").await.unwrap();
    assert_eq!(bytes(&mut clients[1], 10).await, b"still here");
    node.end().await;
}

#[tokio::test]
async fn guesses_of_one_user_do_not_keep_another_out() {
    let target = address(echo().await);
    let node = Node::start("socks-guesses", ASKED);
    let mut guesses = Vec::new();
    for guess in 0..100 {
        let said = request_of("alice", &format!("guess {guess}"), CONNECT, &target);
        let (client, _) = node.answer(&said, 2).await;
        guesses.push(client);
    }
    let said = request_of("bob", "of bob", CONNECT, &target);
    let (_, answered) = node.answer(&said, 14).await;
    assert_eq!(answered[..6], [5, 2, 1, 0, 5, 0]);
    node.end().await;
}

#[tokio::test]
async fn who_shows_nothing_is_no_user_where_a_password_is_optional() {
    let auth = "auth: { basic: { file: users }, optional: true }";
    let yaml = ASKED.replace("auth: { basic: { file: users } }", auth);
    let rule = "{ name: alice, match: { user: alice }, allow: true }";
    let yaml = format!("policy: {{ default: deny, rules: [{rule}] }}\n{yaml}");
    let node = Node::start("socks-optional", &yaml);

    let target = address(CLOSED.parse().unwrap());
    let (_, answered) = node.answer(&request(CONNECT, &target), usize::MAX).await;
    assert_eq!(answered[..4], [5, 0, 5, 2], "the policy decides");
    let (_, answered) = node
        .answer(b"\x04\x01\0\x09\x7f\0\0\x01alice\0", usize::MAX)
        .await;
    assert_eq!(
        answered[..2],
        [0, 0x5b],
        "the ID of version 4 proves nothing"
    );
    for (user, password, reply) in [
        ("alice", "of alice", &[5, 2, 1, 0, 5, 5][..]),
        ("bob", "of bob", &[5, 2, 1, 0, 5, 2]),
        ("alice", "of bob", &[5, 2, 1, 1]),
    ] {
        let said = request_of(user, password, CONNECT, &target);
        let (_, answered) = node.answer(&said, usize::MAX).await;
        assert_eq!(&answered[..reply.len()], reply, "{user} {password}");
    }
    node.end().await;
}
