//! Errors for the sender of a packet that goes no further (RFC 792, RFC 1812, section 4.3; RFC 4443).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bytes::{BufMut, Bytes, BytesMut};

use super::checksum::{Sum, checksum};
use super::packet::{V4_HEADER, V6_HEADER};
use super::{Fragment, ICMP, ICMPV6, MIN_MTU_V4, MIN_MTU_V6, Packet};

/// The IPv4 address that a router without one writes errors from (RFC 7600, section 8).
pub const DUMMY_ROUTER_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 8);

/// The longest error over IPv4, in bytes: every host takes as much (RFC 1812, section 4.3.2.3).
const LONGEST_V4: usize = 576;

/// Bytes of an error before its quotation.
const ICMP_HEADER: usize = 8;

/// Hops that an error may go.
const HOP_LIMIT: u8 = 64;

/// Why a packet goes no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IcmpError {
    /// No route leads to its destination.
    NoRoute,
    /// There is a route, but the host is not there.
    HostUnreachable,
    /// No socket has the port.
    PortUnreachable,
    /// A rule forbids it.
    Prohibited,
    /// Its source may not send here: code 5 of ICMPv6, which ICMP has not, so that it says "prohibited".
    SourceFailedPolicy,
    /// The packet is too long for the next link, and may not be fragmented.
    TooBig {
        /// The longest packet that goes on, in bytes.
        mtu: u16,
    },
    /// The packet has passed too many hops.
    HopLimitExceeded,
}

impl fmt::Display for IcmpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRoute => f.write_str("no route leads to the host"),
            Self::HostUnreachable => f.write_str("the host is unreachable"),
            Self::PortUnreachable => f.write_str("the port is unreachable"),
            Self::Prohibited => f.write_str("a router on the way prohibits it"),
            Self::SourceFailedPolicy => f.write_str("its source may not send there"),
            Self::TooBig { mtu } => write!(f, "packets of more than {mtu} bytes do not go on"),
            Self::HopLimitExceeded => f.write_str("the host is too many hops away"),
        }
    }
}

impl IcmpError {
    /// The error for the sender of `packet`, written by the router `from`, which is of the same family.
    ///
    /// `None` where an error must not be sent (RFC 1122, section 3.2.2; RFC 4443, section 2.4 (e)):
    /// about an error, a later fragment, a packet to many, or one whose source is no single host.
    pub fn about(self, packet: &Packet<'_>, from: IpAddr) -> Option<Bytes> {
        if !self.may_be_sent(packet) {
            return None;
        }
        match (from, packet.source()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => Some(self.write_v4(packet.bytes(), from, to)),
            (IpAddr::V6(from), IpAddr::V6(to)) => Some(self.write_v6(packet.bytes(), from, to)),
            _ => None,
        }
    }

    fn may_be_sent(self, packet: &Packet<'_>) -> bool {
        // A host that sends to many must learn how long its packets may be (RFC 4443, section 2.4 (e.3)).
        let learns_mtu = matches!(self, Self::TooBig { .. }) && !packet.is_ipv4();
        let to_many = is_to_many(packet.destination());

        packet.fragment() != Fragment::Later
            && is_single_host(packet.source())
            && (!to_many || learns_mtu)
            && !is_error(packet)
    }

    /// Type, code and the number behind the checksum.
    fn v4(self) -> (u8, u8, u32) {
        match self {
            Self::NoRoute => (3, 0, 0),
            Self::HostUnreachable => (3, 1, 0),
            Self::PortUnreachable => (3, 3, 0),
            Self::TooBig { mtu } => (3, 4, u32::from(mtu).max(MIN_MTU_V4 as u32)),
            Self::Prohibited | Self::SourceFailedPolicy => (3, 13, 0),
            Self::HopLimitExceeded => (11, 0, 0),
        }
    }

    fn v6(self) -> (u8, u8, u32) {
        match self {
            Self::NoRoute => (1, 0, 0),
            Self::Prohibited => (1, 1, 0),
            Self::HostUnreachable => (1, 3, 0),
            Self::PortUnreachable => (1, 4, 0),
            Self::SourceFailedPolicy => (1, 5, 0),
            Self::TooBig { mtu } => (2, 0, u32::from(mtu).max(MIN_MTU_V6 as u32)),
            Self::HopLimitExceeded => (3, 0, 0),
        }
    }

    fn write_v4(self, about: &[u8], from: Ipv4Addr, to: Ipv4Addr) -> Bytes {
        let quoted = about.len().min(LONGEST_V4 - V4_HEADER - ICMP_HEADER);
        let length = V4_HEADER + ICMP_HEADER + quoted;
        let mut error = BytesMut::with_capacity(length);

        // Precedence 6 (RFC 1812, section 4.3.2.5), and not to be cut, so that its identification says nothing (RFC 6864).
        error.put_slice(&[0x45, 0xc0]);
        error.put_u16(length as u16);
        error.put_u32(0x4000);
        error.put_slice(&[HOP_LIMIT, ICMP, 0, 0]);
        error.put_slice(&from.octets());
        error.put_slice(&to.octets());
        let sum = checksum(&error);
        error[10..12].copy_from_slice(&sum.to_be_bytes());

        put_message(&mut error, self.v4(), &about[..quoted]);
        let sum = checksum(&error[V4_HEADER..]);
        error[V4_HEADER + 2..V4_HEADER + 4].copy_from_slice(&sum.to_be_bytes());

        error.freeze()
    }

    fn write_v6(self, about: &[u8], from: Ipv6Addr, to: Ipv6Addr) -> Bytes {
        // RFC 4443, section 2.4 (c): as much as fits the least MTU.
        let quoted = about.len().min(MIN_MTU_V6 - V6_HEADER - ICMP_HEADER);
        let payload = ICMP_HEADER + quoted;
        let mut error = BytesMut::with_capacity(V6_HEADER + payload);

        error.put_u32(0x6000_0000);
        error.put_u16(payload as u16);
        error.put_slice(&[ICMPV6, HOP_LIMIT]);
        error.put_slice(&from.octets());
        error.put_slice(&to.octets());

        put_message(&mut error, self.v6(), &about[..quoted]);
        let sum = Sum::default()
            .pseudo_header(from.into(), to.into(), ICMPV6, payload)
            .bytes(&error[V6_HEADER..])
            .checksum();
        error[V6_HEADER + 2..V6_HEADER + 4].copy_from_slice(&sum.to_be_bytes());

        error.freeze()
    }
}

/// Appends a message; its checksum has yet to be written.
fn put_message(error: &mut BytesMut, (kind, code, number): (u8, u8, u32), quoted: &[u8]) {
    error.put_slice(&[kind, code, 0, 0]);
    error.put_u32(number);
    error.put_slice(quoted);
}

/// Whether it is an error itself, or of a kind that may be one.
fn is_error(packet: &Packet<'_>) -> bool {
    let kind = packet.payload().first();
    match (packet.protocol(), kind) {
        (ICMP, Some(kind)) if packet.is_ipv4() => {
            // Only these types are known not to be errors: echo, timestamp, information, address
            // mask, extended echo and their replies.
            !matches!(kind, 0 | 8 | 13..=18 | 42 | 43)
        }
        // RFC 4443, section 2.1: errors have types below 128. Redirects (137) count as such (section 2.4 (e.2)).
        (ICMPV6, Some(kind)) if !packet.is_ipv4() => *kind < 128 || *kind == 137,
        (ICMP | ICMPV6, None) => true,
        _ => false,
    }
}

/// Whether an address is that of one host that can be told something.
fn is_single_host(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            // Network 0 and class E name no host (RFC 1122, section 3.2.1.3).
            let first = address.octets()[0];
            first != 0 && first < 224 && !address.is_loopback()
        }
        IpAddr::V6(address) => {
            !address.is_unspecified() && !address.is_multicast() && !address.is_loopback()
        }
    }
}

fn is_to_many(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_multicast() || address.is_broadcast(),
        IpAddr::V6(address) => address.is_multicast(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::sample::{Sample, udp4, udp6};

    const ROUTER_4: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 254));
    const ROUTER_6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0xff));

    const ALL: [IcmpError; 7] = [
        IcmpError::NoRoute,
        IcmpError::HostUnreachable,
        IcmpError::PortUnreachable,
        IcmpError::Prohibited,
        IcmpError::SourceFailedPolicy,
        IcmpError::TooBig { mtu: 1400 },
        IcmpError::HopLimitExceeded,
    ];

    fn about(error: IcmpError, packet: &[u8]) -> Option<Bytes> {
        let packet = Packet::parse(packet).unwrap();
        let from = if packet.is_ipv4() { ROUTER_4 } else { ROUTER_6 };
        error.about(&packet, from)
    }

    #[test]
    fn an_error_goes_to_the_sender_and_quotes_what_it_sent() {
        let packet = udp4(b"payload");
        let error = about(IcmpError::NoRoute, &packet).unwrap();
        let parsed = Packet::parse(&error).unwrap();
        assert_eq!(parsed.source(), ROUTER_4);
        assert_eq!(
            parsed.destination(),
            Packet::parse(&packet).unwrap().source()
        );
        assert_eq!(checksum(parsed.payload()), 0);
        assert_eq!(&parsed.payload()[8..], &packet[..]);
    }

    #[test]
    fn types_and_codes_are_those_of_the_registries() {
        let numbers = |packet: &[u8]| {
            ALL.map(|error| {
                let error = about(error, packet).unwrap();
                let message = Packet::parse(&error).unwrap().payload();
                [message[0], message[1]]
            })
        };
        assert_eq!(
            numbers(&udp4(b"")),
            [[3, 0], [3, 1], [3, 3], [3, 13], [3, 13], [3, 4], [11, 0]]
        );
        assert_eq!(
            numbers(&udp6(b"")),
            [[1, 0], [1, 3], [1, 4], [1, 1], [1, 5], [2, 0], [3, 0]]
        );
    }

    #[test]
    fn errors_have_checksums_that_their_readers_verify() {
        for error in ALL {
            let written = about(error, &udp6(&[7; 2000])).unwrap();
            let parsed = Packet::parse(&written).unwrap();
            assert_eq!(written.len(), MIN_MTU_V6);
            let sum = Sum::default()
                .pseudo_header(parsed.source(), parsed.destination(), ICMPV6, 1240)
                .bytes(parsed.payload());
            assert_eq!(sum.checksum(), 0);
            assert_eq!(about(error, &udp4(&[7; 2000])).unwrap().len(), LONGEST_V4);
        }
    }

    #[test]
    fn the_mtu_is_never_said_to_be_below_what_every_link_has() {
        let mtu = |error: Bytes| {
            let message = Packet::parse(&error).unwrap().payload().to_vec();
            u32::from_be_bytes([message[4], message[5], message[6], message[7]])
        };
        let small = IcmpError::TooBig { mtu: 40 };
        assert_eq!(mtu(about(small, &udp4(b"")).unwrap()), 68);
        assert_eq!(mtu(about(small, &udp6(b"")).unwrap()), 1280);
        assert_eq!(
            mtu(about(IcmpError::TooBig { mtu: 1400 }, &udp4(b"")).unwrap()),
            1400
        );
    }

    #[test]
    fn no_error_is_about_an_error() {
        for packet in [udp4(b"x"), udp6(b"x")] {
            for first in ALL {
                let error = about(first, &packet).unwrap();
                for second in ALL {
                    assert_eq!(about(second, &error), None, "{second:?} about {first:?}");
                }
            }
        }
    }

    #[test]
    fn questions_are_answered_with_errors() {
        for kind in [0, 8] {
            let echo = Sample::v4().carries(ICMP, &[kind, 0, 0, 0, 0, 1, 0, 1]);
            assert!(about(IcmpError::NoRoute, &echo).is_some());
        }
        for kind in [128, 129] {
            let echo = Sample::v6().carries(ICMPV6, &[kind, 0, 0, 0, 0, 1, 0, 1]);
            assert!(about(IcmpError::NoRoute, &echo).is_some());
        }
        let redirect = Sample::v6().carries(ICMPV6, &[137, 0, 0, 0]);
        assert_eq!(about(IcmpError::NoRoute, &redirect), None);
        assert_eq!(
            about(IcmpError::NoRoute, &Sample::v4().carries(ICMP, &[])),
            None
        );
    }

    #[test]
    fn no_error_goes_to_many_or_about_what_went_to_many() {
        for source in [
            "0.0.0.0",
            "255.255.255.255",
            "224.0.0.1",
            "127.0.0.1",
            "240.0.0.1",
        ] {
            let packet = Sample::v4().from(source).carries(17, &[0; 8]);
            assert_eq!(about(IcmpError::NoRoute, &packet), None, "{source}");
        }
        for source in ["::", "::1", "ff02::1"] {
            let packet = Sample::v6().from(source).carries(17, &[0; 8]);
            assert_eq!(about(IcmpError::NoRoute, &packet), None, "{source}");
        }

        let multicast_4 = Sample::v4().to("224.0.0.1").carries(17, &[0; 8]);
        let multicast_6 = Sample::v6().to("ff02::1").carries(17, &[0; 8]);
        let too_big = IcmpError::TooBig { mtu: 1300 };
        assert_eq!(about(too_big, &multicast_4), None);
        assert_eq!(about(IcmpError::NoRoute, &multicast_6), None);
        assert!(about(too_big, &multicast_6).is_some());
    }

    #[test]
    fn no_error_is_about_a_later_fragment() {
        let later = Sample::v4().fragment(64, false).carries(17, &[0; 32]);
        let first = Sample::v4().fragment(0, true).carries(17, &[0; 32]);
        assert_eq!(about(IcmpError::NoRoute, &later), None);
        assert!(about(IcmpError::NoRoute, &first).is_some());
    }

    #[test]
    fn a_router_of_the_other_family_says_nothing() {
        let packet = udp4(b"");
        let packet = Packet::parse(&packet).unwrap();
        assert_eq!(IcmpError::NoRoute.about(&packet, ROUTER_6), None);
    }
}
