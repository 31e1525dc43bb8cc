//! Connections that a user opens by packets, where these end in user space: they cost what the user's account has, however many tunnels they
//! are spread over.

use hermes_tests::attacks::intercepted::{CONNECTIONS, syn, syns, tunnel};
use hermes_tests::{Echo, Node, eventually};

use crate::standing::{self, MIB};

/// What all connections of one user may cost, in bytes: a quarter of `memory.total`, and their tunnels and exchanges beside that.
const COST: usize = 96 * MIB;

/// Tunnels of one user: fewer than its share of the pool.
const TUNNELS: usize = 60;

fn node(echo: &Echo) -> Node {
    Node::start(
        "edge",
        &format!(
            "
            listeners: {{ overlay: {{ http: 127.0.0.1:0, public: true, insecure_trust: [127.0.0.0/8] }} }}
            routes:
              - match: {{ kind: connect-ip }}
                terminate: {{ intercept: true, pool: 10.7.0.0/24 }}
              - {{ match: {{ kind: connect }}, terminate: echo }}
            upstreams: {{ echo: {{ endpoints: [\"{}\"] }} }}
            ",
            echo.tcp
        ),
    )
}

#[test]
fn connections_of_one_user_cost_a_bounded_sum_over_all_its_tunnels() {
    let echo = Echo::start();
    let node = node(&echo);
    let (mut alice, at_alice) = tunnel(node.address("overlay"), "alice");
    let before = node.peak();
    let mut tunnels = Vec::new();
    for _ in 0..TUNNELS {
        let tunnel = syns(node.address("overlay"), "mallory");
        tunnels.push(tunnel);
    }
    eventually("connections", || {
        let clients = node.status()["devices"][0]["clients"].clone();
        let clients = clients.as_array()?.iter();
        let connections = clients.filter_map(|one| one["connections"].as_u64());
        (connections.sum::<u64>() >= u64::from(CONNECTIONS)).then_some(())
    });
    standing::settled(&node);
    let cost = node.peak().saturating_sub(before);
    assert!(cost < COST, "{cost} bytes: {:#}", node.status());

    // Another user gets a connection meanwhile.
    let opened = eventually("an answer to a segment", || {
        alice.send(syn(at_alice, 20_000));
        let packet = alice.receive();
        (packet.len() >= 40 && packet[9] == 6).then_some(packet)
    });
    assert_eq!(opened[33] & 0x3f, 0x12, "SYN and ACK: {opened:?}");
}
