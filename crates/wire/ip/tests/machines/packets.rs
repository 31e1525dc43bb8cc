//! Packets to send through the machines.

use std::net::IpAddr;

use hermes_proto::ip::checksum::{Sum, checksum};

/// A packet of any protocol; the checksum of its transport is not computed.
pub fn packet(source: &str, destination: &str, protocol: u8, payload: &[u8]) -> Vec<u8> {
    with_hops(source, destination, protocol, payload, 64)
}

pub fn with_hops(
    source: &str,
    destination: &str,
    protocol: u8,
    payload: &[u8],
    hops: u8,
) -> Vec<u8> {
    let source: IpAddr = source.parse().unwrap();
    let destination: IpAddr = destination.parse().unwrap();
    let mut packet = Vec::new();
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            packet.extend([0x45, 0]);
            packet.extend((20 + payload.len() as u16).to_be_bytes());
            packet.extend([0, 0, 0x40, 0, hops, protocol, 0, 0]);
            packet.extend(source.octets());
            packet.extend(destination.octets());
            let sum = checksum(&packet);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            packet.extend([0x60, 0, 0, 0]);
            packet.extend((payload.len() as u16).to_be_bytes());
            packet.extend([protocol, hops]);
            packet.extend(source.octets());
            packet.extend(destination.octets());
        }
        _ => panic!("both ends are of one family"),
    }
    packet.extend(payload);
    packet
}

/// A UDP packet to port 443.
pub fn udp(source: &str, destination: &str) -> Vec<u8> {
    packet(
        source,
        destination,
        17,
        &[0x30, 0x39, 1, 0xbb, 0, 12, 0, 0, 1, 2, 3, 4],
    )
}

/// An echo request.
pub fn ping(source: &str, destination: &str) -> Vec<u8> {
    match source.contains(':') {
        false => packet(source, destination, 1, &[8, 0, 0, 0, 0, 1, 0, 1]),
        true => {
            let [from, to] = [source, destination].map(|text| text.parse().unwrap());
            let mut echo = [128, 0, 0, 0, 0, 1, 0, 1];
            let sum = Sum::default().pseudo_header(from, to, 58, 8).bytes(&echo);
            echo[2..4].copy_from_slice(&sum.checksum().to_be_bytes());
            packet(source, destination, 58, &echo)
        }
    }
}
