//! Who may have a request copied.

use hermes_tests::origins::Request;
use hermes_tests::raw::Raw;

use super::{Origins, node, node_of, via};

#[test]
fn a_client_is_not_believed_where_the_listener_does_not_accept_the_field() {
    let origins = Origins::start();
    let node = node(&origins, "{ users: [\"*\"] }");
    assert_eq!(via(&node, "plain", &["http://video/"]).status, 200);
    assert_eq!(origins.counts().iter().sum::<usize>(), 1);
}

#[test]
fn a_sender_who_may_not_is_ignored_or_refused() {
    let origins = Origins::start();
    let ignoring = node(&origins, "{ users: [alice] }");
    assert_eq!(via(&ignoring, "other", &["http://video/"]).status, 200);
    assert_eq!(origins.counts().iter().sum::<usize>(), 1);
    let seen: Vec<Request> = origins
        .0
        .iter()
        .flat_map(hermes_tests::origins::Origin::seen)
        .collect();
    assert_eq!(seen[0].field("x-hermes-broadcast"), None);
    let refusing = node(&origins, "{ users: [alice], otherwise: refuse }");
    let got = via(&refusing, "other", &["http://video/"]);
    assert_eq!(got.status, 403);
    assert!(
        got.field("proxy-status")
            .unwrap()
            .contains("the sender may not broadcast"),
        "{got:?}"
    );
    assert_eq!(origins.counts().iter().sum::<usize>(), 1);
}

#[test]
fn tunnels_are_not_broadcast() {
    let origins = Origins::start();
    let refusing = node(&origins, "{ users: [alice], otherwise: refuse }");
    let refused = Raw::tunnel(
        refusing.address("web"),
        "video:80",
        "x-hermes-broadcast: true\r\n",
    );
    assert_eq!(refused.unwrap_err().status(), 403);
    let ignoring = node(&origins, "{ users: [alice] }");
    let mut tunnel = Raw::tunnel(
        ignoring.address("web"),
        "video:80",
        "x-hermes-broadcast: true\r\n",
    )
    .unwrap();
    tunnel.send("GET / HTTP/1.1\r\nhost: video\r\n\r\n");
    assert_eq!(tunnel.head().status(), 200);
    assert_eq!(origins.counts().iter().sum::<usize>(), 1);
}

#[test]
fn the_members_of_a_group_may_broadcast_and_no_one_else() {
    let origins = Origins::start();
    let upstream = format!("endpoints: [{}]", origins.endpoints());
    let staff = |members: &str| {
        let groups = format!("groups: {{ staff: [{members}] }}");
        node_of(&groups, &upstream, "{ users: [\"group:staff\"] }")
    };

    let node = staff("alice, \"*@ops.example\"");
    assert_eq!(via(&node, "web", &["http://video/"]).status, 200);
    assert_eq!(origins.counts(), [1, 1, 1]);
    assert_eq!(via(&node, "other", &["http://video/"]).status, 200);
    assert_eq!(origins.counts().iter().sum::<usize>(), 4);

    let node = staff("\"b*\"");
    assert_eq!(via(&node, "web", &["http://video/"]).status, 200);
    assert_eq!(origins.counts().iter().sum::<usize>(), 5);
    assert_eq!(via(&node, "other", &["http://video/"]).status, 200);
    assert_eq!(origins.counts().iter().sum::<usize>(), 8);
}
