//! Flows of IP packets that the rules deny, in the log of decisions: each once, and no more of them than there is room for.

use std::fs;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use hermes_lab::topology::Topology;
use hermes_tests::Node;
use hermes_tests::eventually::{eventually, eventually_true};
use serde_json::{Value, json};

use super::packets::{edge, networks, start};
use super::within;

const ALICE: &str = "
    identity: { user: alice }
    listeners: { vpn: { tun: { name: hermes0, addresses: [10.7.0.77/24], routes: [10.0.2.0/24] } } }
    routes: [ { match: { kind: connect-ip }, to: edge } ]
    upstreams: { edge: { endpoints: [10.0.1.2:8443], http: 2 } }
";

/// Pings, and this rule; only decisions to deny are logged.
fn policy(rule: &str, log: &str) -> String {
    let rules = format!("[ {{ name: pings, protocol: icmp, allow: true }}, {rule} ]");
    format!(
        "{}groups: {{ staff: [alice] }}
        policy: {{ default: allow, packets: {{ rules: {rules} }} }}
        log: {{ access: {{ file: access.json }}, decisions: {{ file: decisions.json, sample: 0%{log} }} }}
        ",
        edge("")
    )
}

fn nodes(topology: &Topology, policy: &str) -> [Node; 2] {
    let nodes = [
        start(topology, "edge", policy),
        start(topology, "alice", ALICE),
    ];
    let alice = topology.namespace("alice").unwrap();
    eventually("an echo", || {
        alice.run(&["ping", "-c", "1", "-W", "1", "10.0.2.2"]).ok()
    });
    nodes
}

/// What is logged of flows to this end.
fn logged(edge: &Node, target: &str) -> Vec<Value> {
    let text = fs::read_to_string(edge.folder().join("decisions.json")).unwrap_or_default();
    let lines = text
        .lines()
        .map_while(|line| serde_json::from_str(line).ok());
    lines
        .filter(|line: &Value| line["input"]["target"] == target)
        .collect()
}

/// What is logged of flows to this end, once there is something.
fn decision(edge: &Node, target: &str) -> Value {
    eventually("a decision", || logged(edge, target).pop())
}

fn connect(topology: &Topology, to: &'static str) {
    let to: SocketAddr = to.parse().unwrap();
    let opened = within(topology, "alice", || {
        TcpStream::connect_timeout(&to, Duration::from_secs(60))
    });
    opened.unwrap_err();
}

#[test]
fn a_flow_that_is_denied_is_one_decision_of_which_why_tells() {
    let topology = networks();
    let no_other = "{ name: web, protocol: tcp, port: 443, allow: true }";
    let [edge, _alice] = nodes(&topology, &policy(no_other, ""));

    // Packets of one flow, and then another: what was logged of the first is whole then.
    let socket = within(&topology, "alice", || {
        UdpSocket::bind("10.7.0.77:4000").unwrap()
    });
    for _ in 0..3 {
        // The sender is told of what was denied before.
        let _ = socket.send_to(b"?", "10.0.2.2:5001");
    }
    connect(&topology, "10.0.2.2:5002");
    let other = decision(&edge, "10.0.2.2:5002");
    assert_eq!(other["input"]["protocol"], "tcp", "{other:#}");

    let told = logged(&edge, "10.0.2.2:5001");
    let [told] = &told[..] else {
        panic!("{told:#?}")
    };
    assert_eq!(told["path"], "policy/packets/default", "{told:#}");
    assert_eq!(
        told["result"],
        json!({ "allow": false, "reason": "no rule on packets allows it" })
    );
    let input = &told["input"];
    assert_eq!(input["kind"], "packet", "{told:#}");
    assert_eq!(input["protocol"], "udp", "{told:#}");
    assert_eq!(input["source"], "10.7.0.77", "{told:#}");
    assert_eq!(input["source_port"], 4000, "{told:#}");
    assert_eq!(
        (&input["host"], &input["port"]),
        (&json!("10.0.2.2"), &json!(5001))
    );
    assert_eq!(input["user"], "alice", "{told:#}");
    assert_eq!(input["groups"], json!(["staff"]), "{told:#}");
    assert_eq!(input["opened_by"], "client", "{told:#}");
    let tunnel = edge.exchanges()[0].clone();
    assert_eq!(told["hermes"]["exchange"], tunnel["id"], "{told:#}");

    let name = told["decision_id"].as_str().unwrap();
    let (status, account) = edge.ask("GET", &format!("/why/{name}"), "");
    assert_eq!(status, 200, "{account}");
    assert!(
        account.contains("10.7.0.77:4000 to 10.0.2.2:5001"),
        "{account}"
    );
    assert!(account.contains("policy.packets.default"), "{account}");
    // The log for people calls it the same.
    assert!(edge.log().contains(name), "{}", edge.log());

    // Other rules: what they deny is decided anew, without what is masked.
    let denies = "{ name: no-udp, protocol: udp, deny: true }";
    let masked = ", mask: [/input/source, /input/user]";
    assert_eq!(edge.reload(&policy(denies, masked)).0, 200);
    let again = eventually("a decision by the new rules", || {
        let _ = socket.send_to(b"?", "10.0.2.2:5001");
        let told = logged(&edge, "10.0.2.2:5001");
        told.into_iter()
            .find(|told| told["path"] == "policy/packets/no-udp")
    });
    assert_eq!(
        again["hermes"]["place"], "policy.packets.rules[1]",
        "{again:#}"
    );
    assert_eq!(
        again["erased"],
        json!(["/input/source", "/input/user"]),
        "{again:#}"
    );
    assert!(again["input"]["source"].is_null(), "{again:#}");
}

#[test]
fn a_client_that_tries_every_port_fills_no_log() {
    let topology = networks();
    let [edge, _alice] = nodes(
        &topology,
        &policy("{ name: none, protocol: gre, allow: true }", ""),
    );
    let socket = within(&topology, "alice", || {
        UdpSocket::bind("10.7.0.77:0").unwrap()
    });

    let lost = || {
        let metrics = edge.metrics();
        let name = "hermes_decisions_logged_total{outcome=\"queue_full\"} ";
        let line = metrics.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap().parse::<u64>().unwrap()
    };
    // All at once: what takes long finds room again.
    eventually_true("some found no room", || {
        for port in 1..4000 {
            let _ = socket.send_to(b"?", ("10.0.2.2", port));
        }
        lost() > 0
    });
}
