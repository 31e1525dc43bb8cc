//! The content of a received error: the packet it is about, and its fate (RFC 792; RFC 4443,
//! section 3).

use std::net::IpAddr;

use super::packet::WITH_PORTS;
use super::{ICMP, IcmpError, IpFlow, Packet, TCP, UDP};

/// Bytes of an error before its quotation.
const ICMP_HEADER: usize = 8;

/// Bytes of a transport's header that every error quotes (RFC 792).
const QUOTED: usize = 8;

/// An error about a packet of TCP or UDP. Its quotation may be cut short, so it is read less
/// strictly than a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IcmpReport<'a> {
    /// The fate of the packet.
    pub error: IcmpError,
    /// The flow of the packet, as its sender wrote it.
    pub flow: IpFlow,
    /// The first bytes of its transport's header, eight at least.
    pub transport: &'a [u8],
}

impl<'a> IcmpReport<'a> {
    /// Parses an error; `None` for another packet, an error without a meaning here, or about
    /// another protocol.
    pub fn parse(packet: &Packet<'a>) -> Option<Self> {
        let message = packet.payload();
        let header: &[u8; ICMP_HEADER] = message.first_chunk()?;
        let number = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
        let error = IcmpError::of_code(packet.protocol() == ICMP, [header[0], header[1]], number)?;
        if !packet.is_icmp_error() {
            return None;
        }

        let quoted = &message[ICMP_HEADER..];
        let quoted = match packet.is_ipv4() {
            true => Quoted::v4(quoted)?,
            false => Quoted::v6(quoted)?,
        };
        let transport = quoted.transport;
        if transport.len() < QUOTED || ![TCP, UDP].contains(&quoted.protocol) {
            return None;
        }
        let port = |at: usize| u16::from_be_bytes([transport[at], transport[at + 1]]);
        Some(Self {
            error,
            flow: IpFlow {
                source: quoted.source,
                destination: quoted.destination,
                protocol: quoted.protocol,
                source_port: port(0),
                destination_port: port(2),
            },
            transport,
        })
    }

    /// The sequence number of the quoted segment; `None` if it is not of TCP.
    pub fn tcp_sequence(&self) -> Option<u32> {
        let number = self.transport[4..QUOTED].first_chunk().copied();
        number
            .filter(|_| self.flow.protocol == TCP)
            .map(u32::from_be_bytes)
    }
}

/// Extension headers of IPv6 that are looked behind in a quotation: as many as of a packet that passed.
#[doc(alias = "bound")]
const MAX_EXTENSIONS: usize = 8;

/// The routing header (RFC 8200, section 4.4).
const ROUTING: u8 = 43;

/// The flow of the packet that an error quotes, of any protocol; `None` if it is not an error, or
/// quotes too little. Ports are 0 where the protocol has none.
///
/// A forged quotation is as easily written as a genuine one: that a packet of this flow could have been sent is the caller's to check
/// (RFC 5508, section 4.2).
pub fn quoted_flow(packet: &Packet<'_>) -> Option<IpFlow> {
    if !packet.is_icmp_error() {
        return None;
    }
    let quoted = packet.payload().get(ICMP_HEADER..)?;
    let Quoted {
        source,
        destination,
        protocol,
        transport,
    } = match packet.is_ipv4() {
        true => Quoted::v4(quoted)?,
        false => Quoted::v6(quoted)?.behind_extensions()?,
    };

    let has_ports = [TCP, UDP].contains(&protocol) || WITH_PORTS.contains(&protocol);
    let [source_port, destination_port] = match has_ports {
        true => {
            let ports: &[u8; 4] = transport.first_chunk()?;
            [[ports[0], ports[1]], [ports[2], ports[3]]].map(u16::from_be_bytes)
        }
        false => [0; 2],
    };
    Some(IpFlow {
        source,
        destination,
        protocol,
        source_port,
        destination_port,
    })
}

/// The quoted packet, without options.
struct Quoted<'a> {
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    transport: &'a [u8],
}

impl<'a> Quoted<'a> {
    fn v4(bytes: &'a [u8]) -> Option<Self> {
        let header: &[u8; 20] = bytes.first_chunk()?;
        let length = usize::from(header[0] & 0x0f) * 4;
        let offset = u16::from_be_bytes([header[6], header[7]]) & 0x1fff;
        if header[0] >> 4 != 4 || length < header.len() || offset != 0 {
            return None;
        }
        let address = |at: usize| -> Option<[u8; 4]> { header[at..].first_chunk().copied() };
        Some(Self {
            source: address(12)?.into(),
            destination: address(16)?.into(),
            protocol: header[9],
            transport: bytes.get(length..)?,
        })
    }

    fn v6(bytes: &'a [u8]) -> Option<Self> {
        let (header, transport) = bytes.split_first_chunk::<40>()?;
        if header[0] >> 4 != 6 {
            return None;
        }
        let address = |at: usize| -> Option<[u8; 16]> { header[at..].first_chunk().copied() };
        Some(Self {
            source: address(8)?.into(),
            destination: address(24)?.into(),
            protocol: header[6],
            transport,
        })
    }
}

impl Quoted<'_> {
    /// The same without extension headers (RFC 8200, section 4); `None` for a later fragment, which
    /// has no ports, and behind a routing header: Linux finds the socket by the last segment (RFC
    /// 8754), not by the destination of the quoted header.
    fn behind_extensions(mut self) -> Option<Self> {
        for _ in 0..MAX_EXTENSIONS {
            let length = match self.protocol {
                ROUTING => return None,
                0 | 60 => 8 + usize::from(*self.transport.get(1)?) * 8,
                44 => {
                    let offset: &[u8; 2] = self.transport.get(2..)?.first_chunk()?;
                    if u16::from_be_bytes(*offset) & 0xfff8 != 0 {
                        return None;
                    }
                    8
                }
                _ => return Some(self),
            };
            self.protocol = *self.transport.first()?;
            self.transport = self.transport.get(length..)?;
        }
        None
    }
}

impl IcmpError {
    /// The error of this type and code, and the number behind its checksum; `None` without a
    /// meaning here.
    pub fn of_code(is_ipv4: bool, kind_and_code: [u8; 2], number: u32) -> Option<Self> {
        match is_ipv4 {
            true => Self::of_v4(kind_and_code, number),
            false => Self::of_v6(kind_and_code, number),
        }
    }

    fn of_v4(kind_and_code: [u8; 2], number: u32) -> Option<Self> {
        // RFC 1812, section 5.2.7.1, has the later codes.
        match kind_and_code {
            [3, 0 | 6 | 11] => Some(Self::NoRoute),
            [3, 1 | 5 | 7 | 8 | 12] => Some(Self::HostUnreachable),
            [3, 2 | 3] => Some(Self::PortUnreachable),
            [3, 4] => Some(Self::TooBig { mtu: number as u16 }),
            [3, 9 | 10 | 13 | 14 | 15] => Some(Self::Prohibited),
            [11, 0] => Some(Self::HopLimitExceeded),
            _ => None,
        }
    }

    fn of_v6(kind_and_code: [u8; 2], number: u32) -> Option<Self> {
        match kind_and_code {
            [1, 0] => Some(Self::NoRoute),
            [1, 1 | 6] => Some(Self::Prohibited),
            [1, 2 | 3] => Some(Self::HostUnreachable),
            [1, 4] => Some(Self::PortUnreachable),
            [1, 5] => Some(Self::SourceFailedPolicy),
            [2, _] => Some(Self::TooBig {
                mtu: u16::try_from(number).unwrap_or(u16::MAX),
            }),
            [3, 0] => Some(Self::HopLimitExceeded),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::checksum::checksum;
    use crate::ip::sample::{tcp, udp4, udp6};

    const ROUTERS: [&str; 2] = ["192.0.2.254", "2001:db8::ff"];

    #[test]
    fn says_what_was_written() {
        let errors = [
            IcmpError::NoRoute,
            IcmpError::HostUnreachable,
            IcmpError::PortUnreachable,
            IcmpError::Prohibited,
            IcmpError::TooBig { mtu: 1400 },
            IcmpError::HopLimitExceeded,
        ];
        let long = vec![7; 3000];
        let samples = [
            (udp4(b"?"), ROUTERS[0]),
            (udp4(&long), ROUTERS[0]),
            (tcp(true, 2, &[], b""), ROUTERS[0]),
            (udp6(b"?"), ROUTERS[1]),
            (udp6(&long), ROUTERS[1]),
            (tcp(false, 2, &[], b""), ROUTERS[1]),
        ];
        for (sample, router) in samples {
            let about = Packet::parse(&sample).unwrap();
            for error in errors {
                let written = error.about(&about, router.parse().unwrap()).unwrap();
                let written = Packet::parse(&written).unwrap();
                let report = IcmpReport::parse(&written).unwrap();
                assert_eq!((report.error, report.flow), (error, about.flow()));
                assert_eq!(quoted_flow(&written), Some(about.flow()));
                assert_eq!(report.tcp_sequence().is_some(), about.protocol() == TCP);
            }
        }
    }

    #[test]
    fn a_quotation_that_is_cut_short_or_of_another_family_says_nothing() {
        let sample = udp4(b"?");
        let about = Packet::parse(&sample).unwrap();
        let written = IcmpError::PortUnreachable.about(&about, ROUTERS[0].parse().unwrap());
        let written = written.unwrap();
        let quoted = 20 + ICMP_HEADER;
        // All but the payload.
        for length in 0..written.len() {
            let mut cut = written[..length].to_vec();
            if length >= 4 {
                let said = u16::try_from(length).unwrap().to_be_bytes();
                cut[2..4].copy_from_slice(&said);
            }
            if length >= 20 {
                cut[10..12].fill(0);
                let sum = checksum(&cut[..20]);
                cut[10..12].copy_from_slice(&sum.to_be_bytes());
            }
            let report = Packet::parse(&cut).ok();
            let report = report.and_then(|packet| IcmpReport::parse(&packet));
            assert_eq!(report.is_some(), length >= quoted + 20 + QUOTED, "{length}");
        }

        for (at, value) in [
            (quoted, 0x65),
            (quoted, 0x43),
            (quoted + 7, 1),
            (quoted + 9, 47),
        ] {
            let mut changed = written.to_vec();
            changed[at] = value;
            let packet = Packet::parse(&changed).unwrap();
            assert_eq!(IcmpReport::parse(&packet), None, "{at}");
        }
    }

    #[test]
    fn a_quotation_with_a_routing_header_says_nothing_of_a_flow() {
        let about = udp6(b"?");
        let quoted_behind = |protocol: u8, extension: &[u8]| {
            let mut quoted = about[..40].to_vec();
            quoted[6] = protocol;
            quoted.extend(extension);
            quoted.extend(&about[40..]);
            let length = u16::try_from(quoted.len() - 40).unwrap().to_be_bytes();
            quoted[4..6].copy_from_slice(&length);

            let about = Packet::parse(&about).unwrap();
            let written = IcmpError::PortUnreachable.about(&about, ROUTERS[1].parse().unwrap());
            let mut error = written.unwrap()[..48].to_vec();
            error.extend(&quoted);
            let length = u16::try_from(error.len() - 40).unwrap().to_be_bytes();
            error[4..6].copy_from_slice(&length);
            quoted_flow(&Packet::parse(&error).unwrap())
        };

        let options = [UDP, 0, 1, 4, 0, 0, 0, 0];
        let flow = Packet::parse(&about).unwrap().flow();
        assert_eq!(quoted_behind(60, &options), Some(flow));

        // Of type 4, one segment before its end, whose last segment belongs to another host (RFC
        // 8754, section 2).
        let mut segments = vec![UDP, 2, 4, 1, 0, 0, 0, 0];
        segments.extend([0x20; 16]);
        assert_eq!(quoted_behind(ROUTING, &segments), None);
    }
}
