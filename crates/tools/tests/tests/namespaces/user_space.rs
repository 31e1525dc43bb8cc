//! Connections and datagrams that a node without rights sends as IP packets, to nodes that end these at a device or in user space.

use std::net::{TcpStream, UdpSocket};

use hermes_lab::topology::Topology;
use hermes_tests::eventually::eventually;
use hermes_tests::{Node, program};

use super::intercept::{PATIENCE, SERVER, ask, interceptor, names, start_without_rights, web};
use super::packets::{bulk_by, edge, networks, start};
use super::{command, within};

/// Alice's machine, where she may make no device.
const ALICE: &str = "
    identity: { user: alice }
    log: { access: { file: access.json } }
    listeners:
      office: { tun: { name: office, stack: true } }
      web: { tcp: 127.0.0.1:8000, target: 10.0.2.2:8000 }
      bulk: { tcp: 127.0.0.1:5000, target: 10.0.2.2:5000 }
      closed: { tcp: 127.0.0.1:9000, target: 10.0.2.2:9 }
      names: { udp: 127.0.0.1:5353, target: 10.0.2.2:53 }
    routes:
      - { match: { kind: connect-ip }, to: edge }
      - { match: { kind: [connect, connect-udp] }, terminate: { ip: office } }
    upstreams: { edge: { endpoints: [10.0.1.2:8443], http: 2 } }
";

/// What Alice reaches by her listeners, whatever ends her packets.
fn reaches_the_server(topology: &Topology, alice: &Node) {
    let folder = tempfile::tempdir().unwrap();
    let _web = web(topology, folder.path());
    let _names = names(topology);

    let network = topology.namespace("alice").unwrap();
    let curl = std::env::var("HERMES_CURL").unwrap();
    let page = eventually("the page", || {
        let url = "http://127.0.0.1:8000/hello";
        network.run(&[&curl, "-sf", "-m", "10", url]).ok()
    });
    assert_eq!(page, "hello from the other side");
    bulk_by(topology, "server", "10.0.2.2:5000", "127.0.0.1:5000");

    let asking = within(topology, "alice", || {
        UdpSocket::bind("127.0.0.1:0").unwrap()
    });
    asking.set_read_timeout(Some(PATIENCE)).unwrap();
    let server = "127.0.0.1:5353".parse().unwrap();
    let answer = eventually("an answer", || ask(&asking, server));
    assert!(answer.ends_with(&[192, 0, 2, 7]), "{answer:?}");

    // Where no one listens, the client hears of it.
    let mut refused = within(topology, "alice", || {
        TcpStream::connect("127.0.0.1:9000").unwrap()
    });
    refused.set_read_timeout(Some(PATIENCE)).unwrap();
    let ended = std::io::Read::read(&mut refused, &mut [0; 1]);
    assert_eq!(
        ended.unwrap_err().kind(),
        std::io::ErrorKind::ConnectionReset
    );
    let record = alice.record(|record| record["listener"] == "closed");
    let reason = record["reason"].as_str().unwrap();
    assert!(reason.starts_with("connection_refused"), "{record:#}");
    let record = alice.record(|record| record["listener"] == "web" && record["status"] == 200);
    assert_eq!(record["endpoint"], "10.0.2.2:8000", "{record:#}");

    let device = alice.status()["devices"][0].clone();
    assert_eq!(device["name"], "office", "{device:#}");
    let address = device["addresses"][0].as_str().unwrap();
    assert!(address.starts_with("10.7.0."), "{device:#}");
}

#[test]
fn a_client_without_rights_reaches_what_is_behind_a_device() {
    let topology = networks();
    let _edge = start(&topology, "edge", &edge(""));
    let alice = start_without_rights(&topology, "alice", ALICE);
    reaches_the_server(&topology, &alice);
}

#[test]
fn a_client_without_rights_reaches_what_is_behind_a_node_without_rights() {
    let topology = networks();
    let edge = start_without_rights(&topology, "edge", &interceptor(""));
    let alice = start_without_rights(&topology, "alice", ALICE);
    reaches_the_server(&topology, &alice);
    let target = format!("{SERVER}:8000");
    let record = edge.record(|record| record["target"] == *target && record["status"] == 200);
    assert_eq!(record["user"], "alice", "{record:#}");
}

#[test]
fn connections_go_on_when_the_tunnel_finds_its_address_again() {
    let topology = networks();
    let folder = tempfile::tempdir().unwrap();
    let yaml = edge("").replace(
        "pool:",
        &format!(
            "leases_file: {}, pool:",
            folder.path().join("leases").display()
        ),
    );
    let mut edge = start(&topology, "edge", &yaml);
    let alice = start_without_rights(&topology, "alice", ALICE);
    let has_tunnel = |alice: &Node| {
        let device = alice.status()["devices"][0].clone();
        device["since"]
            .as_str()
            .map(|_| device["addresses"][0].clone())
    };
    let before = eventually("a tunnel", || has_tunnel(&alice));

    let listening = within(&topology, "server", || {
        std::net::TcpListener::bind("10.0.2.2:5000").unwrap()
    });
    let mut client = within(&topology, "alice", || {
        TcpStream::connect("127.0.0.1:5000").unwrap()
    });
    let mut server = listening.accept().unwrap().0;
    server.set_read_timeout(Some(PATIENCE)).unwrap();

    // The end of the tunnel is gone, and there again.
    edge.kill();
    let hermes = program::path();
    edge.restart_by(command(&topology, "edge", hermes.to_str().unwrap()));
    std::io::Write::write_all(&mut client, b"still here").unwrap();
    let mut came = [0; 10];
    std::io::Read::read_exact(&mut server, &mut came).unwrap();
    assert_eq!(&came, b"still here");
    assert_eq!(eventually("a tunnel", || has_tunnel(&alice)), before);
}
