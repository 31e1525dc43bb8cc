//! Programs that many know, captured: they find what they find without a node.

use std::process::Stdio;

use hermes_lab::topology::Topology;
use hermes_tests::eventually::eventually;
use serde_json::Value;

use super::captured::{EDGE, Place, alice, said};
use super::intercept::{SERVER, web};
use super::packets::{networks, start};
use super::transparent::network;
use super::{Running, command};

/// A scan of whole connections, of ports of which one is open.
const SCAN: &str = "nmap -sT -Pn -n -p 7998-8003 -oG -";

/// The ports of a scan, without the times.
fn ports(said: &str) -> String {
    let found = said
        .lines()
        .find_map(|line| line.split_once("Ports: "))
        .unwrap_or_else(|| panic!("{said}"));
    found.1.to_owned()
}

/// A server of iperf3, and the arguments of its clients: bytes over TCP, a second of datagrams over UDP.
fn measures(topology: &Topology) -> Running {
    let mut server = command(topology, "server", "iperf3");
    let server = server.arg("-s").stdout(Stdio::null()).spawn();
    Running(server.unwrap())
}

const BYTES: &str = "iperf3 -n 4M -c";
const DATAGRAMS: &str = "iperf3 -u -b 5M -t 1 -c";

/// Whether a report says that all came: it has a line of the receiver.
fn is_whole(said: &str) -> bool {
    said.contains("receiver") && !said.contains("error")
}

#[test]
fn a_scan_and_measurements_of_a_program_without_rights_are_those_without_a_node() {
    let topology = networks();
    let place = Place::new();
    let _web = web(&topology, place.folder.path());
    let _measures = measures(&topology);
    let _edge = start(&topology, "edge", EDGE);
    let _node = start(&topology, "alice", &alice(&place));
    let run = |line: &str| {
        let line = format!("{line} {SERVER}");
        said(&place.run(&topology, &line.split(' ').collect::<Vec<_>>()))
    };

    let direct = topology.namespace("edge").unwrap();
    let scan = format!("{SCAN} {SERVER}");
    let scan: Vec<&str> = scan.split(' ').collect();
    let direct = eventually("the server", || {
        let found = ports(&direct.run(&scan).unwrap());
        found.contains("8000/open").then_some(found)
    });
    assert!(direct.contains("8001/closed"), "{direct}");
    eventually("the same", || (ports(&run(SCAN)) == direct).then_some(()));
    for line in [BYTES, DATAGRAMS] {
        let said = run(line);
        assert!(is_whole(&said), "{said}");
    }
}

#[test]
fn measurements_through_a_router_that_captures_are_whole() {
    let topology = network::networks();
    let _measures = measures(&topology);
    for capture in ["interfaces: client", "interfaces: client, split: true"] {
        let node = network::node(&topology, capture);
        for server in network::SERVERS {
            for line in [BYTES, DATAGRAMS] {
                let said = eventually("a server that listens", || {
                    let client = topology.namespace("client").unwrap();
                    let line = format!("{line} {server}");
                    client.run(&line.split(' ').collect::<Vec<_>>()).ok()
                });
                assert!(is_whole(&said), "{capture}: {said}");
            }
        }
        node.record(|record| record["target"] == "[fd02::2]:5201");
        // Sessions of datagrams go on for a while.
        let is_session = |exchange: &Value| exchange["kind"] == "connect-udp";
        assert!(node.exchanges().iter().any(is_session));
    }
}
