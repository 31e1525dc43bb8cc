//! The header before a super-packet, on the wire and at a device.

use bytes::{BufMut, BytesMut};

/// Bytes of the header.
pub const HEADER_BYTES: usize = 10;

/// The longest super-packet with its header, in bytes: the limit of the length fields of IP.
#[doc(alias = "bound")]
pub const MAX_OFFLOADED: usize = HEADER_BYTES + 40 + 65_535;

/// Flags: the checksum has yet to be computed, or was verified.
const NEEDS_CHECKSUM: u8 = 1;
const DATA_VALID: u8 = 2;

/// Kinds, of which `ECN` is a flag.
const NONE: u8 = 0;
const TCP_V4: u8 = 1;
const TCP_V6: u8 = 4;
const UDP_L4: u8 = 5;
const ECN: u8 = 0x80;

/// How a packet is to be cut.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum OffloadKind {
    /// Not at all.
    #[default]
    Whole,
    /// Into segments of TCP over IPv4.
    TcpV4,
    /// Into segments of TCP over IPv6.
    TcpV6,
    /// Into UDP datagrams.
    Udp,
}

/// The work that is left to do on a packet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct OffloadHeader {
    /// How it is to be cut.
    pub kind: OffloadKind,
    /// Whether its checksum holds the sum of the pseudo-header only.
    pub needs_checksum: bool,
    /// Whether its checksum was verified, where it is complete.
    pub is_verified: bool,
    /// Whether its first segment only has the flag CWR (RFC 3168).
    pub has_cwr: bool,
    /// Bytes of all headers, which each segment repeats.
    pub header_length: u16,
    /// Bytes of payload of each segment; the last may have fewer.
    pub segment_size: u16,
    /// Where the transport begins, which the checksum covers.
    pub checksum_start: u16,
    /// Where the checksum stands, from there.
    pub checksum_offset: u16,
}

impl OffloadHeader {
    /// Into how many packets one of so many bytes is to be cut.
    pub fn segments_of(&self, bytes: usize) -> usize {
        let payload = bytes.saturating_sub(usize::from(self.header_length));
        match (self.kind, self.segment_size) {
            (OffloadKind::Whole, _) | (_, 0) => 1,
            (_, size) => payload.div_ceil(usize::from(size)).max(1),
        }
    }

    /// Nothing to do: an ordinary packet.
    pub const DONE: Self = Self {
        kind: OffloadKind::Whole,
        needs_checksum: false,
        is_verified: false,
        has_cwr: false,
        header_length: 0,
        segment_size: 0,
        checksum_start: 0,
        checksum_offset: 0,
    };

    /// Appends it as it is sent to a peer.
    pub fn encode(&self, output: &mut BytesMut) {
        output.put_slice(&[self.flags(), self.code()]);
        for word in self.words() {
            output.put_u16(word);
        }
    }

    /// Decodes a header from a peer, and returns the packet behind it; `None` for a kind that does
    /// not exist, or if bytes are missing. Its fields are not to be trusted before
    /// [`check`](Self::check); its claim that the checksum was verified is ignored.
    pub fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (header, packet) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let mut header = Self::of(header[0], header[1], [word(2), word(4), word(6), word(8)])?;
        // "Verified" is the word of a device; a peer's is worth nothing, so sums are computed again.
        header.is_verified = false;
        Some((header, packet))
    }

    /// The header that a device wants before a packet: a `virtio_net_hdr` in the byte order of this
    /// machine.
    pub fn to_device(&self) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        header[0] = self.flags();
        header[1] = self.code();
        for (at, word) in self.words().into_iter().enumerate() {
            // VIRTIO 1.2, 5.1.6: the kernel's side is in native order; only the wire has network order.
            header[2 + 2 * at..4 + 2 * at].copy_from_slice(&word.to_ne_bytes());
        }
        header
    }

    /// Decodes the header that a device puts before a packet; `None` for an unknown kind.
    pub fn from_device(header: &[u8; HEADER_BYTES]) -> Option<Self> {
        let word = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
        Self::of(header[0], header[1], [word(2), word(4), word(6), word(8)])
    }

    fn of(flags: u8, code: u8, words: [u16; 4]) -> Option<Self> {
        let kind = match code & !ECN {
            NONE => OffloadKind::Whole,
            TCP_V4 => OffloadKind::TcpV4,
            TCP_V6 => OffloadKind::TcpV6,
            UDP_L4 => OffloadKind::Udp,
            _ => return None,
        };
        // The ECN bit alone would be a kind of its own, which no specification defines.
        if kind == OffloadKind::Whole && code != NONE {
            return None;
        }

        Some(Self {
            kind,
            needs_checksum: flags & NEEDS_CHECKSUM != 0,
            is_verified: flags & DATA_VALID != 0,
            has_cwr: code & ECN != 0,
            header_length: words[0],
            segment_size: words[1],
            checksum_start: words[2],
            checksum_offset: words[3],
        })
    }

    fn flags(&self) -> u8 {
        match (self.needs_checksum, self.is_verified) {
            // VIRTIO 1.2, 5.1.6.2: never both; a packet without its sum cannot have been verified.
            (true, _) => NEEDS_CHECKSUM,
            (false, true) => DATA_VALID,
            (false, false) => 0,
        }
    }

    fn code(&self) -> u8 {
        let code = match self.kind {
            OffloadKind::Whole => NONE,
            OffloadKind::TcpV4 => TCP_V4,
            OffloadKind::TcpV6 => TCP_V6,
            OffloadKind::Udp => UDP_L4,
        };
        code | if self.has_cwr { ECN } else { 0 }
    }

    fn words(&self) -> [u16; 4] {
        [
            self.header_length,
            self.segment_size,
            self.checksum_start,
            self.checksum_offset,
        ]
    }
}
