//! Checks of a super-packet: a peer, or a kernel bug, must not make a device read or write beyond
//! it.

use hermes_proto::ip::{Packet, PacketError, TCP, UDP};

use super::header::{OffloadHeader, OffloadKind};
use super::headers::{FLAGS, Layout, RST, SYN, URG};

/// Segments of a super-packet of TCP: as many as full ones of 256 bytes. A size of one byte would make 65,000 of one packet.
#[doc(alias = "bound")]
pub const MAX_TCP_SEGMENTS: usize = 256;

/// Datagrams of a super-packet of UDP: the most that Linux takes (`UDP_MAX_SEGMENTS`).
#[doc(alias = "bound")]
pub const MAX_UDP_SEGMENTS: usize = 128;

/// Why a super-packet is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OffloadError {
    /// There is no header, or one of an unknown kind.
    #[error("its super-packet header is malformed")]
    Header,
    /// The bytes behind the header are not a packet.
    #[error(transparent)]
    Packet(#[from] PacketError),
    /// Its header says that it is of another family or protocol.
    #[error("its kind differs from the one in its header")]
    Kind,
    /// Its headers end elsewhere.
    #[error("its headers have {actual} bytes, not {said}")]
    HeaderLength {
        /// The length in its header, in bytes.
        said: usize,
        /// The actual length, in bytes.
        actual: usize,
    },
    /// The packet cannot be cut into segments of that size.
    #[error("{payload} bytes are not to be cut into segments of {size}")]
    SegmentSize {
        /// Bytes of all segments.
        payload: usize,
        /// Bytes of each.
        size: usize,
    },
    /// Its checksum stands elsewhere, or is said to be complete although it cannot be.
    #[error("its checksum is not where its header says")]
    Checksum,
    /// A segment with such flags stands for itself.
    #[error("segments that open or abort a connection, or are urgent, are never merged")]
    Flags,
    /// The length of UDP is another.
    #[error("its length of UDP is not that of the packet")]
    UdpLength,
}

/// A packet, and the work left to do on it; both have been checked.
#[derive(Debug, Clone, Copy)]
pub struct Offloaded<'a> {
    pub(super) packet: Packet<'a>,
    pub(super) header: OffloadHeader,
    /// Where its headers end; `None` for a fragment, or another protocol than TCP and UDP, which is
    /// never cut.
    pub(super) layout: Option<Layout>,
}

impl OffloadHeader {
    /// Checks it against the packet that follows it.
    ///
    /// # Errors
    /// [`OffloadError`]: neither may be given to a device.
    pub fn check(self, packet: &[u8]) -> Result<Offloaded<'_>, OffloadError> {
        let packet = Packet::parse(packet)?;
        self.check_parsed(packet, Layout::of(&packet))
    }

    fn check_parsed(
        self,
        packet: Packet<'_>,
        layout: Option<Layout>,
    ) -> Result<Offloaded<'_>, OffloadError> {
        self.check_checksum(layout)?;
        if self.kind != OffloadKind::Whole {
            self.check_cut(&packet, layout.ok_or(OffloadError::Kind)?)?;
        }

        Ok(Offloaded {
            packet,
            header: self.cleared(),
            layout,
        })
    }

    /// Without numbers that mean nothing here: a device might look at them.
    fn cleared(mut self) -> Self {
        if self.kind == OffloadKind::Whole {
            self.header_length = 0;
            self.segment_size = 0;
        }
        if !self.needs_checksum {
            self.checksum_start = 0;
            self.checksum_offset = 0;
        }
        self
    }

    /// As [`check`](Self::check), for a packet from a device: `header_length` of Linux is the
    /// length of the first contiguous part, which may be more than the headers, and is corrected
    /// first.
    ///
    /// # Errors
    /// [`OffloadError`].
    pub fn check_device(mut self, packet: &[u8]) -> Result<Offloaded<'_>, OffloadError> {
        let packet = Packet::parse(packet)?;
        let layout = Layout::of(&packet);
        if self.kind != OffloadKind::Whole {
            self.header_length = layout.map_or(0, |layout| layout.payload) as u16;
        }
        self.check_parsed(packet, layout)
    }

    fn check_checksum(&self, layout: Option<Layout>) -> Result<(), OffloadError> {
        if !self.needs_checksum {
            return match self.kind {
                OffloadKind::Whole => Ok(()),
                // Segments are made with new checksums, or a damaged one would be mended.
                _ => Err(OffloadError::Checksum),
            };
        }

        let layout = layout.ok_or(OffloadError::Checksum)?;
        let said = [self.checksum_start, self.checksum_offset].map(usize::from);
        match said == [layout.transport, layout.checksum] {
            true => Ok(()),
            false => Err(OffloadError::Checksum),
        }
    }

    fn check_cut(&self, packet: &Packet<'_>, layout: Layout) -> Result<(), OffloadError> {
        let kind = match (layout.protocol, layout.is_ipv4) {
            (TCP, true) => OffloadKind::TcpV4,
            (TCP, false) => OffloadKind::TcpV6,
            _ => OffloadKind::Udp,
        };
        if kind != self.kind || (self.has_cwr && kind == OffloadKind::Udp) {
            return Err(OffloadError::Kind);
        }

        let said = usize::from(self.header_length);
        if said != layout.payload {
            let actual = layout.payload;
            return Err(OffloadError::HeaderLength { said, actual });
        }

        let payload = packet.bytes().len() - layout.payload;
        let size = usize::from(self.segment_size);
        let most = match layout.protocol {
            TCP => MAX_TCP_SEGMENTS,
            _ => MAX_UDP_SEGMENTS,
        };
        if size == 0 || payload == 0 || payload.div_ceil(size) > most {
            return Err(OffloadError::SegmentSize { payload, size });
        }
        check_transport(packet.payload(), layout.protocol)
    }
}

fn check_transport(transport: &[u8], protocol: u8) -> Result<(), OffloadError> {
    if protocol == TCP && transport[FLAGS] & (SYN | RST | URG) != 0 {
        return Err(OffloadError::Flags);
    }
    let length = usize::from(u16::from_be_bytes([transport[4], transport[5]]));
    if protocol == UDP && length != transport.len() {
        return Err(OffloadError::UdpLength);
    }
    Ok(())
}

impl<'a> Offloaded<'a> {
    /// The packet.
    pub fn packet(&self) -> &Packet<'a> {
        &self.packet
    }

    /// The work left to do on it.
    pub fn header(&self) -> OffloadHeader {
        self.header
    }

    /// Into how many packets it is to be cut.
    pub fn segments(&self) -> usize {
        match self.payload() {
            Some([payload, size]) => payload.div_ceil(size),
            None => 1,
        }
    }

    /// Bytes of its longest segment, headers included: this must fit the MTU.
    pub fn longest(&self) -> usize {
        match (self.payload(), self.layout) {
            (Some([payload, size]), Some(layout)) => layout.payload + size.min(payload),
            _ => self.packet.bytes().len(),
        }
    }

    /// Bytes of the payload to cut, and of each segment.
    fn payload(&self) -> Option<[usize; 2]> {
        let layout = self
            .layout
            .filter(|_| self.header.kind != OffloadKind::Whole)?;
        let payload = self.packet.bytes().len() - layout.payload;
        Some([payload, usize::from(self.header.segment_size)])
    }
}
