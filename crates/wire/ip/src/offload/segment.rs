//! Cuts super-packets into packets, as a device would.

use hermes_proto::ip::TCP;

use super::check::Offloaded;
use super::header::OffloadKind;
use super::headers::{CWR, FIN, FLAGS, Layout, PSH, put, sequence, word};

/// Where the identification of IPv4 stands.
const V4_IDENTIFICATION: usize = 4;

/// Passes on the packets that a super-packet is to be cut into, in order and complete. `room` is kept between calls for its memory.
pub fn segment(super_packet: &Offloaded<'_>, room: &mut Vec<u8>, mut packet: impl FnMut(&[u8])) {
    let whole = super_packet.packet.bytes();
    let layout = match super_packet.layout {
        Some(layout) if super_packet.header.kind != OffloadKind::Whole => layout,
        Some(layout) if super_packet.header.needs_checksum => {
            room.clear();
            room.extend_from_slice(whole);
            layout.write_checksum(room);
            return packet(room);
        }
        // Most packets lack nothing: they pass without a copy.
        _ => return packet(whole),
    };

    let [headers, payload] = [&whole[..layout.payload], &whole[layout.payload..]];
    let size = usize::from(super_packet.header.segment_size);
    let last = payload.len().div_ceil(size) - 1;
    for (index, part) in payload.chunks(size).enumerate() {
        room.clear();
        room.extend_from_slice(headers);
        room.extend_from_slice(part);

        if layout.is_ipv4 {
            let first = word(headers, V4_IDENTIFICATION);
            put(room, V4_IDENTIFICATION, first.wrapping_add(index as u16));
        }
        if layout.protocol == TCP {
            place_segment(room, layout, index * size, index == last);
        }
        layout.write_lengths(room);
        layout.write_checksum(room);
        packet(room);
    }
}

/// Gives a segment its place in the stream: at `offset` from the first.
fn place_segment(packet: &mut [u8], layout: Layout, offset: usize, is_last: bool) {
    let transport = layout.transport;
    let number = sequence(packet, transport).wrapping_add(offset as u32);
    packet[transport + 4..transport + 8].copy_from_slice(&number.to_be_bytes());

    let flags = &mut packet[transport + FLAGS];
    if !is_last {
        *flags &= !(FIN | PSH);
    }
    // CWR answers a congestion mark once, so only the first segment has it (RFC 3168, section
    // 6.1.2).
    if offset > 0 {
        *flags &= !CWR;
    }
}

/// Completes the checksum of a packet that is not to be cut, where it stands. Others stay.
pub fn complete_checksum(super_packet_header: super::OffloadHeader, packet: &mut [u8]) {
    let Ok(checked) = super_packet_header.check(packet) else {
        return;
    };
    let layout = checked.layout;
    let is_whole = checked.header.kind == OffloadKind::Whole;
    if let Some(layout) = layout.filter(|_| is_whole && super_packet_header.needs_checksum) {
        layout.write_checksum(packet);
    }
}
