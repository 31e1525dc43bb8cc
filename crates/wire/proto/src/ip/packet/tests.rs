//! Packets as the specifications draw them, and those that they forbid.

use proptest::prelude::*;

use super::*;
use crate::ip::ICMPV6;
use crate::ip::sample::{Sample, tcp, udp4, udp6};

fn error(packet: &[u8]) -> PacketError {
    Packet::parse(packet).unwrap_err()
}

#[test]
fn a_udp_packet_is_read_up_to_its_ports() {
    for bytes in [udp4(b"hello"), udp6(b"hello")] {
        let packet = Packet::parse(&bytes).unwrap();
        assert_eq!(packet.protocol(), UDP);
        assert_eq!(packet.flow().source_port, 12_345);
        assert_eq!(packet.flow().destination_port, 443);
        assert_eq!(packet.hop_limit(), 64);
        assert_eq!(packet.fragment(), Fragment::Whole);
        assert_eq!(&packet.payload()[8..], b"hello");
        assert!(!packet.is_tcp_syn());
    }
    assert!(Packet::parse(&udp6(b"")).unwrap().keeps_whole());
    assert!(!Packet::parse(&udp4(b"")).unwrap().keeps_whole());
}

#[test]
fn the_segment_that_opens_a_connection_is_known() {
    for is_ipv4 in [true, false] {
        let opens = |flags| {
            Packet::parse(&tcp(is_ipv4, flags, &[], b""))
                .unwrap()
                .is_tcp_syn()
        };
        assert!(opens(0x02) && opens(0x12));
        assert!(!opens(0x10) && !opens(0x04));
    }
}

#[test]
fn lengths_are_exact() {
    for packet in [udp4(b"hello"), udp6(b"hello")] {
        let mut longer = packet.clone();
        longer.push(0);
        let said = packet.len();
        let actual = said + 1;
        assert_eq!(error(&longer), PacketError::Length { said, actual });
        let actual = said - 1;
        assert_eq!(
            error(&packet[..actual]),
            PacketError::Length { said, actual }
        );
        assert_eq!(error(&packet[..8]), PacketError::Truncated);
    }
    assert_eq!(error(&[]), PacketError::Version);
    assert_eq!(error(&[0x50; 60]), PacketError::Version);
}

#[test]
fn a_damaged_header_of_ipv4_is_found() {
    let mut packet = udp4(b"hello");
    packet[12] ^= 1;
    assert_eq!(error(&packet), PacketError::Checksum);
    let mut short = udp4(b"hello");
    short[0] = 0x44;
    assert_eq!(error(&short), PacketError::Truncated);
}

#[test]
fn options_are_walked_and_source_routes_refused() {
    let with = |options: &[u8]| Sample::v4().options(options).carries(UDP, &[0; 8]);
    // Router alert, between fillers.
    let packet = with(&[1, 148, 4, 0, 0, 1, 0, 0]);
    assert_eq!(Packet::parse(&packet).unwrap().header_length(), 28);
    for route in [131, 137] {
        assert_eq!(error(&with(&[1, route, 3, 4])), PacketError::SourceRouted);
    }
    for bad in [[7, 1, 0, 0], [7, 5, 0, 0], [1, 1, 1, 7]] {
        assert_eq!(error(&with(&bad)), PacketError::Options);
    }
    // Behind the end, nothing is an option.
    assert!(Packet::parse(&with(&[0, 131, 3, 4])).is_ok());
}

#[test]
fn extension_headers_are_walked_to_the_transport() {
    let headers = [
        &[60, 0, 1, 4, 0, 0, 0, 0][..],
        &[51, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[UDP, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0],
    ]
    .concat();
    let packet = Sample::v6()
        .extensions(0, &headers)
        .carries(UDP, &udp6(b"x")[40..]);
    let packet = Packet::parse(&packet).unwrap();
    assert_eq!(packet.protocol(), UDP);
    assert_eq!(packet.header_length(), 40 + headers.len());
    assert_eq!(packet.flow().destination_port, 443);
}

#[test]
fn extension_headers_that_are_not_allowed_are_refused() {
    let with = |first: u8, headers: &[u8]| Sample::v6().extensions(first, headers).carries(0, b"");
    let filler = [60, 0, 1, 4, 0, 0, 0, 0];
    assert_eq!(
        error(&with(60, &filler.repeat(20))),
        PacketError::Extensions
    );
    // Hop-by-hop options behind another header.
    let late = [&[0, 0, 1, 4, 0, 0, 0, 0], &filler[..]].concat();
    assert_eq!(error(&with(60, &late)), PacketError::Extensions);
    // A routing header of any type with hops to go, and one that has arrived.
    for kind in [0, 2, 3, 4] {
        let routed = [UDP, 0, kind, 1, 0, 0, 0, 0];
        assert_eq!(error(&with(43, &routed)), PacketError::SourceRouted);
    }
    let arrived = [59, 0, 3, 0, 0, 0, 0, 0];
    assert_eq!(Packet::parse(&with(43, &arrived)).unwrap().protocol(), 59);
    // Cut off.
    assert_eq!(
        error(&with(60, &[17, 1, 1, 4, 0, 0, 0, 0])),
        PacketError::Truncated
    );
    assert_eq!(error(&with(60, &[17])), PacketError::Truncated);
    assert_eq!(error(&with(43, &[17, 0])), PacketError::Truncated);
    assert_eq!(error(&with(44, &[17, 0, 0])), PacketError::Truncated);
    // Twice a fragment.
    let twice = [44, 0, 0, 0, 0, 0, 0, 1, 17, 0, 0, 9, 0, 0, 0, 1];
    let twice = [&twice[..], &[0; 8]].concat();
    assert_eq!(
        Packet::parse(&with(44, &twice)).unwrap_err(),
        PacketError::Fragment
    );
}

#[test]
fn of_a_fragment_only_the_first_has_ports() {
    for sample in [Sample::v4(), Sample::v6()] {
        let datagram = &udp4(&[7; 16])[20..];
        let first = sample.clone().fragment(0, true).carries(UDP, datagram);
        let first = Packet::parse(&first).unwrap();
        assert_eq!(first.fragment(), Fragment::First);
        assert_eq!(first.flow().destination_port, 443);

        let later = sample.clone().fragment(64, false).carries(UDP, datagram);
        let later = Packet::parse(&later).unwrap();
        assert_eq!(later.fragment(), Fragment::Later);
        assert_eq!(later.protocol(), UDP);
        assert_eq!(later.flow().destination_port, 0);
    }
}

#[test]
fn fragments_that_hide_or_overwrite_are_refused() {
    for sample in [Sample::v4(), Sample::v6()] {
        let fragment = |offset, more, protocol, length| {
            let payload = vec![0; length];
            sample
                .clone()
                .fragment(offset, more)
                .carries(protocol, &payload)
        };
        // Too small for the flags of TCP, or for the header of UDP.
        assert_eq!(error(&fragment(0, true, TCP, 8)), PacketError::Fragment);
        assert!(Packet::parse(&fragment(0, true, TCP, 24)).is_ok());
        // Over the flags of the first.
        assert_eq!(error(&fragment(8, false, TCP, 24)), PacketError::Fragment);
        // No whole units, and beyond the longest packet.
        assert_eq!(error(&fragment(64, true, UDP, 23)), PacketError::Fragment);
        assert_eq!(
            error(&fragment(65_528, false, UDP, 24)),
            PacketError::Fragment
        );
        // Headers that go on in the next.
        let chain = sample
            .clone()
            .fragment(0, true)
            .carries(60, &[17, 9, 0, 0, 0, 0, 0, 0]);
        let parsed = Packet::parse(&chain).map(|packet| packet.is_ipv4());
        assert!(matches!(parsed, Ok(true) | Err(PacketError::Fragment)));
    }
}

#[test]
fn a_transport_that_is_cut_off_is_refused() {
    for (protocol, least) in [(TCP, 20), (UDP, 8), (132, 4), (33, 4), (136, 4)] {
        for sample in [Sample::v4(), Sample::v6()] {
            let with = |length| sample.carries(protocol, &vec![0; length]);
            assert_eq!(error(&with(least - 1)), PacketError::Transport);
            assert!(Packet::parse(&with(least)).is_ok());
        }
    }
    let empty = Sample::v6().carries(ICMPV6, b"");
    assert!(Packet::parse(&empty).is_ok());
}

proptest! {
    #[test]
    fn any_payload_is_found_again(payload in prop::collection::vec(any::<u8>(), 0..64), is_ipv4: bool) {
        let bytes = if is_ipv4 { udp4(&payload) } else { udp6(&payload) };
        let packet = Packet::parse(&bytes).unwrap();
        prop_assert_eq!(&packet.payload()[8..], &payload[..]);
        prop_assert_eq!(packet.bytes(), &bytes[..]);
    }

    #[test]
    fn keeps_its_invariants(bytes in prop::collection::vec(any::<u8>(), 0..96), version in prop_oneof![Just(0x40_u8), Just(0x60)]) {
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() {
            *first = version | (*first & 0x0f);
        }
        crate::ip::fuzz_one(&bytes);
    }
}
