//! Blocks of pcapng (draft-ietf-opsawg-pcapng), and the packets in them.
//!
//! Flows have no packets here, so headers of IP, TCP and UDP are made for their pieces: enough to follow a stream.

use std::net::{IpAddr, SocketAddr};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::{BufMut, Bytes};

/// Longest payload of a packet that is made; longer pieces are cut in the files.
#[doc(alias = "bound")]
pub(super) const PAYLOAD: usize = 65_000;

/// Packets begin with a header of IP: LINKTYPE_RAW.
const LINK_TYPE: u16 = 101;

/// Microseconds since 1970, the default resolution.
const COMMENT: u16 = 1;
const DROPPED_BY_INTERFACE: u16 = 5;

/// The protocol of a recorded flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FlowProtocol {
    Tcp,
    Udp,
}

/// The flags of a segment of TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flags {
    Syn,
    Ack,
    Fin,
}

/// A piece of a flow.
pub(super) struct FlowPacket {
    pub(super) at: SystemTime,
    pub(super) protocol: FlowProtocol,
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    pub(super) flags: Flags,
    pub(super) sequence: u32,
    pub(super) payload: Bytes,
    pub(super) comment: Option<Box<str>>,
}

/// Appends the blocks that a file begins with: a section, and one interface.
pub(super) fn begin(file: &mut Vec<u8>) {
    block(file, 0x0a0d_0d0a, |body| {
        body.put_u32_le(0x1a2b_3c4d);
        body.put_u16_le(1);
        body.put_u16_le(0);
        // The length of the section is not known.
        body.put_u64_le(u64::MAX);
    });
    block(file, 1, |body| {
        body.put_u16_le(LINK_TYPE);
        body.put_u16_le(0);
        body.put_u32_le(0);
    });
}

/// Appends the number of pieces that are missing.
pub(super) fn missing(file: &mut Vec<u8>, at: SystemTime, count: u64) {
    block(file, 5, |body| {
        body.put_u32_le(0);
        put_time(body, at);
        body.put_u16_le(DROPPED_BY_INTERFACE);
        body.put_u16_le(8);
        body.put_u64_le(count);
        body.put_u32_le(0);
    });
}

/// Appends a piece of a flow.
pub(super) fn append(file: &mut Vec<u8>, piece: &FlowPacket) {
    let mut packet = Vec::with_capacity(60 + piece.payload.len());
    put_packet(&mut packet, piece);
    let whole = packet.len() + piece.payload.len().saturating_sub(PAYLOAD);
    block(file, 6, |body| {
        body.put_u32_le(0);
        put_time(body, piece.at);
        body.put_u32_le(length(packet.len()));
        body.put_u32_le(length(whole));
        body.put_slice(&packet);
        pad(body);
        if let Some(comment) = &piece.comment {
            let kept = &comment.as_bytes()[..comment.floor_char_boundary(1024)];
            body.put_u16_le(COMMENT);
            body.put_u16_le(u16::try_from(kept.len()).unwrap_or(0));
            body.put_slice(kept);
            pad(body);
            body.put_u32_le(0);
        }
    });
}

fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

fn pad(bytes: &mut Vec<u8>) {
    let missing = bytes.len().next_multiple_of(4) - bytes.len();
    bytes.put_bytes(0, missing);
}

fn put_time(body: &mut Vec<u8>, at: SystemTime) {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let microseconds = u64::try_from(since.as_micros()).unwrap_or(0);
    body.put_u32_le((microseconds >> 32) as u32);
    body.put_u32_le((microseconds & 0xffff_ffff) as u32);
}

/// A block has its length before and after its body.
fn block(file: &mut Vec<u8>, kind: u32, write: impl FnOnce(&mut Vec<u8>)) {
    let mut body = Vec::new();
    write(&mut body);
    pad(&mut body);
    let whole = length(body.len() + 12);
    file.put_u32_le(kind);
    file.put_u32_le(whole);
    file.put_slice(&body);
    file.put_u32_le(whole);
}

fn put_packet(packet: &mut Vec<u8>, piece: &FlowPacket) {
    let payload = &piece.payload[..piece.payload.len().min(PAYLOAD)];
    let (number, header) = match piece.protocol {
        FlowProtocol::Tcp => (6, 20),
        FlowProtocol::Udp => (17, 8),
    };
    let inner = header + payload.len();
    match (piece.from.ip(), piece.to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            packet.put_slice(&[0x45, 0]);
            packet.put_u16(u16::try_from(inner + 20).unwrap_or(0));
            packet.put_slice(&[0, 0, 0x40, 0, 64, number, 0, 0]);
            packet.put_slice(&from.octets());
            packet.put_slice(&to.octets());
        }
        (from, to) => {
            packet.put_slice(&[0x60, 0, 0, 0]);
            packet.put_u16(u16::try_from(inner).unwrap_or(0));
            packet.put_slice(&[number, 64]);
            packet.put_slice(&v6(from));
            packet.put_slice(&v6(to));
        }
    }

    packet.put_u16(piece.from.port());
    packet.put_u16(piece.to.port());
    match piece.protocol {
        FlowProtocol::Udp => {
            packet.put_u16(u16::try_from(inner).unwrap_or(0));
            packet.put_u16(0);
        }
        FlowProtocol::Tcp => {
            packet.put_u32(piece.sequence);
            packet.put_u32(0);
            let flags = match piece.flags {
                Flags::Syn => 0x02,
                Flags::Ack => 0x18,
                Flags::Fin => 0x11,
            };
            packet.put_slice(&[0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
        }
    }
    packet.put_slice(payload);
}

fn v6(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V6(address) => address.octets(),
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_say_their_length_twice_and_are_padded() {
        let mut file = Vec::new();
        begin(&mut file);
        let piece = FlowPacket {
            at: UNIX_EPOCH,
            protocol: FlowProtocol::Tcp,
            from: "192.0.2.1:5000".parse().unwrap(),
            to: "192.0.2.2:54321".parse().unwrap(),
            flags: Flags::Ack,
            sequence: 1,
            payload: Bytes::from_static(b"hello"),
            comment: Some("target a:1 user -".into()),
        };
        append(&mut file, &piece);
        missing(&mut file, UNIX_EPOCH, 3);

        let mut rest = &file[..];
        let mut kinds = Vec::new();
        while !rest.is_empty() {
            let word = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().unwrap());
            let length = word(4) as usize;
            assert_eq!(length % 4, 0);
            assert_eq!(word(length - 4) as usize, length);
            kinds.push(word(0));
            rest = &rest[length..];
        }
        assert_eq!(kinds, [0x0a0d_0d0a, 1, 6, 5]);
    }
}
