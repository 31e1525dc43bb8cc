//! Capsules that are no datagrams, beside QUIC datagrams.

use hermes_tests::capsules::UdpTunnel;
use hermes_tests::gate::Gate;
use hermes_tests::{Node, Pki, origins};

/// Capsules of two bytes.
const CAPSULES: usize = 20_000;

/// A frame of its own for each would double what is sent.
#[test]
fn tiny_capsules_that_are_passed_on_share_their_frames() {
    let (pki, origin) = (Pki::new(), origins::udp_echo(origins::V4));
    let edge = Node::start(
        "edge",
        &format!(
            "listeners: {{ web: {{ http: 127.0.0.1:0, insecure_trust: [127.0.0.0/8], tls: {{ {} }} }} }}\n\
             routes: [ {{ terminate: voice }} ]\nupstreams: {{ voice: {{ endpoints: [\"{}\"] }} }}\n",
            pki.issue(&["127.0.0.1"]).yaml(),
            origin.address()
        ),
    );
    let gate = Gate::to(edge.address("web"));
    let node = Node::start(
        "alice",
        &format!(
            "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\nroutes: [ {{ to: edge }} ]\n\
             upstreams: {{ edge: {{ endpoints: [\"{}\"], http: 3, tls: {{ ca_file: {} }} }} }}\n",
            gate.address(),
            pki.ca().display()
        ),
    );
    let sent = || {
        gate.sent()
            .iter()
            .map(|(_, packet)| packet.len())
            .sum::<usize>()
    };
    let mut tunnel = UdpTunnel::h1(node.address("web"), "VOICE", 1, "").unwrap();
    tunnel.send("first");
    assert_eq!(tunnel.receive(), b"first");
    let before = sent();
    tunnel.send_bytes(&[0x2a, 0].repeat(CAPSULES));
    tunnel.finish();
    assert_eq!(tunnel.rest(), Some(Vec::new()));
    let bytes = sent() - before;
    assert!(
        bytes < 3 * CAPSULES,
        "{bytes} bytes for {CAPSULES} capsules of two"
    );
}
