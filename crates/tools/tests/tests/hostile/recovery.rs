//! Clients that forge frames of a recovered tunnel's other end, at the rate of their link.

use std::net::SocketAddr;
use std::path::PathBuf;

use hermes_tests::eventually::PATIENCE;
use hermes_tests::{Node, Pki, eventually, h3flood, origins, udp};

use crate::standing::MIB;

/// A QUIC connection that carries a flood is to be ended with this (RFC 9114, 8.1).
const EXCESSIVE_LOAD: u64 = 0x107;

/// A node where tunnels of UDP end, which strangers and another node use.
struct Stage {
    end: Node,
    near: Node,
    ca: PathBuf,
    _pki: Pki,
}

impl Stage {
    /// The near node leads to `target`, and its route says so of losses.
    fn start(target: SocketAddr, loss: &str) -> Self {
        let pki = Pki::new();
        let tls = pki.issue(&["127.0.0.1"]).yaml();
        let end = Node::start(
            "end",
            &format!(
                "workers: 1\nlisteners: {{ web: {{ http: 127.0.0.1:0, tls: {{ {tls} }} }} }}\n\
                 routes: [ {{ terminate: true }} ]\negress: {{ allow: [127.0.0.0/8] }}\n"
            ),
        );
        let near = Node::start(
            "near",
            &format!(
                "listeners: {{ rtp: {{ udp: 127.0.0.1:0, target: \"{target}\" }} }}\n\
                 routes: [ {{ to: next, tunnel: {{ loss: {{ by: {loss}, within: 5s }} }} }} ]\n\
                 upstreams: {{ next: {{ endpoints: [\"{}\"], http: 3, tls: {{ ca_file: {} }} }} }}\n",
                end.address("web"),
                pki.ca().display()
            ),
        );
        Self {
            end,
            near,
            ca: pki.ca(),
            _pki: pki,
        }
    }

    /// That someone else's datagrams come back, each in its turn.
    fn others_are_served(&self) {
        let client = udp::Client::connect(self.near.address("rtp"));
        for number in 0..200_u32 {
            let text = number.to_be_bytes();
            client.send(text);
            let answer = client.receive_within(PATIENCE);
            assert_eq!(answer.as_deref(), Some(&text[..]), "datagram {number}");
        }
    }
}

#[test]
fn forged_frames_cost_those_of_their_own_tunnel_alone() {
    let echo = origins::udp_echo(origins::V4);
    let stage = Stage::start(echo.address(), "auto");
    stage.others_are_served();
    let before = stage.end.peak();
    let target = echo.address().to_string();
    let flood = h3flood::start(&stage.ca, stage.end.address("web"), &target, "frames", 1, 4);
    assert_eq!(flood.said["sent"], 40_000);
    stage.others_are_served();
    let cost = stage.end.peak().saturating_sub(before);
    assert!(cost < 24 * MIB, "{cost} bytes");
    drop(flood);
}

#[test]
fn forged_groups_end_the_connection_that_they_come_on_alone() {
    let echo = origins::udp_echo(origins::V4);
    let stage = Stage::start(echo.address(), "groups");
    stage.others_are_served();
    let before = stage.end.peak();
    let target = echo.address().to_string();
    let flood = h3flood::start(
        &stage.ca,
        stage.end.address("web"),
        &target,
        "groups",
        1,
        20_000,
    );
    assert_eq!(flood.said["code"], EXCESSIVE_LOAD, "{}", flood.said);
    // Its record may say no more than that the connection was lost.
    let phrase = flood.said["phrase"].as_str().unwrap_or_default();
    assert!(phrase.contains("groups of datagrams"), "{}", flood.said);
    stage.others_are_served();
    let cost = stage.end.peak().saturating_sub(before);
    assert!(cost < 24 * MIB, "{cost} bytes");
}

#[test]
fn groups_in_disorder_cost_those_of_their_own_tunnel_alone() {
    let echo = origins::udp_echo(origins::V4);
    let stage = Stage::start(echo.address(), "groups");
    stage.others_are_served();
    let before = stage.end.peak();
    let target = echo.address().to_string();
    let flood = h3flood::start(
        &stage.ca,
        stage.end.address("web"),
        &target,
        "disorder",
        1,
        4,
    );
    assert_eq!(flood.said["sent"], 4000);
    assert_eq!(flood.said["ended"], false, "they are of its own sessions");
    eventually("all of them have come", || {
        let open = stage.end.exchanges().into_iter();
        let came = open.filter_map(|exchange| exchange["recovery"]["came_in_groups"].as_u64());
        (came.sum::<u64>() >= 16_000).then_some(())
    });
    stage.others_are_served();
    let cost = stage.end.peak().saturating_sub(before);
    assert!(cost < 24 * MIB, "{cost} bytes");
    drop(flood);
}
