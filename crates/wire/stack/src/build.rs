//! Packets that are made here: of UDP, echo replies, and resets.

use std::net::{IpAddr, SocketAddr};

use hermes_proto::ip::checksum::{Sum, checksum};
use hermes_proto::ip::{ICMP, ICMPV6, Packet, TCP, UDP};

/// The hop limit of packets.
const HOP_LIMIT: u8 = 64;

/// Lengths of headers.
pub(crate) const IPV4: usize = 20;
pub(crate) const IPV6: usize = 40;
pub(crate) const UDP_HEADER: usize = 8;
const TCP_HEADER: usize = 20;
const ECHO_HEADER: usize = 8;

/// Types of echo (RFC 792; RFC 4443, section 4).
const ECHO_REQUEST: u8 = 8;
const ECHO_REPLY: u8 = 0;
const ECHO_REQUEST_V6: u8 = 128;
const ECHO_REPLY_V6: u8 = 129;

/// Flags of TCP.
const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;

/// The source and destination of a packet. Both are of one family.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Addresses {
    pub(crate) from: IpAddr,
    pub(crate) to: IpAddr,
}

/// A datagram of UDP.
pub(crate) fn udp(from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let length = UDP_HEADER + payload.len();
    let mut datagram = Vec::with_capacity(length);
    datagram.extend_from_slice(&from.port().to_be_bytes());
    datagram.extend_from_slice(&to.port().to_be_bytes());
    datagram.extend_from_slice(&u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes());
    datagram.extend_from_slice(&[0; 2]);
    datagram.extend_from_slice(payload);

    let addresses = Addresses {
        from: from.ip(),
        to: to.ip(),
    };
    // Zero would mean that there is no checksum (RFC 768).
    let sum = match transport_sum(addresses, UDP, &datagram) {
        0 => u16::MAX,
        sum => sum,
    };
    datagram[6..8].copy_from_slice(&sum.to_be_bytes());
    packet(addresses, UDP, &datagram)
}

/// The content of an echo behind its header.
pub(crate) fn echo_content(message: &[u8]) -> Option<&[u8]> {
    message.get(ECHO_HEADER..)
}

/// The answer to an echo request, with this content; `None` for any other packet.
pub(crate) fn echo_reply(request: &Packet<'_>, content: &[u8]) -> Option<Vec<u8>> {
    let message = request.payload();
    let reply = match (request.protocol(), *message.first()?) {
        (ICMP, ECHO_REQUEST) if request.is_ipv4() => ECHO_REPLY,
        (ICMPV6, ECHO_REQUEST_V6) if !request.is_ipv4() => ECHO_REPLY_V6,
        _ => return None,
    };

    let addresses = Addresses {
        from: request.destination(),
        to: request.source(),
    };
    // Its identifier and its number are those of the request.
    let header: &[u8; ECHO_HEADER] = message.first_chunk()?;
    let mut answer = [header, content].concat();
    answer[0] = reply;
    answer[2..4].fill(0);
    let sum = match request.is_ipv4() {
        true => checksum(&answer),
        false => transport_sum(addresses, ICMPV6, &answer),
    };
    answer[2..4].copy_from_slice(&sum.to_be_bytes());
    Some(packet(addresses, request.protocol(), &answer))
}

/// The reset that tells the sender of a segment that there is no such connection (RFC 9293, section
/// 3.10.7.1); `None` if it is a reset itself.
pub(crate) fn reset(segment: &Packet<'_>) -> Option<Vec<u8>> {
    let header: &[u8; TCP_HEADER] = segment.payload().first_chunk()?;
    let flags = header[13];
    if segment.protocol() != TCP || flags & RST != 0 {
        return None;
    }

    let mut answer = [0; TCP_HEADER];
    answer[..2].copy_from_slice(&header[2..4]);
    answer[2..4].copy_from_slice(&header[..2]);
    answer[12] = 0x50;
    // RFC 9293, section 3.10.7.1: the reset takes the acknowledged number, or else acknowledges the
    // segment.
    if flags & ACK != 0 {
        answer[4..8].copy_from_slice(&header[8..12]);
        answer[13] = RST;
    } else {
        let end = usize::from(header[12] >> 4) * 4;
        let content = segment.payload().len().saturating_sub(end);
        // SYN and FIN take a sequence number each.
        let takes_numbers = content + usize::from(flags & SYN != 0) + usize::from(flags & FIN != 0);
        let number = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
        let next = number.wrapping_add(u32::try_from(takes_numbers).unwrap_or_default());
        answer[8..12].copy_from_slice(&next.to_be_bytes());
        answer[13] = RST | ACK;
    }

    let addresses = Addresses {
        from: segment.destination(),
        to: segment.source(),
    };
    let sum = transport_sum(addresses, TCP, &answer);
    answer[16..18].copy_from_slice(&sum.to_be_bytes());
    Some(packet(addresses, TCP, &answer))
}

/// Whether the checksum of the payload is right. UDP over IPv4 may have none.
pub(crate) fn is_sound(packet: &Packet<'_>) -> bool {
    let content = packet.payload();
    let addresses = Addresses {
        from: packet.source(),
        to: packet.destination(),
    };
    match packet.protocol() {
        UDP if packet.is_ipv4() && content.get(6..8) == Some(&[0, 0]) => true,
        TCP | UDP => transport_sum(addresses, packet.protocol(), content) == 0,
        ICMP => checksum(content) == 0,
        ICMPV6 => transport_sum(addresses, ICMPV6, content) == 0,
        // Of others, nothing is known.
        _ => true,
    }
}

fn transport_sum(addresses: Addresses, protocol: u8, content: &[u8]) -> u16 {
    Sum::default()
        .pseudo_header(addresses.from, addresses.to, protocol, content.len())
        .bytes(content)
        .checksum()
}

/// An IP packet around some content.
fn packet(addresses: Addresses, protocol: u8, content: &[u8]) -> Vec<u8> {
    let mut packet = match (addresses.from, addresses.to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let mut header = [0; IPV4];
            header[0] = 0x45;
            header[2..4].copy_from_slice(&length(IPV4 + content.len()));
            // The packet is never fragmented, so it needs no identification (RFC 6864).
            header[6] = 0x40;
            header[8] = HOP_LIMIT;
            header[9] = protocol;
            header[12..16].copy_from_slice(&from.octets());
            header[16..20].copy_from_slice(&to.octets());
            let sum = checksum(&header);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            header.to_vec()
        }
        (from, to) => {
            let mut header = [0; IPV6];
            header[0] = 0x60;
            header[4..6].copy_from_slice(&length(content.len()));
            header[6] = protocol;
            header[7] = HOP_LIMIT;
            header[8..24].copy_from_slice(&octets(from));
            header[24..40].copy_from_slice(&octets(to));
            header.to_vec()
        }
    };
    packet.extend_from_slice(content);
    packet
}

fn length(bytes: usize) -> [u8; 2] {
    u16::try_from(bytes).unwrap_or(u16::MAX).to_be_bytes()
}

fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}
