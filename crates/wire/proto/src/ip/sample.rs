//! Packets for tests.

use std::net::IpAddr;

use super::checksum::{Sum, checksum};
use super::{TCP, UDP};

/// A packet being put together.
#[derive(Debug, Clone)]
pub struct Sample {
    source: IpAddr,
    destination: IpAddr,
    hop_limit: u8,
    /// Offset in bytes, and whether more follow.
    fragment: Option<(u16, bool)>,
    /// Options of IPv4, or extension headers of IPv6 with the number of the first.
    extensions: Vec<u8>,
    first: Option<u8>,
}

impl Sample {
    pub fn v4() -> Self {
        Self {
            source: [192, 0, 2, 1].into(),
            destination: [198, 51, 100, 2].into(),
            hop_limit: 64,
            fragment: None,
            extensions: Vec::new(),
            first: None,
        }
    }

    pub fn v6() -> Self {
        Self {
            source: "2001:db8::1".parse().unwrap(),
            destination: "2001:db8:1::2".parse().unwrap(),
            ..Self::v4()
        }
    }

    pub fn from(mut self, source: &str) -> Self {
        self.source = source.parse().unwrap();
        self
    }

    pub fn to(mut self, destination: &str) -> Self {
        self.destination = destination.parse().unwrap();
        self
    }

    pub fn fragment(mut self, offset: u16, more: bool) -> Self {
        self.fragment = Some((offset, more));
        self
    }

    /// Options of IPv4.
    pub fn options(mut self, options: &[u8]) -> Self {
        self.extensions = options.to_vec();
        self
    }

    /// Extension headers of IPv6, as they stand; the last names the next itself.
    pub fn extensions(mut self, first: u8, headers: &[u8]) -> Self {
        self.first = Some(first);
        self.extensions = headers.to_vec();
        self
    }

    pub fn carries(&self, protocol: u8, payload: &[u8]) -> Vec<u8> {
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let header = 20 + self.extensions.len();
                let length = (header + payload.len()) as u16;
                let (offset, more) = self.fragment.unwrap_or((0, false));
                let flags = (offset >> 3) | (u16::from(more) << 13);

                let mut packet = vec![0x40 | (header / 4) as u8, 0];
                packet.extend(length.to_be_bytes());
                packet.extend([0x12, 0x34]);
                packet.extend(flags.to_be_bytes());
                packet.extend([self.hop_limit, protocol, 0, 0]);
                packet.extend(source.octets());
                packet.extend(destination.octets());
                packet.extend(&self.extensions);
                let sum = checksum(&packet);
                packet[10..12].copy_from_slice(&sum.to_be_bytes());
                packet.extend(payload);
                packet
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let mut body = self.extensions.clone();
                let mut next = self.first.unwrap_or(protocol);
                if let Some((offset, more)) = self.fragment {
                    let flags = offset | u16::from(more);
                    body.extend([protocol, 0]);
                    body.extend(flags.to_be_bytes());
                    body.extend([0, 0, 0, 7]);
                    next = self.first.unwrap_or(44);
                }
                body.extend(payload);

                let mut packet = vec![0x60, 0, 0, 0];
                packet.extend((body.len() as u16).to_be_bytes());
                packet.extend([next, self.hop_limit]);
                packet.extend(source.octets());
                packet.extend(destination.octets());
                packet.extend(body);
                packet
            }
            _ => panic!("both ends are of one family"),
        }
    }
}

pub fn udp4(payload: &[u8]) -> Vec<u8> {
    udp(&Sample::v4(), payload)
}

pub fn udp6(payload: &[u8]) -> Vec<u8> {
    udp(&Sample::v6(), payload)
}

fn udp(sample: &Sample, payload: &[u8]) -> Vec<u8> {
    let length = (8 + payload.len()) as u16;
    let mut datagram = vec![0x30, 0x39, 0x01, 0xbb];
    datagram.extend(length.to_be_bytes());
    datagram.extend([0, 0]);
    datagram.extend(payload);
    complete(sample, UDP, 6, &mut datagram);
    sample.carries(UDP, &datagram)
}

pub fn tcp(is_ipv4: bool, flags: u8, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let sample = if is_ipv4 { Sample::v4() } else { Sample::v6() };
    let mut segment = vec![0x30, 0x39, 0x01, 0xbb, 0, 0, 0, 1, 0, 0, 0, 2];
    segment.extend([
        ((20 + options.len()) / 4 * 16) as u8,
        flags,
        0xff,
        0xff,
        0,
        0,
        0,
        0,
    ]);
    segment.extend(options);
    segment.extend(payload);
    complete(&sample, TCP, 16, &mut segment);
    sample.carries(TCP, &segment)
}

fn complete(sample: &Sample, protocol: u8, at: usize, transport: &mut [u8]) {
    let sum = Sum::default()
        .pseudo_header(sample.source, sample.destination, protocol, transport.len())
        .bytes(transport)
        .checksum();
    transport[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}
