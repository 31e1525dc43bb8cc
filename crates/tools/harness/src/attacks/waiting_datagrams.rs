//! Datagrams of many sources that wait for a tunnel over a silent next hop.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use super::{Attack, Effort, Party, Place, Stage};
use crate::origins;

/// Addresses of the attacker, each with a port.
const SOURCES: u16 = 3_000;

/// Datagrams of each.
const DATAGRAMS: usize = 130;

/// Bytes of each datagram.
const BYTES: usize = 1_200;

/// As a forger of source addresses does it.
pub(super) const FORGED: Attack = Attack {
    name: "waiting-datagrams",
    by: Party::Stranger,
    place: Place::Loopback,
    summary: "3,000 sources send 156 kB each to a `udp` listener whose next hop is silent",
    prepare,
    run,
};

fn prepare() -> Stage {
    let silent = origins::tcp_silent();
    let upstream = format!(
        "upstreams: {{ next: {{ endpoints: [\"{}\"], http: 2 }} }}",
        silent.address()
    );
    Stage::start(
        "voice: { udp: 127.0.0.1:0, target: \"VOICE:5004\" }",
        "{ to: next }",
        &upstream,
    )
    .keeping(silent)
}

fn run(stage: &Stage) -> Effort {
    let address = stage.node.address("voice");
    let mut effort = Effort::default();
    for number in 0..SOURCES {
        let [high, low] = number.to_be_bytes();
        let source = Ipv4Addr::new(127, 1, high, low);
        let sent = send_from(source, address, DATAGRAMS, BYTES);
        effort.bytes += sent * BYTES as u64;
        effort.attempts += sent;
    }

    effort
}

/// Sends so many datagrams of so many bytes from this address; how many left.
///
/// # Panics
/// When it has no port.
pub fn send_from(source: Ipv4Addr, to: SocketAddr, datagrams: usize, bytes: usize) -> u64 {
    let socket = UdpSocket::bind((source, 0)).unwrap();
    let datagram = vec![7; bytes];
    let sent = (0..datagrams).filter(|_| socket.send_to(&datagram, to).is_ok());
    sent.count() as u64
}
