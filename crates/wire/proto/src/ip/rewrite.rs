//! Writes another address into a packet, and keeps its checksums right (RFC 3022, sections 4.1 and 4.3).

use std::net::IpAddr;

use super::checksum::updated;
use super::{Fragment, ICMPV6, Packet, PacketError, TCP, UDP};

/// Protocols with a checksum that covers addresses and lies where that of UDP does: DCCP and
/// UDP-Lite.
const AS_UDP: [u8; 2] = [33, 136];

/// Bytes of an ICMP error before its quotation.
const ICMP_HEADER: usize = 8;

/// Which address of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressField {
    /// Where it comes from.
    Source,
    /// Where it goes.
    Destination,
}

/// A checksum that covers an address.
#[derive(Debug, Clone, Copy)]
struct Covering {
    at: usize,
    protocol: u8,
    is_complete: bool,
}

/// Replaces an address of a packet by one of the same family; nothing changes for one of the other. `is_complete`: the checksum of its
/// transport is; otherwise it holds the sum of the pseudo-header alone, which follows, too.
///
/// # Errors
/// [`PacketError`], with nothing changed.
pub fn rewrite_address(
    packet: &mut [u8],
    field: AddressField,
    address: IpAddr,
    is_complete: bool,
) -> Result<(), PacketError> {
    let parsed = Packet::parse(packet)?;
    if parsed.is_ipv4() != address.is_ipv4() {
        return Ok(());
    }

    let transport = transport_checksum(&parsed, is_complete);
    replace(packet, 0, field, address, transport);
    Ok(())
}

/// Replaces an address in the packet that an ICMP error quotes, if it is `old`; returns whether it
/// was. A host understands an error only if it quotes the packet as the host sent it.
///
/// # Errors
/// [`PacketError`], with nothing changed.
pub fn rewrite_quoted(
    packet: &mut [u8],
    field: AddressField,
    old: IpAddr,
    new: IpAddr,
) -> Result<bool, PacketError> {
    let parsed = Packet::parse(packet)?;
    let quoted = parsed.header_length() + ICMP_HEADER;
    if !parsed.is_icmp_error()
        || old.is_ipv4() != new.is_ipv4()
        || parsed.is_ipv4() != new.is_ipv4()
    {
        return Ok(false);
    }
    let version = if new.is_ipv4() { 4 } else { 6 };
    // All of the header, as its checksum is written, too.
    let header = packet.get(quoted..quoted + if version == 4 { 20 } else { 40 });
    let is_quoted = header.is_some_and(|header| header[0] >> 4 == version);
    if !is_quoted || read(packet, quoted, field, new.is_ipv4()) != Some(old) {
        return Ok(false);
    }

    // The checksum of ICMP covers quoted addresses alone. The quoted IPv4 header sums to the same
    // as before, with its updated checksum.
    let covering = Covering {
        at: quoted - ICMP_HEADER + 2,
        protocol: ICMPV6,
        is_complete: true,
    };
    replace(
        packet,
        quoted,
        field,
        new,
        (version == 6).then_some(covering),
    );
    Ok(true)
}

fn transport_checksum(packet: &Packet<'_>, is_complete: bool) -> Option<Covering> {
    if packet.fragment() == Fragment::Later {
        return None;
    }
    let offset = match packet.protocol() {
        TCP => 16,
        UDP => 6,
        ICMPV6 if !packet.is_ipv4() => 2,
        other if AS_UDP.contains(&other) => 6,
        _ => return None,
    };
    let field = packet.payload().get(offset..offset + 2)?;
    // RFC 768: zero means that there is no checksum.
    if packet.protocol() == UDP && field == [0, 0] {
        return None;
    }

    Some(Covering {
        at: packet.header_length() + offset,
        protocol: packet.protocol(),
        is_complete,
    })
}

/// Where an address stands in the header that begins at `start`.
fn place(start: usize, field: AddressField, is_ipv4: bool) -> [usize; 2] {
    let [at, length] = match (is_ipv4, field) {
        (true, AddressField::Source) => [12, 4],
        (true, AddressField::Destination) => [16, 4],
        (false, AddressField::Source) => [8, 16],
        (false, AddressField::Destination) => [24, 16],
    };
    [start + at, start + at + length]
}

fn read(packet: &[u8], start: usize, field: AddressField, is_ipv4: bool) -> Option<IpAddr> {
    let [from, to] = place(start, field, is_ipv4);
    let octets = packet.get(from..to)?;
    match is_ipv4 {
        true => octets.try_into().ok().map(|octets: [u8; 4]| octets.into()),
        false => octets.try_into().ok().map(|octets: [u8; 16]| octets.into()),
    }
}

/// Replaces an address in the header that begins at `start`, word by word, and updates the
/// checksums that cover it.
fn replace(
    packet: &mut [u8],
    start: usize,
    field: AddressField,
    address: IpAddr,
    covering: Option<Covering>,
) {
    let mut octets = [0; 16];
    match address {
        IpAddr::V4(address) => octets[..4].copy_from_slice(&address.octets()),
        IpAddr::V6(address) => octets = address.octets(),
    }

    let [from, to] = place(start, field, address.is_ipv4());
    for at in (from..to).step_by(2) {
        let old = word(packet, at);
        let new = word(&octets, at - from);
        put(packet, at, new);
        if address.is_ipv4() {
            let sum = updated(word(packet, start + 10), old, new);
            put(packet, start + 10, sum);
        }
        if let Some(covering) = covering {
            follow(packet, covering, old, new);
        }
    }
}

fn follow(packet: &mut [u8], covering: Covering, old: u16, new: u16) {
    let before = word(packet, covering.at);
    let sum = match covering.is_complete {
        true => updated(before, old, new),
        // The sum itself stands there, not yet inverted.
        false => !updated(!before, old, new),
    };
    // RFC 768: a checksum of zero is written as its other form.
    let sum = match (sum, covering.protocol) {
        (0, UDP) if covering.is_complete => 0xffff,
        (sum, _) => sum,
    };
    put(packet, covering.at, sum);
}

fn word(packet: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([packet[at], packet[at + 1]])
}

fn put(packet: &mut [u8], at: usize, word: u16) {
    packet[at..at + 2].copy_from_slice(&word.to_be_bytes());
}
