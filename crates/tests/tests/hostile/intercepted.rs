//! Connections that a user opens by packets, where these end in user space: they cost what the user's account has, however many tunnels they
//! are spread over.

use std::net::Ipv4Addr;

use hermes_tests::capsules::UdpTunnel;
use hermes_tests::{Echo, Node, eventually};

use crate::standing::{self, MIB};

/// What all connections of one user may cost, in bytes: a quarter of `memory.total`, and their tunnels and exchanges beside that.
const COST: usize = 96 * MIB;

/// Tunnels of one user: fewer than its share of the pool.
const TUNNELS: usize = 60;

/// Connections of each that have no answer yet: as many as a stack has.
const CONNECTIONS: u16 = 64;

const TARGET: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

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

/// A tunnel of this user, and its address.
fn tunnel(node: &Node, user: &str) -> (UdpTunnel, Ipv4Addr) {
    let fields = format!("user: {user}\r\n");
    let mut tunnel = eventually("a tunnel", || {
        let path = "/.well-known/masque/ip/*/*/";
        UdpTunnel::h1_for(node.address("overlay"), "connect-ip", path, &fields).ok()
    });
    // ADDRESS_ASSIGN (RFC 9484, section 4.7.1): a request, the version, the address and its length.
    let value = loop {
        let (kind, value) = tunnel.capsule();
        if kind == 1 {
            break value;
        }
    };
    let address: [u8; 4] = value[2..6].try_into().unwrap();
    (tunnel, address.into())
}

/// The checksum of this (RFC 1071).
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2);
    let mut sum: u32 = words
        .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// The first segment of a connection from this port to port 80.
fn syn(from: Ipv4Addr, port: u16) -> Vec<u8> {
    let mut segment = port.to_be_bytes().to_vec();
    segment.extend([0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0x02, 0, 0, 0, 0, 0, 0]);
    let mut sealed = Vec::new();
    sealed.extend(from.octets());
    sealed.extend(TARGET.octets());
    sealed.extend([0, 6, 0, 20]);
    sealed.extend(&segment);
    let sum = checksum(&sealed);
    segment[16..18].copy_from_slice(&sum.to_be_bytes());

    let mut packet = vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0];
    packet.extend(from.octets());
    packet.extend(TARGET.octets());
    let sum = checksum(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend(segment);
    packet
}

#[test]
fn connections_of_one_user_cost_a_bounded_sum_over_all_its_tunnels() {
    let echo = Echo::start();
    let node = node(&echo);
    let (mut alice, at_alice) = tunnel(&node, "alice");
    let before = node.peak();
    let mut tunnels = Vec::new();
    for _ in 0..TUNNELS {
        let (mut tunnel, own) = tunnel(&node, "mallory");
        for port in 0..CONNECTIONS {
            tunnel.send(syn(own, 10_000 + port));
        }
        tunnels.push(tunnel);
    }
    eventually("connections", || {
        let clients = node.status()["devices"][0]["clients"].clone();
        let clients = clients.as_array()?.iter();
        let connections = clients.filter_map(|one| one["connections"].as_u64());
        (connections.sum::<u64>() >= 64).then_some(())
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
