//! Clients of one device: they do not reach each other unless they may.

use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use hermes_lab::topology::{Plug, Topology};
use hermes_tests::Node;
use hermes_tests::eventually::{eventually, eventually_true};

use super::packets::start;
use super::within;

/// The clients, with the addresses that they ask for.
const CLIENTS: [(&str, u8); 3] = [("alice", 77), ("bob", 78), ("carol", 79)];

/// Three clients, each with a cable to the edge.
pub(super) fn networks() -> Topology {
    let mut topology = Topology::new();
    topology.add("edge").unwrap();
    for (name, number) in CLIENTS {
        topology.add(name).unwrap();
        let [near, far] = [1, 2].map(|host| format!("10.0.{number}.{host}/24"));
        let plug = |namespace, address| Plug { namespace, address };
        let cabled = topology.cable(plug(name, &near), plug("edge", &far));
        cabled.unwrap();
    }
    // What passes between clients takes no way through the kernel.
    let edge = topology.namespace("edge").unwrap();
    edge.run(&["sysctl", "-q", "-w", "net.ipv4.ip_forward=0"])
        .unwrap();
    topology
}

pub(super) fn edge(end: &str, more: &str) -> String {
    format!(
        "
        listeners: {{ overlay: {{ http: 0.0.0.0:8443, public: true, insecure_trust: [10.0.0.0/16] }} }}
        routes:
          - match: {{ kind: connect-ip }}
            terminate: {{ tun: hermes1, pool: 10.7.0.0/24, {end} }}
        egress: {{ allow: [10.7.0.1/32] }}
        {more}
        "
    )
}

/// A client's machine, whose device is as `device` says beside its address.
pub(super) fn client(
    topology: &Topology,
    (name, number): (&'static str, u8),
    device: &str,
) -> Node {
    let yaml = format!(
        "
        identity: {{ user: {name} }}
        listeners: {{ vpn: {{ tun: {{ name: hermes0, {device} addresses: [10.7.0.{number}/24], routes: [10.7.0.0/24] }} }} }}
        routes: [ {{ match: {{ kind: connect-ip }}, to: edge }} ]
        upstreams: {{ edge: {{ endpoints: [\"10.0.{number}.2:8443\"], http: 2 }} }}
        "
    );
    start(topology, name, &yaml)
}

fn echo(topology: &Topology, from: &str, to: &str) -> bool {
    let from = topology.namespace(from).unwrap();
    from.run(&["ping", "-c", "1", "-W", "1", to]).is_ok()
}

/// Waits until each has a tunnel with its address.
fn all_have_tunnels(topology: &Topology) {
    for (name, number) in CLIENTS {
        eventually_true(&format!("{name} has a tunnel"), || {
            echo(topology, name, "10.7.0.1")
        });
        eventually_true(&format!("{name} has its address"), || {
            echo(topology, "edge", &format!("10.7.0.{number}"))
        });
    }
}

/// Whether a connection can be opened to this client's port.
fn connects(topology: &Topology, from: &str, to: &str) -> bool {
    let to = to.parse().unwrap();
    within(topology, from, || {
        TcpStream::connect_timeout(&to, Duration::from_secs(1)).is_ok()
    })
}

#[test]
fn clients_do_not_reach_each_other_unless_they_may() {
    let topology = networks();
    let edge_ = start(&topology, "edge", &edge("client_to_client: false", ""));
    let _clients = CLIENTS.map(|one| client(&topology, one, ""));
    all_have_tunnels(&topology);
    assert!(!echo(&topology, "alice", "10.7.0.78"));

    // The device is made anew.
    let (status, said) = edge_.reload(&edge("client_to_client: true", ""));
    assert_eq!(status, 200, "{said:#}");
    all_have_tunnels(&topology);
    for (from, to) in [
        ("alice", "10.7.0.78"),
        ("bob", "10.7.0.79"),
        ("carol", "10.7.0.77"),
    ] {
        eventually_true(&format!("{from} reaches {to}"), || {
            echo(&topology, from, to)
        });
    }
    // Each of them takes a hop.
    let alice = topology.namespace("alice").unwrap();
    let short = ["ping", "-c", "1", "-W", "1", "-t", "1", "10.7.0.78"];
    assert!(alice.run(&short).is_err());
}

#[test]
fn rules_bound_what_clients_send_to_each_other() {
    let topology = networks();
    let rules = "
        policy:
          default: allow
          packets:
            rules:
              - { name: web, allow: true, protocol: tcp, port: 5000 }
              - { name: web-of-others, opened_by: target, allow: true, protocol: tcp, port: 5000 }
              - { name: echoes, allow: true, to: 10.7.0.1/32, protocol: icmp }
              - { name: echoes-of-the-edge, opened_by: target, allow: true, from: 10.7.0.1/32, protocol: icmp }
    ";
    let _edge = start(&topology, "edge", &edge("client_to_client: true", rules));
    let _clients = CLIENTS.map(|one| client(&topology, one, ""));
    all_have_tunnels(&topology);

    let _listening = [5000, 5001].map(|port| {
        within(&topology, "bob", || {
            TcpListener::bind(("10.7.0.78", port)).unwrap()
        })
    });
    eventually("a connection", || {
        connects(&topology, "alice", "10.7.0.78:5000").then_some(())
    });
    assert!(!connects(&topology, "alice", "10.7.0.78:5001"));
    assert!(!echo(&topology, "alice", "10.7.0.78"));
}
