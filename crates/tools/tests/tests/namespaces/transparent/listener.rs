//! A `tcp` listener that holds the beginnings of its connections: its clients see what its target does.

use std::io::ErrorKind;
use std::process::Command;

use hermes_tests::{Node, program};

use super::super::command;
use super::network::{hear, networks, run, serve, tables};

/// A listener on the router for a port of the server, by the one address or by all.
fn listener(own: &str, target: &str) -> String {
    format!(
        "
        listeners: {{ port: {{ tcp: \"{own}\", target: \"{target}\", split: true, public: true }} }}
        policy: {{ default: allow, rules: [ {{ match: {{ target: \"*:9\" }}, deny: true }} ] }}
        routes: [ {{ match: {{ kind: connect }}, terminate: true, timeouts: {{ connect: 2s }} }} ]
        egress: {{ allow: [10.0.2.0/24, \"fd02::/64\"] }}
        "
    )
}

fn split(status: &serde_json::Value) -> String {
    status["listeners"][0]["split"].to_string()
}

#[test]
fn a_client_of_a_port_sees_its_target_accept_refuse_and_forbid() {
    let topology = networks();
    serve(&topology, 8000);
    let hermes = program::path();
    let start = |own: &str, target: &str| {
        let command = command(&topology, "router", hermes.to_str().unwrap());
        Node::start_by(command, "router", &listener(own, target))
    };

    let node = start("10.0.1.1:7000", "10.0.2.2:8000");
    let status = node.status();
    assert!(split(&status).contains("held by NFQUEUE"), "{status}");
    for _ in 0..10 {
        let seen = hear(&topology, "client", "10.0.1.1", 7000).unwrap();
        assert_eq!(seen, "10.0.2.1");
        // A program of the machine itself.
        assert_eq!(
            hear(&topology, "router", "10.0.1.1", 7000).unwrap(),
            "10.0.2.1"
        );
    }
    let record = node.record(|record| record["target"] == "10.0.2.2:8000");
    assert!(
        record["source"].as_str().unwrap().starts_with("10.0.1."),
        "{record}"
    );
    drop(node);
    assert_eq!(tables(&topology), Vec::<String>::new());

    // All addresses, of both families; a port that no one serves.
    let node = start("[::]:7000", "[fd02::2]:8001");
    for address in ["10.0.1.1", "fd01::1"] {
        let error = hear(&topology, "client", address, 7000).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");
    }
    drop(node);

    let _node = start("10.0.1.1:7000", "10.0.2.2:9");
    let error = hear(&topology, "client", "10.0.1.1", 7000).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::HostUnreachable, "{error}");
}

#[test]
fn a_killed_node_leaves_no_rule_and_one_without_rights_accepts_first() {
    let topology = networks();
    serve(&topology, 8000);
    let hermes = program::path();
    let router = || command(&topology, "router", hermes.to_str().unwrap());
    let yaml = listener("10.0.1.1:7000", "10.0.2.2:8000");
    let mut node = Node::start_by(router(), "router", &yaml);
    assert_eq!(
        hear(&topology, "client", "10.0.1.1", 7000).unwrap(),
        "10.0.2.1"
    );
    node.kill();
    assert_eq!(tables(&topology), Vec::<String>::new());
    node.restart_by(router());
    assert_eq!(
        hear(&topology, "client", "10.0.1.1", 7000).unwrap(),
        "10.0.2.1"
    );
    drop(node);

    let mut without: Command = command(&topology, "router", "setpriv");
    without.args(["--bounding-set", "-net_admin", "--inh-caps", "-net_admin"]);
    without.arg(&hermes);
    let yaml = listener("10.0.1.1:7000", "10.0.2.2:8001");
    let node = Node::start_by(without, "router", &yaml);
    let status = node.status();
    assert!(
        split(&status).contains("accepted first, not held"),
        "{status}"
    );
    let error = hear(&topology, "client", "10.0.1.1", 7000).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
    let listening = run(&topology, "router", "ss -Hltn");
    assert!(listening.contains("10.0.1.1:7000"), "{listening}");
}
