//! The headers that segments of a flow share, and where their fields stand.

use hermes_proto::ip::checksum::{Sum, checksum};
use hermes_proto::ip::{Fragment, Packet, TCP, UDP};

/// Flags of TCP, in the byte at 13.
pub(super) const FIN: u8 = 0x01;
pub(super) const SYN: u8 = 0x02;
pub(super) const RST: u8 = 0x04;
pub(super) const PSH: u8 = 0x08;
pub(super) const URG: u8 = 0x20;
pub(super) const CWR: u8 = 0x80;

/// Where the flags of TCP stand, and its checksum; and the checksum of UDP.
pub(super) const FLAGS: usize = 13;
pub(super) const TCP_CHECKSUM: usize = 16;
pub(super) const UDP_CHECKSUM: usize = 6;

/// Bytes of a UDP header.
pub(super) const UDP_HEADER: usize = 8;

/// The layout of the headers of a packet that can be cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) is_ipv4: bool,
    pub(super) protocol: u8,
    /// Where the transport begins.
    pub(super) transport: usize,
    /// Where its payload begins.
    pub(super) payload: usize,
    /// Where the checksum stands, from the transport.
    pub(super) checksum: usize,
}

impl Layout {
    /// Of a whole packet of TCP or UDP; `None` for any other, and where its header is cut off.
    pub(super) fn of(packet: &Packet<'_>) -> Option<Self> {
        // Only the first fragment has a transport header, and none has the whole payload.
        if packet.fragment() != Fragment::Whole {
            return None;
        }
        let transport = packet.header_length();
        let bytes = packet.payload();
        let [header, checksum] = match packet.protocol() {
            TCP => [usize::from(bytes.get(12)? >> 4) * 4, TCP_CHECKSUM],
            UDP => [UDP_HEADER, UDP_CHECKSUM],
            _ => return None,
        };

        let least = if packet.protocol() == TCP {
            20
        } else {
            UDP_HEADER
        };
        (header >= least && header <= bytes.len()).then_some(Self {
            is_ipv4: packet.is_ipv4(),
            protocol: packet.protocol(),
            transport,
            payload: transport + header,
            checksum,
        })
    }

    /// The sum of the pseudo-header of a transport of `length` bytes in such a packet.
    pub(super) fn pseudo_header(&self, packet: &[u8], length: usize) -> Sum {
        let addresses = match self.is_ipv4 {
            true => &packet[12..20],
            false => &packet[8..40],
        };
        Sum::default()
            .bytes(addresses)
            .word(u16::from(self.protocol))
            .word(length as u16)
    }

    /// Writes the lengths that the packet has into its IP header and that of UDP, and mends the checksum of IPv4.
    pub(super) fn write_lengths(&self, packet: &mut [u8]) {
        let length = packet.len();
        if self.protocol == UDP {
            let datagram = (length - self.transport) as u16;
            put(packet, self.transport + 4, datagram);
        }
        match self.is_ipv4 {
            true => {
                put(packet, 2, length as u16);
                self.write_v4_checksum(packet);
            }
            false => put(packet, 4, (length - 40) as u16),
        }
    }

    fn write_v4_checksum(&self, packet: &mut [u8]) {
        put(packet, 10, 0);
        let sum = checksum(&packet[..self.transport]);
        put(packet, 10, sum);
    }

    /// Computes the checksum of the transport.
    pub(super) fn write_checksum(&self, packet: &mut [u8]) {
        let at = self.transport + self.checksum;
        put(packet, at, 0);
        let sum = self.sum(packet).checksum();
        // Zero would mean that there is no checksum (RFC 768).
        let sum = if sum == 0 && self.protocol == UDP {
            0xffff
        } else {
            sum
        };
        put(packet, at, sum);
    }

    /// Whether the checksum of the transport is there, and as it would be written anew: of its two forms of zero, TCP has the one and
    /// UDP the other.
    pub(super) fn is_intact(&self, packet: &[u8]) -> bool {
        // Both forms of zero sum up the same: the one that a sender never writes is not intact (RFC 768, RFC 1071).
        let other_form = match self.protocol {
            UDP => 0,
            _ => 0xffff,
        };
        let written = word(packet, self.transport + self.checksum);
        written != other_form && self.sum(packet).checksum() == 0
    }

    fn sum(&self, packet: &[u8]) -> Sum {
        let transport = &packet[self.transport..];
        self.pseudo_header(packet, transport.len()).bytes(transport)
    }
}

pub(super) fn put(packet: &mut [u8], at: usize, word: u16) {
    packet[at..at + 2].copy_from_slice(&word.to_be_bytes());
}

pub(super) fn word(packet: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([packet[at], packet[at + 1]])
}

pub(super) fn sequence(packet: &[u8], transport: usize) -> u32 {
    let at = transport + 4;
    u32::from_be_bytes([packet[at], packet[at + 1], packet[at + 2], packet[at + 3]])
}
