//! Echo on the tunnel itself: how a peer finds out that it carries 1,280 bytes (RFC 9484, section 7.1).

use std::net::{IpAddr, Ipv6Addr};

use bytes::{BufMut, Bytes, BytesMut};
use hermes_proto::ip::checksum::Sum;
use hermes_proto::ip::{Fragment, ICMPV6, Packet};

use crate::role::IpRole;

/// All nodes of a link.
pub(crate) const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// Types of ICMPv6.
pub(crate) const ECHO_REQUEST: u8 = 128;
pub(crate) const ECHO_REPLY: u8 = 129;

/// Bytes of the IPv6 header and of that of an echo.
const HEADERS: usize = 40 + 8;

/// The link-local address of an end without an address of its own.
pub(crate) fn link_local(role: IpRole) -> Ipv6Addr {
    let host = match role {
        IpRole::Client => 1,
        IpRole::Proxy => 2,
    };
    Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, host)
}

/// The answer to an echo request to this end of the tunnel; `None` for any other packet.
pub(crate) fn answer(packet: &Packet<'_>, role: IpRole, own: Option<Ipv6Addr>) -> Option<Bytes> {
    let (IpAddr::V6(source), IpAddr::V6(destination)) = (packet.source(), packet.destination())
    else {
        return None;
    };
    let is_ours = destination == ALL_NODES || destination == link_local(role);
    let is_whole = packet.fragment() == Fragment::Whole;
    let is_request = packet.protocol() == ICMPV6 && packet.payload().first() == Some(&ECHO_REQUEST);
    if !is_ours || !is_whole || !is_request || packet.payload().len() < 8 {
        return None;
    }
    if source.is_multicast() || source.is_unspecified() || source.is_loopback() {
        return None;
    }

    let own = own.unwrap_or(link_local(role));
    Some(write(own, source, ECHO_REPLY, &packet.payload()[4..]))
}

/// An echo; `rest` is its identifier, its number and its data.
pub(crate) fn write(from: Ipv6Addr, to: Ipv6Addr, kind: u8, rest: &[u8]) -> Bytes {
    let length = 4 + rest.len();
    let mut packet = BytesMut::with_capacity(HEADERS + rest.len());
    packet.put_u32(0x6000_0000);
    packet.put_u16(length as u16);
    // Hop limit 255: the answer goes no further than the other end.
    packet.put_slice(&[ICMPV6, 255]);
    packet.put_slice(&from.octets());
    packet.put_slice(&to.octets());
    packet.put_slice(&[kind, 0, 0, 0]);
    packet.put_slice(rest);

    let sum = Sum::default()
        .pseudo_header(from.into(), to.into(), ICMPV6, length)
        .bytes(&packet[40..])
        .checksum();
    packet[42..44].copy_from_slice(&sum.to_be_bytes());
    packet.freeze()
}
