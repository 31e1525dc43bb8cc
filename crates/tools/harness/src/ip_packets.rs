//! Packets of IPv4 made by hand (RFC 791), and the addresses of the tunnels of CONNECT-IP that carry them (RFC 9484).

use std::net::Ipv4Addr;

use crate::capsules::UdpTunnel;

/// The protocol number of ICMP.
pub const ICMP: u8 = 1;

/// The protocol number of TCP.
pub const TCP: u8 = 6;

/// The protocol number of UDP.
pub const UDP: u8 = 17;

/// The capsule ADDRESS_ASSIGN (RFC 9484, section 4.7.1).
const ADDRESS_ASSIGN: u64 = 1;

/// The addresses of IPv4 in the next assignment, with the requests that they answer. The numbers of requests have one byte.
pub fn assigned(tunnel: &mut UdpTunnel) -> Vec<(u8, Ipv4Addr)> {
    let value = loop {
        let (kind, value) = tunnel.capsule();
        if kind == ADDRESS_ASSIGN {
            break value;
        }
    };

    let mut rest = value.as_slice();
    let mut found = Vec::new();
    while let [request, version, more @ ..] = rest {
        let length = if *version == 4 { 4 } else { 16 };
        if let Ok(octets) = <[u8; 4]>::try_from(&more[..length]) {
            found.push((*request, Ipv4Addr::from(octets)));
        }
        rest = &more[length + 1..];
    }
    found
}

/// The checksum of a header (RFC 1071).
pub fn checksum(header: &[u8]) -> u16 {
    let words = header.chunks(2);
    let mut sum: u32 = words
        .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// A packet between these addresses. `fragment` is its field of flags and offset.
///
/// # Panics
/// When it would be longer than a packet can be.
pub fn packet_to(
    [source, destination]: [Ipv4Addr; 2],
    protocol: u8,
    fragment: u16,
    content: &[u8],
) -> Vec<u8> {
    let length = u16::try_from(20 + content.len()).unwrap();
    let mut header = vec![0x45, 0];
    header.extend(length.to_be_bytes());
    header.extend([0x12, 0x34]);
    header.extend(fragment.to_be_bytes());
    header.extend([64, protocol, 0, 0]);
    header.extend(source.octets());
    header.extend(destination.octets());
    let sum = checksum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    header.extend(content);
    header
}

/// A datagram from port 5000 to port 6000, without a checksum (RFC 768).
///
/// # Panics
/// When it would be longer than a datagram can be.
pub fn datagram(payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(8 + payload.len()).unwrap();
    let mut datagram = vec![0x13, 0x88, 0x17, 0x70];
    datagram.extend(length.to_be_bytes());
    datagram.extend([0, 0]);
    datagram.extend(payload);
    datagram
}

/// A message of ICMP (RFC 792) of this type and code, with the word that follows the checksum.
pub fn icmp([kind, code]: [u8; 2], word: u32, content: &[u8]) -> Vec<u8> {
    let mut message = vec![kind, code, 0, 0];
    message.extend(word.to_be_bytes());
    message.extend(content);
    if message.len() % 2 == 1 {
        message.push(0);
    }
    let sum = checksum(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    message
}
