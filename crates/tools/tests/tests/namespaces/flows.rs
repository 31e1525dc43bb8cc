//! Flows of IP packets where their tunnel ends: counted, recorded, and bounded.

use std::net::UdpSocket;

use hermes_lab::topology::Topology;
use hermes_tests::Node;
use hermes_tests::eventually::{eventually, eventually_true};
use serde_json::Value;

use super::packets::{bulk, edge, networks, start};
use super::within;

const ALICE: &str = "
    identity: { user: alice }
    listeners: { vpn: { tun: { name: hermes0, addresses: [10.7.0.77/24], routes: [10.0.2.0/24] } } }
    routes: [ { match: { kind: connect-ip }, to: edge } ]
    upstreams: { edge: { endpoints: [10.0.1.2:8443], http: 2 } }
";

/// Two nodes with a tunnel, the second of which follows flows like this.
fn nodes(topology: &Topology, flows: &str) -> [Node; 2] {
    let policy = "policy: { default: allow, packets: { rules: [ { name: server, to: 10.0.2.2/32, allow: true } ] } }";
    let edge = format!(
        "{}{policy}\n        log: {{ access: {{ file: access.json }}, flows: {flows} }}\n",
        edge("")
    );
    let nodes = [
        start(topology, "edge", &edge),
        start(topology, "alice", ALICE),
    ];
    let alice = topology.namespace("alice").unwrap();
    eventually("an echo", || {
        alice.run(&["ping", "-c", "1", "-W", "1", "10.0.2.2"]).ok()
    });
    nodes
}

fn is_flow(record: &Value, protocol: &str) -> bool {
    record["kind"] == "flow" && record["protocol"] == protocol
}

#[test]
fn flows_are_counted_by_user_and_recorded_with_what_they_moved() {
    let topology = networks();
    let [edge, alice] = nodes(&topology, "{ silent_for: 1s }");
    bulk(&topology, "server", "10.0.2.2:5000");

    let flow = edge.record(|record| is_flow(record, "tcp"));
    assert_eq!(flow["user"], "alice", "{flow:#}");
    assert_eq!(flow["target"], "10.0.2.2:5000", "{flow:#}");
    assert!(flow["source"].as_str().unwrap().starts_with("10.7.0.77:"));
    assert_eq!(flow["opened_by"], "client", "{flow:#}");
    assert_eq!(flow["rule"], "server", "{flow:#}");
    assert_eq!(flow["outcome"], "allow", "{flow:#}");
    assert_eq!(flow["reason"], "closed", "{flow:#}");
    for direction in ["client_to_target", "target_to_client"] {
        let bytes = flow["bytes"][direction].as_u64().unwrap();
        let packets = flow["packets"][direction].as_u64().unwrap();
        assert!((4_000_000..5_000_000).contains(&bytes), "{flow:#}");
        assert!(packets >= bytes / 1500, "{flow:#}");
    }
    let tunnel = edge.exchanges()[0].clone();
    assert_eq!(flow["id"], tunnel["id"]);

    // What is denied is a flow, too.
    let denied = within(&topology, "alice", || {
        UdpSocket::bind("10.7.0.77:0").unwrap()
    });
    denied.send_to(b"forbidden", "10.0.2.1:9").unwrap();
    let flow = edge.record(|record| is_flow(record, "udp"));
    assert_eq!(flow["outcome"], "deny", "{flow:#}");
    assert_eq!(flow["rule"], "default", "{flow:#}");
    assert_eq!(flow["reason"], "silent", "{flow:#}");

    let began = edge.exchanges()[0]["flows"]["began"].as_u64().unwrap();
    let metrics = edge.metrics();
    assert!(began >= 3, "pings, the connection, and what was denied");
    assert!(
        metrics.contains(&format!(
            "hermes_user_flows_total{{user=\"alice\"}} {began}"
        )),
        "{metrics}"
    );
    let denied = "hermes_user_denied_flows_total{user=\"alice\"} 1";
    assert!(metrics.contains(denied), "{metrics}");
    drop(alice);
}

#[test]
fn a_flood_of_flows_is_bounded_and_those_before_it_are_told_of_when_the_tunnel_ends() {
    let topology = networks();
    let [edge, alice] = nodes(&topology, "{ silent_for: 1h }");
    let sender = within(&topology, "alice", || {
        UdpSocket::bind("10.7.0.77:0").unwrap()
    });
    let open = || edge.status()["devices"][0]["flows"].as_u64().unwrap();
    // More flows than there is room for; what the device loses is sent again.
    eventually_true("the table is full", || {
        for port in 1..20_000 {
            let _ = sender.send_to(b"flood", ("10.0.2.2", port));
        }
        open() >= 4_096
    });
    assert_eq!(open(), 4_096);
    let crowded_out = edge.record(|record| record["reason"] == "crowded_out");
    assert!(is_flow(&crowded_out, "icmp") || is_flow(&crowded_out, "udp"));

    drop(alice);
    let rest = edge.record(|record| record["reason"] == "tunnel_ended");
    assert_eq!(rest["user"], "alice", "{rest:#}");
}
