//! Why the tunnels of a device go where they go: what is supposed of them is what becomes of them.

use std::process::Command;

use hermes_lab::topology::Topology;
use hermes_tests::{Node, program};
use serde_json::Value;

use super::packets::start;

/// A device with a tunnel of Alice's and one of Carol's, of which this rule decides.
fn yaml(rule: &str) -> String {
    format!(
        "
        fields: [user, tenant]
        identity: {{ user: alice }}
        listeners:
          vpn:
            tun:
              name: hermes0
              addresses: [10.7.0.77/24]
              tunnels:
                lab:  {{ prefixes: 10.1.0.0/16, set: {{ tenant: lab }} }}
                home: {{ prefixes: 10.2.0.0/16, user: carol }}
        policy: {{ rules: [ {rule} ] }}
        routes:
          - {{ name: labs, match: {{ kind: connect-ip, fields: {{ tenant: lab }} }}, respond: {{ status: 410 }} }}
          - {{ name: others, match: {{ kind: connect-ip }}, respond: {{ status: 404 }} }}
        "
    )
}

/// What the running node says of an exchange that enters here.
fn supposed(node: &Node, listener: &str) -> Value {
    let output = Command::new(program::path())
        .args(["why", "--json", "--listener", listener, "--admin"])
        .arg(node.socket())
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What was refused or answered of this user.
fn record(node: &Node, user: &str, status: u16) -> Value {
    node.record(|record| {
        record["kind"] == "connect-ip" && record["user"] == user && record["status"] == status
    })
}

fn last(account: &Value) -> &Value {
    account["steps"].as_array().unwrap().last().unwrap()
}

#[test]
fn a_device_s_tunnels_become_what_was_supposed_of_them() {
    let mut topology = Topology::new();
    topology.add("alice").unwrap();
    let bobs = "{ name: bobs, match: { user: bob }, allow: true }";
    let node = start(&topology, "alice", &yaml(bobs));

    // Refused, with a name; and why, as it was supposed.
    for (tunnel, user) in [("vpn/lab", "alice"), ("vpn/home", "carol")] {
        let real = record(&node, user, 403);
        let name = real["refusal"].as_str().unwrap();
        let (status, account) = node.ask("GET", &format!("/why/{name}"), "");
        assert_eq!(status, 200, "{account}");
        let account: Value = serde_json::from_str(&account).unwrap();
        let supposed = supposed(&node, tunnel);
        assert_eq!(supposed["allowed"], false, "{supposed:#}");
        assert_eq!(supposed["status"], 403, "{supposed:#}");
        assert_eq!(last(&supposed)["path"], "policy.default", "{supposed:#}");
        assert_eq!(last(&account)["path"], "policy.default", "{account:#}");
        assert_eq!(last(&supposed)["place"], last(&account)["place"]);
    }

    // Taken by a route, each by its own.
    let anyone = "{ name: devices, match: { kind: connect-ip, source: 10.7.0.0/16 }, allow: true }";
    let (status, answer) = node.reload(&yaml(anyone));
    assert_eq!(status, 200, "{answer}");
    for (tunnel, user, status) in [("vpn/lab", "alice", 410), ("vpn/home", "carol", 404)] {
        let real = record(&node, user, status);
        let supposed = supposed(&node, tunnel);
        assert_eq!(supposed["route"], real["route"], "{supposed:#}");
        assert_eq!(supposed["user"], user, "{supposed:#}");
        assert_eq!(supposed["status"], status, "{supposed:#}");
    }
}
