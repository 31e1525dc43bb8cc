//! How the tunnels of a chain end with the node that made them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use hermes_tests::{Gate, Node, origins};

use crate::chains::overlay::{Chains, entry};

/// One way of the path to the first hop: each of four layers that waited for three probe timeouts would take 400 ms for its end.
const DELAY: Duration = Duration::from_millis(80);

#[test]
fn each_tunnel_of_a_node_that_stops_is_ended_and_none_times_out() {
    let chain: &[u8] = &[3; 4];
    let chains = Chains::start(&[&[2]]);
    let gate = Gate::to(chains.hops[0].address("web"));
    gate.delay_answers(DELAY);
    let hops: Vec<SocketAddr> = std::iter::once(gate.address())
        .chain(chains.hops[1..].iter().map(|hop| hop.address("web")))
        .collect();
    let file = entry(&chains.pki, &hops, &[chain]);
    let mut node = Node::start("nested", &format!("{file}drain: 100ms\n"));

    let origin = origins::http();
    let mut tunnel = TcpStream::connect(node.address("chain3333")).unwrap();
    let target = origin.address();
    let connect = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n");
    tunnel.write_all(connect.as_bytes()).unwrap();
    let mut answer = [0; 12];
    tunnel.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");

    node.stop();

    for hop in &chains.hops[..3] {
        let record = hop.record(|record| record["kind"] == "connect-udp");
        assert_eq!(record["reason"], "done", "{record:#}");
    }
}
