//! A device that tunnels share, and packets with translated addresses.

use hermes_ip::{DeviceAddresses, OtherAddress, Translation};
use hermes_proto::ip::checksum::{Sum, checksum};
use hermes_proto::ip::{IcmpError, IpPrefix, Packet};
use proptest::prelude::*;

use super::packets::packet;

fn prefix(text: &str) -> IpPrefix {
    text.parse().unwrap()
}

fn written(prefixes: &[IpPrefix]) -> Vec<String> {
    prefixes.iter().map(ToString::to_string).collect()
}

#[test]
fn the_first_tunnel_gives_the_address_and_the_others_are_asked_for_it() {
    let mut device = DeviceAddresses::default();
    assert_eq!(
        written(&device.wishes(true, true)),
        ["0.0.0.0/32", "::/128"]
    );
    let both = ["10.9.0.17", "2001:db8::17"].map(prefix);
    assert_eq!(device.adopt(&both).new, both);
    assert_eq!(device.wishes(true, true), both);
    assert_eq!(device.wishes(true, false), both[..1]);
    assert_eq!(device.adopt(&both), Default::default());
    assert_eq!(device.address(true), Some(both[0]));
}

#[test]
fn a_tunnel_with_another_address_is_refused_or_translated() {
    let own = prefix("10.9.0.17");
    let other = prefix("10.7.0.5");
    let mut refusing = DeviceAddresses::new(&[own], OtherAddress::Refuse);
    assert_eq!(refusing.adopt(&[other]).refused, [other]);

    let mut translating = DeviceAddresses::new(&[own], OtherAddress::Translate);
    let adoption = translating.adopt(&[other]);
    let expected = Translation {
        device: own.address(),
        tunnel: other.address(),
    };
    assert_eq!(adoption.translations, [expected]);
    assert!(adoption.refused.is_empty() && adoption.new.is_empty());
    // One of a site has it among others.
    assert_eq!(
        translating.adopt(&[prefix("10.9.0.0/24")]),
        Default::default()
    );
    assert_eq!(translating.address(true), Some(own));
}

/// A packet with the checksum of its transport, which stands at `at`.
fn sealed(from: &str, to: &str, protocol: u8, at: usize, payload: &[u8]) -> Vec<u8> {
    let mut payload = payload.to_vec();
    payload[at..at + 2].fill(0);
    let mut sum = Sum::default();
    // The checksum of ICMP covers no address.
    if protocol != 1 {
        let [from, to] = [from, to].map(|text| text.parse().unwrap());
        sum = sum.pseudo_header(from, to, protocol, payload.len());
    }
    let sum = sum.bytes(&payload).checksum();
    let sum = if sum == 0 && protocol == 17 {
        0xffff
    } else {
        sum
    };
    payload[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    packet(from, to, protocol, &payload)
}

const V4: [&str; 3] = ["10.9.0.17", "10.7.0.5", "198.51.100.7"];
const V6: [&str; 3] = ["2001:db8::17", "2001:db8:7::5", "2001:db8:1::7"];

fn translation(addresses: [&str; 3]) -> Translation {
    Translation {
        device: addresses[0].parse().unwrap(),
        tunnel: addresses[1].parse().unwrap(),
    }
}

#[test]
fn a_packet_of_no_such_address_stays() {
    let translation = translation(V4);
    let mut other = sealed(V4[2], V4[2], 17, 6, &[0; 8]);
    let before = other.clone();
    assert_eq!(translation.to_peer(&mut other, true), Ok(false));
    assert_eq!(translation.from_peer(&mut other, true), Ok(false));
    assert_eq!(other, before);
    assert!(translation.to_peer(&mut [0x45, 0], true).is_err());
}

#[test]
fn a_datagram_without_a_checksum_stays_without() {
    let mut plain = packet(V4[0], V4[2], 17, &[1, 2, 3, 4, 0, 9, 0, 0, 5]);
    assert_eq!(translation(V4).to_peer(&mut plain, true), Ok(true));
    assert_eq!(plain[26..28], [0, 0]);
    assert_eq!(
        plain,
        packet(V4[1], V4[2], 17, &[1, 2, 3, 4, 0, 9, 0, 0, 5])
    );
}

#[test]
fn a_checksum_that_has_yet_to_be_completed_follows() {
    let partial = |source: &str| {
        let [from, to] = [source, V4[2]].map(|text| text.parse().unwrap());
        let sum = Sum::default().pseudo_header(from, to, 17, 9).folded();
        let mut payload = [1, 2, 3, 4, 0, 9, 0, 0, 5];
        payload[6..8].copy_from_slice(&sum.to_be_bytes());
        packet(source, V4[2], 17, &payload)
    };
    let mut sent = partial(V4[0]);
    assert_eq!(translation(V4).to_peer(&mut sent, false), Ok(true));
    assert_eq!(sent, partial(V4[1]));
}

#[test]
fn an_error_quotes_what_its_reader_sent() {
    for addresses in [V4, V6] {
        let translation = translation(addresses);
        let [device, tunnel, host] = addresses;
        let sent = sealed(device, host, 17, 6, &[1, 2, 3, 4, 0, 9, 0, 0, 5]);
        let mut seen = sent.clone();
        assert_eq!(translation.to_peer(&mut seen, true), Ok(true));

        // A router reports to the address of the tunnel, which it saw as source.
        let parsed = Packet::parse(&seen).unwrap();
        let error = IcmpError::TooBig { mtu: 1400 }
            .about(&parsed, host.parse().unwrap())
            .unwrap();
        let mut error = error.to_vec();
        assert_eq!(translation.from_peer(&mut error, true), Ok(true));

        let error = Packet::parse(&error).unwrap();
        assert_eq!(
            error.destination(),
            device.parse::<std::net::IpAddr>().unwrap()
        );
        let quoted = &error.payload()[8..];
        let header = if error.is_ipv4() { 20 } else { 40 };
        assert_eq!(quoted[..header], sent[..header]);
        let sum = match error.is_ipv4() {
            true => checksum(error.payload()),
            false => Sum::default()
                .pseudo_header(
                    error.source(),
                    error.destination(),
                    58,
                    error.payload().len(),
                )
                .bytes(error.payload())
                .checksum(),
        };
        assert_eq!(sum, 0);

        // And the reverse: the device says that no one listens.
        let mut came = sealed(host, tunnel, 17, 6, &[1, 2, 3, 4, 0, 9, 0, 0, 5]);
        let original = came.clone();
        assert_eq!(translation.from_peer(&mut came, true), Ok(true));
        let parsed = Packet::parse(&came).unwrap();
        let mut error = IcmpError::PortUnreachable
            .about(&parsed, device.parse().unwrap())
            .unwrap()
            .to_vec();
        assert_eq!(translation.to_peer(&mut error, true), Ok(true));
        let error = Packet::parse(&error).unwrap();
        assert_eq!(error.payload()[8..8 + header], original[..header]);
    }
}

#[test]
fn an_error_that_quotes_less_than_a_header_is_left_alone() {
    let mut short = packet(V4[2], V4[1], 1, &[3, 1, 0, 0, 0, 0, 0, 0, 0x45, 0]);
    assert_eq!(translation(V4).from_peer(&mut short, true), Ok(true));
    assert_eq!(
        short,
        packet(V4[2], V4[0], 1, &[3, 1, 0, 0, 0, 0, 0, 0, 0x45, 0])
    );
}

#[test]
fn a_later_fragment_is_translated_in_its_header_only() {
    let fragment = |source: &str, host: &str| {
        // The bytes at the place of UDP's checksum are content.
        let mut packet = packet(source, host, 17, &[9; 16]);
        packet[6..8].copy_from_slice(&0x2010_u16.to_be_bytes());
        packet[10..12].fill(0);
        let sum = checksum(&packet[..20]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet
    };
    let [device, tunnel, host] = V4;
    let mut sent = fragment(device, host);
    assert_eq!(translation(V4).to_peer(&mut sent, true), Ok(true));
    assert_eq!(sent, fragment(tunnel, host));

    let mut came = fragment(host, tunnel);
    assert_eq!(translation(V4).from_peer(&mut came, true), Ok(true));
    assert_eq!(came, fragment(host, device));
}

proptest! {
    #[test]
    fn there_and_back_is_the_same_packet(is_ipv4: bool, protocol: u8, payload in prop::collection::vec(any::<u8>(), 0..60)) {
        let addresses = if is_ipv4 { V4 } else { V6 };
        let there = translation(addresses);
        let back = Translation { device: there.tunnel, tunnel: there.device };
        let sent = packet(addresses[0], addresses[2], protocol, &payload);
        let mut seen = sent.clone();
        if there.to_peer(&mut seen, true).is_ok() {
            prop_assert_eq!(back.to_peer(&mut seen, true), Ok(true));
            // The two forms of zero of one's complement are the same sum.
            let same = seen.iter().zip(&sent).filter(|(seen, sent)| seen != sent);
            prop_assert!(seen == sent || same.count() <= 2, "{seen:?} {sent:?}");
        }
    }

    #[test]
    fn a_translated_packet_is_as_if_sent_from_there(
        is_ipv4: bool, kind in prop::sample::select(vec![(6_u8, 16_usize), (17, 6), (33, 6), (136, 6)]),
        payload in prop::collection::vec(any::<u8>(), 20..60),
    ) {
        let addresses = if is_ipv4 { V4 } else { V6 };
        let [device, tunnel, host] = addresses;
        let (protocol, at) = kind;
        let sent = sealed(device, host, protocol, at, &payload);
        let mut seen = sent.clone();
        prop_assert_eq!(translation(addresses).to_peer(&mut seen, true), Ok(true));
        prop_assert_eq!(&seen, &sealed(tunnel, host, protocol, at, &payload));

        let mut back = sealed(host, tunnel, protocol, at, &payload);
        prop_assert_eq!(translation(addresses).from_peer(&mut back, true), Ok(true));
        prop_assert_eq!(&back, &sealed(host, device, protocol, at, &payload));
    }

    #[test]
    fn bytes_of_chance_are_translated_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..80), is_complete: bool) {
        for addresses in [V4, V6] {
            let mut packet = packet(addresses[0], addresses[1], if addresses == V4 { 1 } else { 58 }, &bytes);
            let length = packet.len();
            let translated = translation(addresses).to_peer(&mut packet, is_complete);
            prop_assert!(translated.is_err() || Packet::parse(&packet).is_ok());
            let translated = translation(addresses).from_peer(&mut packet, is_complete);
            prop_assert!(translated.is_err() || Packet::parse(&packet).is_ok());
            prop_assert_eq!(packet.len(), length);
        }
    }
}
