//! Tunnels of IP by hand, whose packets are not what a kernel would send.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use hermes_lab::topology::Topology;
use hermes_tests::capsules::{UdpTunnel, varint};
use hermes_tests::eventually::eventually;
use hermes_tests::ip_packets::{UDP, assigned, checksum, datagram, packet_to};

use super::packets::{edge, networks, start};
use super::within;

/// Capsules of CONNECT-IP (RFC 9484, section 4.7).
const ADDRESS_REQUEST: u64 = 2;
const ROUTE_ADVERTISEMENT: u64 = 3;

/// The last node's address on its device.
const DEVICE: Ipv4Addr = Ipv4Addr::new(10, 7, 0, 1);

/// A tunnel for any packets, of this user.
pub(super) fn tunnel(topology: &Topology, user: &str) -> UdpTunnel {
    // The device is made after the listener: the first may come too early.
    eventually("a tunnel", || {
        within(topology, "alice", || {
            let edge = "10.0.1.2:8443".parse().unwrap();
            let path = "/.well-known/masque/ip/*/*/";
            let fields = format!("user: {user}\r\n");
            UdpTunnel::h1_for(edge, "connect-ip", path, &fields).ok()
        })
    })
}

/// Asks for an address, as request 1; what is given for it.
fn asked(tunnel: &mut UdpTunnel, wish: Ipv4Addr) -> Ipv4Addr {
    let mut request = varint(1);
    request.push(4);
    request.extend(wish.octets());
    request.push(32);
    tunnel.send_capsule(ADDRESS_REQUEST, &request);
    eventually("an answer to the request", || {
        let answers = assigned(tunnel);
        let mut answers = answers.into_iter().filter(|(request, _)| *request == 1);
        answers.next().map(|(_, address)| address)
    })
}

/// A packet of IPv4 to the device. `fragment` is its field of flags and offset (RFC 791, section 3.1).
fn packet(source: Ipv4Addr, fragment: u16, content: &[u8]) -> Vec<u8> {
    packet_to([source, DEVICE], UDP, fragment, content)
}

/// What takes the datagrams at the last node.
fn receiver(topology: &Topology) -> UdpSocket {
    let socket = within(topology, "edge", || {
        UdpSocket::bind((DEVICE, 6000)).unwrap()
    });
    socket
        .set_read_timeout(Some(Duration::from_secs(15)))
        .unwrap();
    socket
}

pub(super) fn received(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut room = [0; 4096];
    let (length, from) = socket.recv_from(&mut room).unwrap();
    (room[..length].to_vec(), from)
}

#[test]
fn malformed_packets_are_dropped_and_their_tunnel_stays() {
    let topology = networks();
    let edge = start(&topology, "edge", &edge(""));
    let mut tunnel = tunnel(&topology, "alice");
    let own = assigned(&mut tunnel)[0].1;
    let ends = receiver(&topology);

    let good = packet(own, 0, &datagram(b"malformed"));
    let changed = |at: usize, to: u8| {
        let mut bad = good.clone();
        bad[at] = to;
        bad[10..12].fill(0);
        let sum = checksum(&bad[..20]);
        bad[10..12].copy_from_slice(&sum.to_be_bytes());
        bad
    };
    let wrong = [
        Vec::new(),
        good[..1].to_vec(),
        good[..19].to_vec(),
        good[..good.len() - 1].to_vec(),
        // The version, the length of the header, and that of the packet: too short, and too long.
        changed(0, 0x55),
        changed(0, 0x44),
        changed(0, 0x4f),
        changed(3, 19),
        changed(2, 0xff),
    ];
    for bad in &wrong {
        tunnel.send(bad);
    }

    tunnel.send(packet(own, 0, &datagram(b"honest")));
    let (payload, from) = received(&ends);
    assert_eq!(payload, b"honest");
    assert_eq!(from.ip(), own);

    tunnel.finish();
    let record = edge.record(|record| record["status"] == 101 && record["event"] == "end");
    assert_eq!(record["datagrams"]["dropped"], wrong.len(), "{record:#}");
}

#[test]
fn fragments_pass_and_are_put_together_by_who_gets_them() {
    let topology = networks();
    let _edge = start(&topology, "edge", &edge(""));
    let mut tunnel = tunnel(&topology, "alice");
    let own = assigned(&mut tunnel)[0].1;
    let ends = receiver(&topology);

    let payload: Vec<u8> = (0..2000_u32).map(|at| (at % 251) as u8).collect();
    let whole = datagram(&payload);
    let (first, last) = whole.split_at(1000);
    const MORE: u16 = 0x2000;
    // The last comes first; offsets count eight bytes.
    tunnel.send(packet(own, 1000 / 8, last));
    tunnel.send(packet(own, MORE, first));
    assert!(received(&ends).0 == payload);
}

#[test]
fn a_flood_of_what_does_not_pass_does_not_stop_what_does() {
    let topology = networks();
    let edge = start(&topology, "edge", &edge(""));
    let mut flood = tunnel(&topology, "mallory");
    let mut tunnel = tunnel(&topology, "alice");
    let own = assigned(&mut tunnel)[0].1;
    let ends = receiver(&topology);

    let spoofed = packet(Ipv4Addr::new(10, 0, 2, 2), 0, &datagram(b"spoofed"));
    for _ in 0..20_000 {
        flood.send(&spoofed);
    }
    tunnel.send(packet(own, 0, &datagram(b"honest")));
    assert_eq!(received(&ends).0, b"honest");

    // Nothing of the flood came through, and its sender can still use its tunnel.
    let other = assigned(&mut flood)[0].1;
    flood.send(packet(other, 0, &datagram(b"sorry")));
    let (payload, from) = received(&ends);
    assert_eq!(
        (payload.as_slice(), from.ip()),
        (&b"sorry"[..], other.into())
    );
    assert!(edge.metrics().contains("hermes_datagrams_dropped_total"));
}

#[test]
fn of_two_tunnels_that_claim_one_address_the_first_has_it() {
    let topology = networks();
    let _edge = start(&topology, "edge", &edge(""));
    let claimed = Ipv4Addr::new(10, 7, 0, 50);
    let mut first = tunnel(&topology, "alice");
    assert_eq!(asked(&mut first, claimed), claimed);

    // Neither a request nor a route (RFC 9484, section 4.7.3) takes it away.
    let mut second = tunnel(&topology, "mallory");
    let other = asked(&mut second, claimed);
    assert_ne!(other, claimed);
    let mut route = vec![4];
    route.extend(claimed.octets());
    route.extend(claimed.octets());
    route.push(0);
    second.send_capsule(ROUTE_ADVERTISEMENT, &route);

    let ends = receiver(&topology);
    second.send(packet(claimed, 0, &datagram(b"stolen")));
    second.send(packet(other, 0, &datagram(b"own")));
    let (payload, from) = received(&ends);
    assert_eq!((payload.as_slice(), from.ip()), (&b"own"[..], other.into()));

    ends.send_to(b"for alice", (claimed, 5000)).unwrap();
    let came = first.receive();
    assert!(came.ends_with(b"for alice"), "{came:?}");
}
