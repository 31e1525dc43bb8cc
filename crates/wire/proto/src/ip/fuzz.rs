//! Invariants of arbitrary bytes that are accepted as a packet.

use std::net::{IpAddr, Ipv6Addr};

use super::checksum::checksum;
use super::{
    DUMMY_ROUTER_V4, Fragment, IcmpError, IcmpReport, MIN_MTU_V6, Packet, clamp_mss,
    decrement_hop_limit,
};

/// Reads arbitrary bytes as a packet, as they are and with their lengths and the checksum of IPv4 mended: forwarding changes the hop
/// limit only, an error about it is a packet about which there is no error, and a segment keeps its length.
pub(crate) fn fuzz_one(data: &[u8]) {
    examine(data);
    examine(&mended(data));
}

fn examine(data: &[u8]) {
    let Ok(packet) = Packet::parse(data) else {
        return;
    };
    assert_eq!(packet.bytes(), data);
    assert!(packet.header_length() <= data.len());
    assert!(data.len() <= 40 + 65_535);

    let mut next = data.to_vec();
    match decrement_hop_limit(&mut next) {
        Ok(left) => {
            let forwarded = Packet::parse(&next);
            let Ok(forwarded) = forwarded else {
                panic!("a forwarded packet is one: {forwarded:?}");
            };
            assert_eq!(forwarded.flow(), packet.flow());
            assert_eq!(left + 1, packet.hop_limit());
        }
        Err(_) => assert!(packet.hop_limit() <= 1 && next == data),
    }

    if packet.is_tcp_syn() {
        let lowered = clamp_mss(&mut next, packet.header_length(), MIN_MTU_V6, true);
        assert!(lowered.is_none_or(|asked| usize::from(asked) > MIN_MTU_V6 - 60));
        assert_eq!(
            Packet::parse(&next).map(|packet| packet.flow()),
            Ok(packet.flow())
        );
    }
    if let Some(report) = IcmpReport::parse(&packet) {
        assert!(packet.is_icmp_error() && report.transport.len() >= 8);
    }
    examine_error(&packet);
}

fn examine_error(packet: &Packet<'_>) {
    let from = match packet.is_ipv4() {
        true => DUMMY_ROUTER_V4.into(),
        false => IpAddr::V6(Ipv6Addr::LOCALHOST),
    };
    let Some(error) = IcmpError::NoRoute.about(packet, from) else {
        return;
    };

    assert_ne!(packet.fragment(), Fragment::Later);
    assert!(error.len() <= MIN_MTU_V6);
    let parsed = Packet::parse(&error);
    let Ok(parsed) = parsed else {
        panic!("an error is a packet: {parsed:?}");
    };
    assert_eq!(parsed.destination(), packet.source());
    assert_eq!(IcmpError::NoRoute.about(&parsed, from), None);
}

/// The bytes with the lengths that they have, and a checksum that is right.
fn mended(data: &[u8]) -> Vec<u8> {
    let mut bytes = data.to_vec();
    let length = u16::try_from(bytes.len()).unwrap_or(0);
    match bytes.first().map(|byte| byte >> 4) {
        Some(4) if bytes.len() >= 20 => {
            let header = (usize::from(bytes[0] & 0x0f) * 4).clamp(20, bytes.len());
            bytes[2..4].copy_from_slice(&length.to_be_bytes());
            bytes[10..12].fill(0);
            let sum = checksum(&bytes[..header]);
            bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        Some(6) if bytes.len() >= 40 => {
            bytes[4..6].copy_from_slice(&(length - 40).to_be_bytes());
        }
        _ => {}
    }
    bytes
}
