//! Connections by packets, where these end in user space: they have buffers before anyone has answered.

use std::net::{Ipv4Addr, SocketAddr};

use super::{Attack, Effort, Party, Place, Stage};
use crate::capsules::UdpTunnel;
use crate::{Echo, eventually};

/// Tunnels of one user: fewer than its share of the pool.
const TUNNELS: usize = 60;

/// Connections of each that have no answer yet: as many as a stack has.
pub const CONNECTIONS: u16 = 64;

const TARGET: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

/// Many tunnels, each with as many connections as it may have.
pub(super) const OPENINGS: Attack = Attack {
    name: "intercepted-openings",
    by: Party::User,
    place: Place::Loopback,
    summary: "60 tunnels of one user with 64 segments each that open a connection in user space",
    prepare,
    run,
};

fn prepare() -> Stage {
    let echo = Echo::start();
    let upstreams = format!("upstreams: {{ echo: {{ endpoints: [\"{}\"] }} }}", echo.tcp);
    Stage::start(
        "overlay: { http: 127.0.0.1:0, public: true, insecure_trust: [127.0.0.0/8] }",
        "{ match: { kind: connect-ip }, terminate: { intercept: true, pool: 10.7.0.0/24 } }, \
         { match: { kind: connect }, terminate: echo }",
        &upstreams,
    )
    .keeping(echo)
}

fn run(stage: &Stage) -> Effort {
    let mut effort = Effort::default();
    for _ in 0..TUNNELS {
        effort.hold(syns(stage.node.address("overlay"), "mallory"));
        effort.attempts += u64::from(CONNECTIONS);
        effort.bytes += 40 * u64::from(CONNECTIONS);
    }

    effort
}

/// A tunnel of this user that opens as many connections as it may have.
pub fn syns(proxy: SocketAddr, user: &str) -> UdpTunnel {
    let (mut tunnel, own) = tunnel(proxy, user);
    for port in 0..CONNECTIONS {
        tunnel.send(syn(own, 10_000 + port));
    }
    tunnel
}

/// A tunnel of this user, and its address.
///
/// # Panics
/// When it does not get one.
pub fn tunnel(proxy: SocketAddr, user: &str) -> (UdpTunnel, Ipv4Addr) {
    let fields = format!("user: {user}\r\n");
    let mut tunnel = eventually("a tunnel", || {
        let path = "/.well-known/masque/ip/*/*/";
        UdpTunnel::h1_for(proxy, "connect-ip", path, &fields).ok()
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
pub fn syn(from: Ipv4Addr, port: u16) -> Vec<u8> {
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
