//! A tunnel that carries less than IPv6 needs, though it does not say so: IPv6 is refused in it, and IPv4 goes on.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv6Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use bytes::{Bytes, BytesMut};
use hermes_lab::topology::Topology;
use hermes_proto::capsule::{CapsuleDecoder, CapsuleType, encode_header};
use hermes_proto::connect_ip::{AddressAssign, AssignedAddress, IpCapsule, RouteAdvertisement};
use hermes_proto::ip::checksum::Sum;
use hermes_proto::ip::{ANY_PROTOCOL, ICMPV6, IpPrefix, IpRange, Packet};
use hermes_tests::Node;

use super::packets::{alice, networks, start};
use super::tunnel_mtu::searched;
use super::within;

/// The end of the tunnel.
const END: Ipv6Addr = Ipv6Addr::new(0xfd07, 0, 0, 0, 0, 0, 0, 1);

/// What ends a tunnel by hand: it assigns addresses, and answers echoes of IPv6, but for those that are longer than it carries.
struct NarrowEnd {
    carries: Arc<AtomicUsize>,
}

impl NarrowEnd {
    fn new(topology: &Topology, carries: usize) -> Self {
        let listening = within(topology, "edge", || {
            TcpListener::bind("10.0.1.2:8443").unwrap()
        });
        let carries = Arc::new(AtomicUsize::new(carries));
        let own = carries.clone();
        thread::spawn(move || {
            for stream in listening.incoming() {
                // A client that is gone has heard enough.
                let _ = serve(stream.unwrap(), &own);
            }
        });
        Self { carries }
    }

    fn widen(&self) {
        self.carries.store(usize::MAX, Ordering::Relaxed);
    }
}

fn serve(mut stream: TcpStream, carries: &AtomicUsize) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.extend(byte);
    }
    stream.write_all(
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: connect-ip\r\nCapsule-Protocol: ?1\r\n\r\n",
    )?;
    stream.write_all(&beginning())?;

    let mut decoder = CapsuleDecoder::new(70_000);
    let mut room = [0; 20_000];
    loop {
        let length = stream.read(&mut room)?;
        if length == 0 {
            return Ok(());
        }
        decoder.push(Bytes::copy_from_slice(&room[..length]));
        while let Ok(Some(capsule)) = decoder.next() {
            // The context of IP packets has a number of one byte.
            if capsule.kind != CapsuleType::Datagram || capsule.value.len() < 2 {
                continue;
            }
            let packet = &capsule.value[1..];
            if packet.len() <= carries.load(Ordering::Relaxed)
                && let Some(answer) = answer(packet)
            {
                let mut output = BytesMut::new();
                encode_header(CapsuleType::Datagram, answer.len() as u64 + 1, &mut output);
                output.extend_from_slice(&[0]);
                output.extend_from_slice(&answer);
                stream.write_all(&output)?;
            }
        }
    }
}

/// Addresses of both families, and all that is behind them.
fn beginning() -> Vec<u8> {
    let prefixes: Vec<IpPrefix> = ["10.7.0.9/32", "fd07::9/128"]
        .iter()
        .map(|text| text.parse().unwrap())
        .collect();
    let assigned = prefixes.iter().map(|prefix| AssignedAddress {
        request_id: 0,
        prefix: *prefix,
    });
    let assign = IpCapsule::Assign(AddressAssign {
        addresses: assigned.collect(),
    });
    let everything = [IpPrefix::ALL_V4, IpPrefix::ALL_V6];
    let routes = everything.map(|prefix| IpRange::of(prefix, ANY_PROTOCOL));
    let routes = IpCapsule::Routes(RouteAdvertisement::of(routes.to_vec()).unwrap());
    [assign.to_bytes(), routes.to_bytes()].concat()
}

/// The answer to an echo request of IPv6.
fn answer(packet: &[u8]) -> Option<Vec<u8>> {
    let parsed = Packet::parse(packet).ok()?;
    let IpAddr::V6(client) = parsed.source() else {
        return None;
    };
    if !parsed.is_echo_request() {
        return None;
    }
    let mut answer = packet.to_vec();
    answer[8..24].copy_from_slice(&END.octets());
    answer[24..40].copy_from_slice(&client.octets());
    answer[40] = 129;
    answer[42..44].fill(0);
    let sum = Sum::default()
        .pseudo_header(END.into(), client.into(), ICMPV6, answer.len() - 40)
        .bytes(&answer[40..])
        .checksum();
    answer[42..44].copy_from_slice(&sum.to_be_bytes());
    Some(answer)
}

fn proof(alice: &Node) -> serde_json::Value {
    alice.status()["devices"][0]["ipv6"].clone()
}

#[test]
fn ipv6_is_refused_in_a_tunnel_that_loses_its_packets_until_it_does_not() {
    let topology = networks();
    let end = NarrowEnd::new(&topology, 1279);
    let node = start(&topology, "alice", &alice("", "http: 1"));
    let network = topology.namespace("alice").unwrap();
    let ping = || network.run(&["ping", "-6", "-c", "1", "-W", "1", "fd07::1"]);
    searched("it is refused", || proof(&node) == "refused");
    // Its senders are told at once, and short packets do not pass, either: what is sent next may be long.
    let said = ping().unwrap_err().to_string();
    assert!(
        said.contains("No route") || said.contains("unreachable"),
        "{said}"
    );
    let log = node.log();
    assert!(log.contains("IPv6 is refused"), "{log}");

    end.widen();
    searched("it is proven", || {
        proof(&node) == "proven" && ping().is_ok()
    });
}

#[test]
fn a_tunnel_whose_end_answers_nothing_is_unproven_and_used() {
    let topology = networks();
    let _end = NarrowEnd::new(&topology, 0);
    let node = start(&topology, "alice", &alice("", "http: 1"));
    searched("it is unproven", || proof(&node) == "unproven");
    let network = topology.namespace("alice").unwrap();
    // No answer comes, and no error: packets pass.
    let said = network.run(&["ping", "-6", "-c", "1", "-W", "1", "fd07::1"]);
    let said = said.unwrap_err().to_string();
    assert!(
        !said.contains("No route") && !said.contains("unreachable"),
        "{said}"
    );
}
