//! The policy of a node: one list of rules for requests, tunnels, connections and datagrams.

use hermes_tests::head::unnamed;
use hermes_tests::raw::Raw;
use hermes_tests::udp::Client;
use hermes_tests::{Node, curl, origins};

/// A node with listeners of all kinds for alice, one for bob, and the rules under test; routes answer with the role they see.
fn node(policy: &str) -> Node {
    let tcp = origins::tcp_echo();
    let udp = origins::udp_echo(origins::V4);
    let yaml = format!(
        r#"
        fields: [user, x-secure]
        groups: {{ admins: [alice, "*@ops.example"], guests: [bob] }}
        services: {{ database: ["DB:1", 192.0.2.0/24], films: [VIDEO] }}
        listeners:
          web: {{ http: 127.0.0.1:0, user: alice }}
          side: {{ http: 127.0.0.1:0, user: bob }}
          db: {{ tcp: 127.0.0.1:0, target: "DB:1", user: alice }}
          guest: {{ tcp: 127.0.0.1:0, target: "DB:1", user: bob }}
          voice: {{ udp: 127.0.0.1:0, target: "VOICE:1", user: alice }}
        policy:
{policy}
        routes:
          - {{ match: {{ target: VOICE }}, terminate: udp }}
          - {{ match: {{ target: DB }}, terminate: tcp }}
          - {{ match: {{ fields: {{ x-secure: admin }} }}, respond: {{ status: 200, body: admin }} }}
          - {{ match: {{ fields: {{ x-secure: true }} }}, respond: {{ status: 200, body: user }} }}
          - {{ respond: {{ status: 200, body: stranger }} }}
        upstreams:
          tcp: {{ endpoints: ["{}"] }}
          udp: {{ endpoints: ["{}"] }}
        "#,
        tcp.address(),
        udp.address()
    );
    // The echoes go on until the process ends.
    std::mem::forget((tcp, udp));
    Node::start("edge", &yaml)
}

#[test]
fn a_rule_sets_the_role_by_which_the_route_is_chosen_and_no_client_does() {
    let node = node(
        "          rules:
            - { name: admins, match: { fields: { token: admin } }, set: { x-secure: admin }, allow: true }
            - { name: others, match: { fields: { token: true } }, set: { x-secure: user }, allow: true }
            - { match: { path: /free }, allow: true }",
    );
    let ask = |fields: &[&str], url: &str| {
        let proxy = node.url("web");
        let mut arguments = vec!["-x", &proxy];
        fields
            .iter()
            .for_each(|field| arguments.extend(["-H", field]));
        arguments.push(url);
        let got = curl(&arguments);
        (got.status, got.text())
    };

    let url = "http://video/";
    assert_eq!(ask(&["token: admin"], url), (200, "admin".to_owned()));
    assert_eq!(ask(&["token: x"], url), (200, "user".to_owned()));
    let forged = ["token: x", "x-secure: admin", "X_Secure: admin"];
    assert_eq!(ask(&forged, url), (200, "user".to_owned()));
    let free = ask(&["x-secure: admin"], "http://video/free");
    assert_eq!(free, (200, "stranger".to_owned()));
    assert_eq!(ask(&["x-secure: admin"], url).0, 403);
}

#[test]
fn what_is_denied_is_answered_with_the_rule_and_its_reason() {
    let node = node(
        "          default: allow
          rules:
            - { name: law, match: { target: service:films }, deny: { status: 451, reason: by law } }
            - { match: { target: 192.0.2.0/24 }, deny: true }",
    );
    let got = curl(&["-x", &node.url("web"), "http://video/"]);
    assert_eq!(got.status, 451);
    assert_eq!(
        unnamed(&got.field("proxy-status").unwrap()),
        "edge; error=http_request_denied; details=\"policy rule law: by law\""
    );
    let record = node.record(|record| record["status"] == 451);
    assert_eq!(
        record["reason"],
        "http_request_denied: policy rule law: by law"
    );

    let refused = Raw::tunnel(node.address("web"), "192.0.2.7:443", "").unwrap_err();
    assert_eq!(refused.status(), 403);
    assert_eq!(curl(&["-x", &node.url("web"), "http://news/"]).status, 200);

    let metrics = node.metrics();
    for (rule, outcome) in [
        ("law", "deny"),
        ("policy.rules[1]", "deny"),
        ("default", "allow"),
    ] {
        let line =
            format!("hermes_policy_decisions_total{{rule=\"{rule}\",outcome=\"{outcome}\"}} 1");
        assert!(
            metrics.lines().any(|found| found == line),
            "{line}\n{metrics}"
        );
    }
}

#[test]
fn one_list_holds_for_requests_tunnels_connections_and_datagrams() {
    let node = node(
        "          rules:
            - { name: data, match: { user: group:admins, target: service:database }, allow: true }
            - { name: voice, match: { kind: connect-udp, user: alice }, allow: true }",
    );

    let mut alice = Raw::connect(node.address("db"));
    alice.send("x");
    assert_eq!(alice.exactly(1), b"x");
    let mut tunnel = Raw::tunnel(node.address("web"), "DB:1", "").unwrap();
    tunnel.send("y");
    assert_eq!(tunnel.exactly(1), b"y");
    let voice = Client::connect(node.address("voice"));
    assert_eq!(voice.ask("z"), b"z");

    assert_eq!(Raw::connect(node.address("guest")).rest().0, b"");
    let bob = Raw::tunnel(node.address("side"), "DB:1", "user: alice\r\n").unwrap_err();
    assert_eq!(bob.status(), 403);
    let denied = node.record(|record| record["listener"] == "guest");
    assert_eq!(
        denied["reason"],
        "http_request_denied: no rule of the policy allows it"
    );
    assert_eq!(curl(&["-x", &node.url("web"), "http://db/"]).status, 403);
}
