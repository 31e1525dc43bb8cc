//! Servers that see the clients of captured traffic.

use std::net::{TcpListener, TcpStream};

use hermes_lab::topology::Topology;
use hermes_tests::{Node, program};

use super::super::{command, within};
use super::network::{ask, hear, networks, serve};

fn node(topology: &Topology, capture: &str) -> Node {
    let hermes = program::path();
    let yaml = format!(
        "
        listeners: {{ lan: {{ capture: {{ host: {{ interfaces: client {capture} }} }} }} }}
        routes: [ {{ match: {{ kind: [connect, connect-udp] }}, terminate: true }} ]
        egress: {{ allow: [10.0.2.0/24, \"fd02::/64\"], keep_source: true }}
        "
    );
    let command = command(topology, "router", hermes.to_str().unwrap());
    Node::start_by(command, "router", &yaml)
}

#[test]
fn a_server_sees_the_address_of_the_client() {
    let topology = networks();
    serve(&topology, 8000);
    for capture in ["", ", split: true"] {
        let node = node(&topology, capture);
        for (address, client) in [("10.0.2.2", "10.0.1.2"), ("fd02::2", "fd01::2")] {
            assert_eq!(hear(&topology, "client", address, 8000).unwrap(), client);
            let asked = ask(&topology, "client", address, 8000).unwrap();
            assert_eq!(asked, format!("{client} hello"));
        }
        // They came through the node nevertheless.
        node.record(|record| record["target"] == "[fd02::2]:8000" && record["kind"] == "connect");
    }
}

#[test]
fn a_server_sees_the_port_of_the_client() {
    let topology = networks();
    let listening = within(&topology, "server", || {
        TcpListener::bind("10.0.2.2:8000").unwrap()
    });
    let _node = node(&topology, "");
    let client = within(&topology, "client", || {
        TcpStream::connect("10.0.2.2:8000").unwrap()
    });
    let (_server, from) = listening.accept().unwrap();
    assert_eq!(from, client.local_addr().unwrap());
}
