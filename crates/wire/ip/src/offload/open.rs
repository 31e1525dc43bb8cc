//! A super-packet that grows.

use hermes_proto::ip::{IpFlow, Packet, TCP};

use super::check::{MAX_TCP_SEGMENTS, MAX_UDP_SEGMENTS};
use super::header::{OffloadHeader, OffloadKind};
use super::headers::{CWR, FIN, FLAGS, Layout, PSH, RST, SYN, URG, put, sequence, word};

/// The longest that it grows: every length of it is 16 bits.
const LONGEST: usize = 65_535;

/// Packets of one flow, one behind the other, with the headers of the first.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) flow: IpFlow,
    layout: Layout,
    bytes: Vec<u8>,
    size: usize,
    count: usize,
    /// Flags of the last segment, which the whole gets.
    flags: u8,
}

/// How a packet may be part of a super-packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Not at all.
    Alone,
    /// At the end only: nothing follows it.
    Last,
    /// Anywhere.
    Any,
}

impl Part {
    /// How `packet` may be part; its checksum is looked at by the caller.
    pub(super) fn of(packet: &Packet<'_>, layout: Layout) -> Self {
        let bytes = packet.bytes();
        // Options and extension headers say something about one packet.
        let plain = if layout.is_ipv4 { 20 } else { 40 };
        // Empty segments are acknowledgements: merged, a sender would count fewer of them (RFC 5681, 3.2).
        if layout.transport != plain || bytes.len() == layout.payload {
            return Self::Alone;
        }
        if layout.protocol != TCP {
            let length = usize::from(word(bytes, layout.transport + 4));
            return match length == packet.payload().len() {
                true => Self::Any,
                false => Self::Alone,
            };
        }

        match packet.payload()[FLAGS] {
            // These speak of one segment; CWR in all pieces of a super-packet would answer several marks at once.
            flags if flags & (SYN | RST | URG | CWR) != 0 => Self::Alone,
            flags if flags & (FIN | PSH) != 0 => Self::Last,
            _ => Self::Any,
        }
    }
}

impl Open {
    /// Begins with a packet.
    pub(super) fn begin(packet: &Packet<'_>, layout: Layout, mut room: Vec<u8>) -> Self {
        room.clear();
        room.extend_from_slice(packet.bytes());
        Self {
            flow: packet.flow(),
            layout,
            size: packet.bytes().len() - layout.payload,
            count: 1,
            flags: packet.payload().get(FLAGS).copied().unwrap_or(0),
            bytes: room,
        }
    }

    /// Appends a packet of the flow; false if it does not continue the open one.
    pub(super) fn append(&mut self, packet: &Packet<'_>, layout: Layout) -> bool {
        let next = packet.bytes();
        let payload = &next[layout.payload.min(next.len())..];
        let most = match layout.protocol {
            TCP => MAX_TCP_SEGMENTS,
            _ => MAX_UDP_SEGMENTS,
        };
        // Only the last segment may be shorter than the first: cutting restores sizes by that rule alone.
        let fits = payload.len() <= self.size
            && self.count < most
            && self.bytes.len() + payload.len() <= LONGEST;
        if layout != self.layout || !fits || !self.is_continued_by(next) {
            return false;
        }

        self.bytes.extend_from_slice(payload);
        self.count += 1;
        if layout.protocol == TCP {
            // FIN and PSH are on the last segment, where cutting puts them again.
            self.flags = next[layout.transport + FLAGS];
        }
        true
    }

    /// Whether a segment is full: after a shorter one, nothing follows.
    pub(super) fn is_full(&self, payload: usize) -> bool {
        payload == self.size
    }

    /// Bytes of payload of a packet with these headers.
    pub(super) fn payload_of(&self, packet: &Packet<'_>) -> usize {
        packet.bytes().len() - self.layout.payload
    }

    /// Whether the headers are those of the next packet, as [cutting](super::segment) would make them.
    fn is_continued_by(&self, next: &[u8]) -> bool {
        let Layout {
            is_ipv4, transport, ..
        } = self.layout;
        let first = &self.bytes;
        let same_ip = match is_ipv4 {
            // All but lengths, identification and checksum.
            true => first[..2] == next[..2] && first[6..10] == next[6..10],
            false => first[..4] == next[..4] && first[6..8] == next[6..8],
        };
        // Of a packet that is never cut, the identification means nothing (RFC 6864, section 4.1), and many senders write the same.
        let has_meaning = is_ipv4 && next[6] & 0x40 == 0;
        let follows = word(next, 4) == word(first, 4).wrapping_add(self.count as u16);
        let is_next = !has_meaning || follows;

        same_ip && is_next && (self.layout.protocol != TCP || self.is_next_segment(next, transport))
    }

    fn is_next_segment(&self, next: &[u8], transport: usize) -> bool {
        let first = &self.bytes;
        let sent = (first.len() - self.layout.payload) as u32;
        let expected = sequence(first, transport).wrapping_add(sent);
        // The rest of the flags (ACK, ECE) is in every segment or in none.
        let [own, other] = [first, next].map(|packet| packet[transport + FLAGS] & !(FIN | PSH));

        sequence(next, transport) == expected
            && own == other
            // The acknowledgement and the length of the header; window; urgent pointer and options.
            && first[transport + 8..transport + 13] == next[transport + 8..transport + 13]
            && first[transport + 14..transport + 16] == next[transport + 14..transport + 16]
            && first[transport + 18..self.layout.payload] == next[transport + 18..self.layout.payload]
    }

    /// Ends the open packet: the work left to do on it, and the packet. For a single packet, there
    /// is no work.
    pub(super) fn finish(&mut self) -> (OffloadHeader, &[u8]) {
        // A packet alone leaves as it came, with its own checksum.
        if self.count == 1 {
            return (OffloadHeader::DONE, &self.bytes);
        }

        let layout = self.layout;
        if layout.protocol == TCP {
            self.bytes[layout.transport + FLAGS] = self.flags;
        }
        layout.write_lengths(&mut self.bytes);
        // The device adds the rest (VIRTIO 1.2, section 5.1.6.2).
        let partial = layout
            .pseudo_header(&self.bytes, self.bytes.len() - layout.transport)
            .folded();
        put(&mut self.bytes, layout.transport + layout.checksum, partial);

        let kind = match (layout.protocol, layout.is_ipv4) {
            (TCP, true) => OffloadKind::TcpV4,
            (TCP, false) => OffloadKind::TcpV6,
            _ => OffloadKind::Udp,
        };
        let header = OffloadHeader {
            kind,
            needs_checksum: true,
            header_length: layout.payload as u16,
            segment_size: self.size as u16,
            checksum_start: layout.transport as u16,
            checksum_offset: layout.checksum as u16,
            ..OffloadHeader::DONE
        };
        (header, &self.bytes)
    }

    /// Its memory, for the next.
    pub(super) fn into_room(self) -> Vec<u8> {
        self.bytes
    }
}
