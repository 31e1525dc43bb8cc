//! Connections by packets, where these end in user space: they have buffers before anyone has answered.

use std::net::{Ipv4Addr, SocketAddr};

use super::{Attack, Effort, Party, Place, Stage};
use crate::capsules::UdpTunnel;
use crate::ip_packets::{TCP, UDP, assigned, checksum, packet_to};
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
    let address = assigned(&mut tunnel)[0].1;
    (tunnel, address)
}

/// Flags of TCP (RFC 9293, section 3.1).
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;

/// Bytes of content in a segment, and on a connection: less than any window.
const SEGMENT: usize = 1200;
const CONTENT: usize = 60_000;

/// A segment of TCP to port 80 that announces no window.
struct Segment<'a> {
    from: Ipv4Addr,
    port: u16,
    number: u32,
    acknowledged: u32,
    flags: u8,
    content: &'a [u8],
}

impl Segment<'_> {
    fn packet(&self) -> Vec<u8> {
        let mut segment = self.port.to_be_bytes().to_vec();
        segment.extend(80_u16.to_be_bytes());
        segment.extend(self.number.to_be_bytes());
        segment.extend(self.acknowledged.to_be_bytes());
        segment.extend([0x50, self.flags, 0, 0, 0, 0, 0, 0]);
        segment.extend(self.content);
        let sum = transport_sum(self.from, TCP, &segment);
        segment[16..18].copy_from_slice(&sum.to_be_bytes());
        packet_to([self.from, TARGET], TCP, 0, &segment)
    }
}

/// The checksum over a segment or datagram with its pseudo-header.
fn transport_sum(from: Ipv4Addr, protocol: u8, bytes: &[u8]) -> u16 {
    let mut sealed = Vec::new();
    sealed.extend(from.octets());
    sealed.extend(TARGET.octets());
    sealed.extend([0, protocol]);
    sealed.extend((bytes.len() as u16).to_be_bytes());
    sealed.extend(bytes);
    checksum(&sealed)
}

/// The first segment of a connection from this port to port 80.
pub fn syn(from: Ipv4Addr, port: u16) -> Vec<u8> {
    let first = Segment {
        from,
        port,
        number: 1,
        acknowledged: 0,
        flags: SYN,
        content: b"",
    };
    first.packet()
}

/// A segment that ends the connection that [`syn`] began from this port to port 80.
pub fn reset(from: Ipv4Addr, port: u16) -> Vec<u8> {
    let last = Segment {
        from,
        port,
        number: 2,
        acknowledged: 0,
        flags: RST,
        content: b"",
    };
    last.packet()
}

/// A datagram of UDP from this port to port 53.
pub fn datagram(from: Ipv4Addr, port: u16, content: &[u8]) -> Vec<u8> {
    let mut datagram = port.to_be_bytes().to_vec();
    datagram.extend(53_u16.to_be_bytes());
    datagram.extend((8 + content.len() as u16).to_be_bytes());
    datagram.extend([0, 0]);
    datagram.extend(content);
    let sum = transport_sum(from, UDP, &datagram);
    datagram[6..8].copy_from_slice(&sum.to_be_bytes());
    packet_to([from, TARGET], UDP, 0, &datagram)
}

/// The fate of connections with much content.
#[derive(Debug, Default, Clone, Copy)]
pub struct Uploads {
    /// Those that were opened.
    pub open: usize,
    /// Those that were refused.
    pub refused: usize,
}

/// A tunnel of this user that opens as many connections as it may have, and sends as much on each as its window takes.
pub fn uploads(proxy: SocketAddr, user: &str) -> (UdpTunnel, Uploads) {
    let (mut tunnel, own) = tunnel(proxy, user);
    for port in 0..CONNECTIONS {
        tunnel.send(syn(own, 10_000 + port));
    }

    let mut uploads = Uploads::default();
    while uploads.open + uploads.refused < usize::from(CONNECTIONS) {
        let Some(answer) = tunnel.receive_soon() else {
            break;
        };
        if answer.len() < 40 || answer[9] != 6 {
            continue;
        }
        if answer[33] & (SYN | ACK) == SYN | ACK {
            uploads.open += 1;
            upload(&mut tunnel, own, &answer);
        } else if answer[33] & RST > 0 {
            uploads.refused += 1;
        }
    }
    (tunnel, uploads)
}

/// Answers the opening of a connection, and sends on it.
fn upload(tunnel: &mut UdpTunnel, own: Ipv4Addr, answer: &[u8]) {
    let port = u16::from_be_bytes([answer[22], answer[23]]);
    let theirs: [u8; 4] = answer[24..28].try_into().unwrap();
    let acknowledged = u32::from_be_bytes(theirs).wrapping_add(1);
    for place in (0..CONTENT).step_by(SEGMENT) {
        let segment = Segment {
            from: own,
            port,
            number: 2 + place as u32,
            acknowledged,
            flags: ACK,
            content: &[b'z'; SEGMENT],
        };
        tunnel.send(segment.packet());
    }
}
