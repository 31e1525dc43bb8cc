//! Open tunnels under a policy that changes, because it was changed or because its hours are over.

use std::time::{SystemTime, UNIX_EPOCH};

use hermes_tests::origins::Origin;
use hermes_tests::raw::{End, Raw};
use hermes_tests::udp::Client;
use hermes_tests::{Node, origins};

use super::tunnels::{counts, reload};

type Echoes = (Origin<Vec<u8>>, Origin<(std::net::SocketAddr, Vec<u8>)>);

/// A node for alice, with these members of the group that may use the database, and what else its rule says.
fn yaml((tcp, udp): &Echoes, members: &str, rule: &str) -> String {
    format!(
        r#"
        groups: {{ staff: [{members}] }}
        services: {{ database: ["DB:1", "VOICE:1"] }}
        listeners:
          db: {{ tcp: 127.0.0.1:0, target: "DB:1", user: alice }}
          voice: {{ udp: 127.0.0.1:0, target: "VOICE:1", user: alice }}
        policy:
          rules: [{{ name: staff, match: {{ user: group:staff, target: service:database }}, allow: true{rule} }}]
        routes:
          - {{ match: {{ target: VOICE }}, terminate: udp }}
          - {{ terminate: tcp }}
        upstreams: {{ tcp: {{ endpoints: ["{}"] }}, udp: {{ endpoints: ["{}"] }} }}
        "#,
        tcp.address(),
        udp.address()
    )
}

fn echoes() -> Echoes {
    (origins::tcp_echo(), origins::udp_echo(origins::V4))
}

#[test]
fn a_user_who_leaves_a_group_loses_the_tunnels_that_it_allowed() {
    let echoes = echoes();
    let node = Node::start("edge", &yaml(&echoes, "alice, bob", ""));
    let mut tunnel = Raw::connect(node.address("db"));
    tunnel.send("x");
    assert_eq!(tunnel.exactly(1), b"x");
    let voice = Client::connect(node.address("voice"));
    assert_eq!(voice.ask("x"), b"x");

    assert_eq!(reload(&node, &yaml(&echoes, "al*", "")), counts(2, 0, 0, 0));
    tunnel.send("y");
    assert_eq!(tunnel.exactly(1), b"y");

    assert_eq!(reload(&node, &yaml(&echoes, "bob", "")), counts(0, 0, 0, 2));
    assert_eq!(tunnel.rest(), (Vec::new(), End::Reset));
    for kind in ["connect", "connect-udp"] {
        let record = node.record(|record| record["kind"] == kind);
        assert_eq!(
            record["reason"],
            "policy_changed: http_request_denied: no rule of the policy allows it",
            "{record}"
        );
    }
}

#[test]
fn a_target_that_leaves_a_service_loses_the_tunnels_that_it_allowed() {
    let echoes = echoes();
    let serving = |targets: &str| {
        yaml(&echoes, "alice", "").replace("[\"DB:1\", \"VOICE:1\"]", &format!("[{targets}]"))
    };
    let node = Node::start("edge", &serving("\"DB:1\", \"VOICE:1\""));
    let mut tunnel = Raw::connect(node.address("db"));
    tunnel.send("x");
    assert_eq!(tunnel.exactly(1), b"x");
    let voice = Client::connect(node.address("voice"));
    assert_eq!(voice.ask("x"), b"x");

    let wider = serving("DB, VOICE, OTHER");
    assert_eq!(reload(&node, &wider), counts(2, 0, 0, 0));
    let narrower = serving("DB, OTHER");
    assert_eq!(reload(&node, &narrower), counts(1, 0, 0, 1));
    tunnel.send("y");
    assert_eq!(tunnel.exactly(1), b"y");
    let record = node.record(|record| record["kind"] == "connect-udp");
    assert_eq!(
        record["reason"], "policy_changed: http_request_denied: no rule of the policy allows it",
        "{record}"
    );

    assert_eq!(reload(&node, &serving("OTHER")), counts(0, 0, 0, 1));
    assert_eq!(tunnel.rest(), (Vec::new(), End::Reset));
}

/// A time of day in UTC, some seconds from now.
fn clock(ahead: u64) -> String {
    let unix = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let second = (unix + ahead) % 86_400;
    format!(
        "{:02}:{:02}:{:02}",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

#[test]
fn a_tunnel_ends_with_the_hours_of_the_rule_that_allowed_it() {
    let echoes = echoes();
    let node = Node::start("edge", &yaml(&echoes, "alice", ""));
    // On a busy machine the hours may be over before the tunnel is open: then longer ones are tried.
    let opened = [3, 10, 60].into_iter().find_map(|seconds| {
        let hours = format!(", hours: \"{}-{}\"", clock(86_000), clock(seconds));
        assert_eq!(node.reload(&yaml(&echoes, "alice", &hours)).0, 200);
        let mut tunnel = Raw::connect(node.address("db"));
        let is_open = tunnel.exchange(b"x").is_ok();
        is_open.then_some(tunnel)
    });

    let mut tunnel = opened.unwrap();
    assert_eq!(tunnel.rest().1, End::Reset);
    let record = node.record(|record| {
        record["kind"] == "connect"
            && record["reason"]
                .as_str()
                .unwrap()
                .starts_with("policy_changed")
    });
    assert_eq!(
        record["reason"],
        "policy_changed: http_request_denied: no rule of the policy allows it"
    );
}
