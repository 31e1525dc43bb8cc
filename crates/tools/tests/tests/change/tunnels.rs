//! Open tunnels: kept, moved without loss, outliving a change, or ended with its reason.

use std::fs;
use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use hermes_tests::capsules::UdpTunnel;
use hermes_tests::eventually::eventually_true;
use hermes_tests::raw::{End, Raw};
use hermes_tests::udp::Client;
use hermes_tests::{Node, origins};
use serde_json::{Value, json};

use crate::tokens::Issuer;

/// What a reload said of tunnels; it must have been applied.
pub(super) fn reload(node: &Node, yaml: &str) -> Value {
    let (status, report) = node.reload(yaml);
    assert_eq!(status, 200, "{report:#}");
    report["tunnels"].clone()
}

pub(super) fn counts(kept: usize, outlive: usize, moved: usize, ended: usize) -> Value {
    json!({ "kept": kept, "outlive": outlive, "moved": moved, "ended": ended, "asked": 0 })
}

/// A node with a `udp` listener, a `tcp` listener and an `http` listener, whose only route is `route`.
fn with_route(route: &str, upstreams: &[(&str, SocketAddr)]) -> String {
    let endpoint = |(name, address): &(&str, SocketAddr)| {
        format!("  {name}: {{ endpoints: [\"{address}\"] }}\n")
    };
    let upstreams: String = upstreams.iter().map(endpoint).collect();
    format!(
        "listeners:\n  voice: {{ udp: 127.0.0.1:0, target: \"VOICE:1\" }}\n  db: {{ tcp: 127.0.0.1:0, target: \"DB:1\" }}\n  \
         web: {{ http: 127.0.0.1:0 }}\nroutes: [ {route} ]\nupstreams:\n{upstreams}"
    )
}

#[test]
fn a_udp_session_moves_to_another_endpoint_and_loses_nothing() {
    let (one, two) = (
        origins::udp_echo(origins::V4),
        origins::udp_echo(origins::V4),
    );
    let upstreams = [("one", one.address()), ("two", two.address())];
    let node = Node::start("alice", &with_route("{ terminate: one }", &upstreams));
    let client = Client::connect(node.address("voice"));
    assert_eq!(client.ask("first"), b"first");
    assert_eq!(
        reload(
            &node,
            &with_route("{ terminate: one, set: { a: b } }", &upstreams)
        ),
        counts(1, 0, 0, 0)
    );
    assert_eq!(
        reload(&node, &with_route("{ terminate: two }", &upstreams)),
        counts(0, 0, 1, 0)
    );
    let mut number = 0;
    // Each datagram is sent once: an answer that is lost would be waited for in vain.
    eventually_true("datagrams go the new way", || {
        number += 1;
        client.send(format!("datagram {number}"));
        assert_eq!(client.receive(), format!("datagram {number}").into_bytes());
        !two.seen().is_empty()
    });
    assert_eq!(node.exchanges().len(), 1, "it is the same exchange");
    assert_eq!(node.exchanges()[0]["upstream"], "two");
    assert_eq!(node.exchanges()[0]["dropped"], 0);
}

/// Where the last datagram came from, as the target sees it: another socket once the new way is taken, which is later than it is open.
fn last_from(target: &origins::Origin<(SocketAddr, Vec<u8>)>) -> SocketAddr {
    target.seen().last().unwrap().0
}

#[test]
fn a_udp_session_moves_into_a_tunnel_and_out_of_it() {
    let origin = origins::udp_echo(origins::V4);
    let edge = Node::start(
        "edge",
        &format!(
            "listeners: {{ web: {{ http: 127.0.0.1:0, insecure_trust: [127.0.0.0/8] }} }}\nroutes: [ {{ terminate: voice }} ]\n\
             upstreams: {{ voice: {{ endpoints: [\"{}\"] }} }}\n",
            origin.address()
        ),
    );
    let upstreams = [("voice", origin.address()), ("edge", edge.address("web"))];
    let node = Node::start("alice", &with_route("{ terminate: voice }", &upstreams));
    let client = Client::connect(node.address("voice"));
    assert_eq!(client.ask("first"), b"first");
    let mut number = 0;
    for (route, there) in [
        ("{ to: edge }", 1),
        ("{ terminate: voice }", 0),
        ("{ to: edge }", 1),
    ] {
        let before = last_from(&origin);
        assert_eq!(
            reload(&node, &with_route(route, &upstreams)),
            counts(0, 0, 1, 0),
            "{route}"
        );
        eventually_true(
            "datagrams go the new way, and the old one is closed",
            || {
                number += 1;
                client.send(format!("datagram {number}"));
                assert_eq!(client.receive(), format!("datagram {number}").into_bytes());
                let upstream = if there == 1 { "edge" } else { "voice" };
                assert!(
                    last_from(&origin) == before || node.exchanges()[0]["upstream"] == upstream
                );
                last_from(&origin) != before && edge.exchanges().len() == there
            },
        );
    }
}

#[test]
fn a_tunnel_of_capsules_moves_between_every_kind_of_way() {
    let origin = origins::udp_echo(origins::V4);
    let edge = |name| {
        Node::start(
            name,
            &format!(
                "listeners: {{ web: {{ http: 127.0.0.1:0, insecure_trust: [127.0.0.0/8] }} }}\n\
                 routes: [ {{ terminate: voice }} ]\nupstreams: {{ voice: {{ endpoints: [\"{}\"] }} }}\n",
                origin.address()
            ),
        )
    };
    let (east, west) = (edge("east"), edge("west"));
    let upstreams = [
        ("voice", origin.address()),
        ("east", east.address("web")),
        ("west", west.address("web")),
    ];
    let node = Node::start("alice", &with_route("{ to: east }", &upstreams));
    let mut tunnel = UdpTunnel::h1(node.address("web"), "VOICE", 1, "").unwrap();
    tunnel.send("first");
    assert_eq!(tunnel.receive(), b"first");
    let mut number = 0;
    for route in [
        "{ to: west }",
        "{ terminate: voice }",
        "{ to: east }",
        "{ to: west }",
    ] {
        let before = last_from(&origin);
        assert_eq!(
            reload(&node, &with_route(route, &upstreams)),
            counts(0, 0, 1, 0),
            "{route}"
        );
        let upstream = route.split([' ', '}']).nth(2).unwrap();
        eventually_true("datagrams go the new way", || {
            number += 1;
            tunnel.send(format!("datagram {number}"));
            assert_eq!(tunnel.receive(), format!("datagram {number}").into_bytes());
            last_from(&origin) != before && node.exchanges()[0]["upstream"] == upstream
        });
    }
    tunnel.finish();
    node.idle();
    eventually_true("both edges are left", || {
        east.exchanges().is_empty() && west.exchanges().is_empty()
    });
}

#[test]
fn a_move_that_cannot_be_made_leaves_the_tunnel_where_it_is() {
    let (origin, gone) = (origins::udp_echo(origins::V4), hermes_tests::free::tcp());
    let upstreams = [("voice", origin.address()), ("gone", gone)];
    let node = Node::start("alice", &with_route("{ terminate: voice }", &upstreams));
    let client = Client::connect(node.address("voice"));
    assert_eq!(client.ask("first"), b"first");
    assert_eq!(
        reload(&node, &with_route("{ to: gone }", &upstreams)),
        counts(0, 0, 1, 0)
    );
    eventually_true("the log says why", || node.log().contains("not moved"));
    client.send("still here");
    assert_eq!(client.receive(), b"still here");
}

#[test]
fn a_tcp_tunnel_outlives_another_next_hop_and_ends_without_a_route() {
    let (one, two) = (origins::tcp_echo(), origins::tcp_echo());
    let upstreams = [("one", one.address()), ("two", two.address())];
    let node = Node::start("alice", &with_route("{ terminate: one }", &upstreams));
    let mut tunnel = Raw::connect(node.address("db"));
    tunnel.send("ping");
    assert_eq!(tunnel.exactly(4), b"ping");
    assert_eq!(
        reload(&node, &with_route("{ terminate: two }", &upstreams)),
        counts(0, 1, 0, 0)
    );
    tunnel.send("pong");
    assert_eq!(tunnel.exactly(4), b"pong");
    assert_eq!(two.connections(), 0);
    let nothing = with_route(
        "{ name: other, match: { target: OTHER }, terminate: one }",
        &upstreams,
    );
    assert_eq!(reload(&node, &nothing), counts(0, 0, 0, 1));
    assert_eq!(tunnel.rest(), (Vec::new(), End::Reset));
    let record = node.record(|record| record["kind"] == "connect");
    assert_eq!(
        record["reason"], "policy_changed: no route allows it any more",
        "{record}"
    );
    eventually_true("the target sees the reset", || {
        one.seen() == [b"ConnectionReset"]
    });
}

#[test]
fn what_is_answered_now_ends() {
    let (tcp, udp) = (origins::tcp_echo(), origins::udp_echo(origins::V4));
    let upstreams = [("tcp", tcp.address()), ("udp", udp.address())];
    let routes = "{ match: { target: DB }, terminate: tcp }, { terminate: udp }";
    let node = Node::start("alice", &with_route(routes, &upstreams));
    let client = Client::connect(node.address("voice"));
    assert_eq!(client.ask("x"), b"x");
    let mut tunnel = Raw::connect(node.address("db"));
    tunnel.send("x");
    assert_eq!(tunnel.exactly(1), b"x");
    let closed = with_route("{ name: closed, respond: { status: 403 } }", &upstreams);
    assert_eq!(reload(&node, &closed), counts(0, 0, 0, 2));
    assert_eq!(tunnel.rest(), (Vec::new(), End::Reset));
    for kind in ["connect", "connect-udp"] {
        let record =
            node.record(|record| record["kind"] == kind && record["reason"] != "responded");
        assert_eq!(
            record["reason"], "policy_changed: route closed does something else with it",
            "{record}"
        );
    }
}

#[test]
fn an_address_that_may_not_be_chosen_any_more_ends_its_tunnel() {
    let origin = origins::tcp_echo();
    let yaml = |allow: &str| {
        format!(
            "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\nroutes: [ {{ terminate: true }} ]\negress: {{ allow: [{allow}] }}\n"
        )
    };
    let node = Node::start("alice", &yaml("127.0.0.0/8"));
    let mut tunnel = Raw::tunnel(node.address("web"), &origin.address().to_string(), "").unwrap();
    assert_eq!(reload(&node, &yaml("127.0.0.1/32")), counts(1, 0, 0, 0));
    assert_eq!(reload(&node, &yaml("127.0.0.2/32")), counts(0, 0, 0, 1));
    assert_eq!(tunnel.rest().1, End::Reset);
}

#[test]
fn a_peer_that_is_none_any_more_loses_the_tunnels_of_its_users() {
    let origin = origins::tcp_echo();
    let yaml = |trust: &str| {
        format!(
            "listeners: {{ web: {{ http: 127.0.0.1:0, insecure_trust: [{trust}] }} }}\nroutes: [ {{ terminate: db }} ]\n\
             upstreams: {{ db: {{ endpoints: [\"{}\"] }} }}\n",
            origin.address()
        )
    };
    let node = Node::start("edge", &yaml("127.0.0.0/8"));
    let mut alice = Raw::tunnel(node.address("web"), "DB:1", "user: alice\r\n").unwrap();
    let mut other = Raw::tunnel(node.address("web"), "DB:1", "").unwrap();
    assert_eq!(reload(&node, &yaml("10.0.0.0/8")), counts(1, 0, 0, 1));
    assert_eq!(alice.rest().1, End::Reset);
    other.send("x");
    assert_eq!(other.exactly(1), b"x");
}

#[test]
fn a_tunnel_ends_with_the_token_that_opened_it() {
    let (issuer, origin, folder) = (
        Issuer::eddsa(),
        origins::tcp_echo(),
        tempfile::tempdir().unwrap(),
    );
    fs::write(folder.path().join("keys.json"), issuer.key_set()).unwrap();
    let yaml = format!(
        "listeners:\n  web:\n    http: 127.0.0.1:0\n    auth: {{ bearer: {{ jwks_file: keys.json, issuer: \"https://issuer.test\", \
         audience: hermes }} }}\nroutes: [ {{ terminate: db }} ]\nupstreams: {{ db: {{ endpoints: [\"{}\"] }} }}\n",
        origin.address()
    );
    let node = Node::start_in(folder, "edge", &yaml, &[]);
    let tunnel = |expires: u64| {
        let mut claims = issuer.claims("alice");
        claims["exp"] = expires.into();
        let field = format!("proxy-authorization: Bearer {}\r\n", issuer.token(&claims));
        Raw::tunnel(node.address("web"), "DB:1", &field).unwrap()
    };
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs();
    // A token is accepted for half a minute more: this one for two seconds at most.
    let (mut short, mut long) = (tunnel(now - 28), tunnel(now + 3600));
    assert_eq!(short.rest().1, End::Reset);
    let record = node.record(|_| true);
    assert_eq!(
        record["reason"], "policy_changed: the credential has expired",
        "{record}"
    );
    long.send("x");
    assert_eq!(long.exactly(1), b"x");
}

#[test]
fn a_tunnel_that_came_as_post_is_decided_on_as_post() {
    let origin = origins::tcp_echo();
    let rules = |more: &str| {
        format!(
            "listeners: {{ web: {{ http: 127.0.0.1:0, gateway: true }} }}\nroutes:\n  \
             - {{ match: {{ method: POST, path: /tunnel }}, tunnel: post, terminate: db{more} }}\n  \
             - {{ respond: {{ status: 404 }} }}\nupstreams: {{ db: {{ endpoints: [\"{}\"] }} }}\n",
            origin.address()
        )
    };
    let node = Node::start("alice", &rules(""));
    let mut raw = Raw::connect(node.address("web"));
    raw.send("POST /tunnel HTTP/1.1\r\nHost: db:1\r\nTransfer-Encoding: chunked\r\n\r\n");
    assert_eq!(raw.head().status(), 200);
    raw.send("5\r\nhello\r\n");
    assert!(
        raw.until(|seen| seen.ends_with(b"hello\r\n"))
            .ends_with(b"hello\r\n")
    );
    assert_eq!(reload(&node, &rules(", set: { a: b }")), counts(1, 0, 0, 0));
    assert_eq!(node.exchanges()[0]["kind"], "post");
    raw.send("5\r\nagain\r\n");
    assert!(
        raw.until(|seen| seen.ends_with(b"again\r\n"))
            .ends_with(b"again\r\n")
    );
}
