//! A packet as its headers describe it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::checksum::checksum;
use super::extensions::{self, Upper};
use super::{ICMP, ICMPV6, TCP, UDP};

/// Bytes of an IPv4 header without options.
pub(super) const V4_HEADER: usize = 20;
/// Bytes of an IPv6 header without extensions.
pub(super) const V6_HEADER: usize = 40;

/// Protocols that begin with two ports besides TCP and UDP: DCCP, SCTP and UDP-Lite.
pub(super) const WITH_PORTS: [u8; 3] = [33, 132, 136];

/// Bytes of the transport's header that a first fragment must hold: the flags of TCP are among them (RFC 1858, section 3).
const FIRST_FRAGMENT_TCP: usize = 16;

/// The longest packet whole, in bytes, by the 16 bits of its lengths.
const MAX_WHOLE: usize = 65_535;

/// The flow of a packet: addresses, protocol and ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IpFlow {
    /// Where it comes from.
    pub source: IpAddr,
    /// Where it goes.
    pub destination: IpAddr,
    /// The IP protocol number of the payload, behind all extension headers.
    pub protocol: u8,
    /// The source port; 0 for a protocol without ports, and for a later fragment.
    pub source_port: u16,
    /// The destination port; 0 likewise.
    pub destination_port: u16,
}

impl IpFlow {
    /// The flow of the answers.
    #[must_use]
    pub fn reversed(&self) -> Self {
        Self {
            source: self.destination,
            destination: self.source,
            protocol: self.protocol,
            source_port: self.destination_port,
            destination_port: self.source_port,
        }
    }
}

/// Which part of a packet this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fragment {
    /// All of it.
    Whole,
    /// Its beginning, with the transport's header.
    First,
    /// A part that says nothing of the transport.
    Later,
}

/// Why bytes are no packet that may be forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// The first four bits are neither 4 nor 6, or the packet is empty.
    #[error("it is of an unknown version of IP")]
    Version,
    /// The packet ends before its header does.
    #[error("it ends before its header does")]
    Truncated,
    /// Its header says another length.
    #[error("it has {actual} bytes, not {said} as in its header")]
    Length {
        /// The length in its header, in bytes.
        said: usize,
        /// The actual length, in bytes.
        actual: usize,
    },
    /// The header of IPv4 was damaged.
    #[error("the checksum of its IPv4 header is wrong")]
    Checksum,
    /// Its options are malformed.
    #[error("its IPv4 options are malformed")]
    Options,
    /// The packet names hops on its way: the address that is checked is not the one where it will
    /// go.
    #[error("it is source-routed")]
    SourceRouted,
    /// The packet has too many extension headers, or in an order that is not allowed.
    #[error("its extension headers are too many, or out of order")]
    Extensions,
    /// A fragment that ends beyond the longest packet, has no whole units, or hides the header of
    /// its transport.
    #[error("it is a fragment that is not allowed")]
    Fragment,
    /// Its transport's header is cut off.
    #[error("it ends before the header of its transport does")]
    Transport,
}

/// A packet with parsed headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    bytes: &'a [u8],
    flow: IpFlow,
    hop_limit: u8,
    fragment: Fragment,
    header: usize,
}

impl<'a> Packet<'a> {
    /// Reads the headers, up to the ports.
    ///
    /// # Errors
    /// [`PacketError`]: nothing may be concluded from such a packet, not even whom to tell.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, PacketError> {
        match bytes.first().map(|byte| byte >> 4) {
            Some(4) => Self::parse_v4(bytes),
            Some(6) => Self::parse_v6(bytes),
            _ => Err(PacketError::Version),
        }
    }

    fn parse_v4(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let fixed: &[u8; V4_HEADER] = bytes.first_chunk().ok_or(PacketError::Truncated)?;
        let header = usize::from(fixed[0] & 0x0f) * 4;
        if header < V4_HEADER || header > bytes.len() {
            return Err(PacketError::Truncated);
        }
        let said = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
        expect_length(said, bytes)?;

        // RFC 1812, section 5.2.2: a router verifies it.
        if checksum(&bytes[..header]) != 0 {
            return Err(PacketError::Checksum);
        }
        if header > V4_HEADER {
            extensions::check_options(&bytes[V4_HEADER..header])?;
        }

        let offset = u16::from_be_bytes([fixed[6], fixed[7]]);
        let fragment = fragment(offset << 3, offset & 0x2000 != 0, bytes.len() - header)?;
        let upper = Upper {
            protocol: fixed[9],
            at: header,
            fragment,
        };
        let source = [fixed[12], fixed[13], fixed[14], fixed[15]];
        let destination = [fixed[16], fixed[17], fixed[18], fixed[19]];

        Self::with_ports(
            bytes,
            Ipv4Addr::from(source).into(),
            Ipv4Addr::from(destination).into(),
            fixed[8],
            upper,
        )
    }

    fn parse_v6(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let fixed: &[u8; V6_HEADER] = bytes.first_chunk().ok_or(PacketError::Truncated)?;
        let payload = usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
        expect_length(V6_HEADER + payload, bytes)?;

        let upper = extensions::walk(bytes, fixed[6])?;
        let address = |at: usize| {
            let octets: [u8; 16] = std::array::from_fn(|index| fixed[at + index]);
            IpAddr::V6(Ipv6Addr::from(octets))
        };
        Self::with_ports(bytes, address(8), address(24), fixed[7], upper)
    }

    fn with_ports(
        bytes: &'a [u8],
        source: IpAddr,
        destination: IpAddr,
        hop_limit: u8,
        upper: Upper,
    ) -> Result<Self, PacketError> {
        let ports = ports(&bytes[upper.at..], upper)?;
        Ok(Self {
            bytes,
            flow: IpFlow {
                source,
                destination,
                protocol: upper.protocol,
                source_port: ports[0],
                destination_port: ports[1],
            },
            hop_limit,
            fragment: upper.fragment,
            header: upper.at,
        })
    }

    /// All of it.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The payload of the IP headers: the transport's header and payload, or a later part of these.
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[self.header..]
    }

    /// Bytes before [the payload](Self::payload): the IP header with its options or extension headers.
    pub fn header_length(&self) -> usize {
        self.header
    }

    /// The packet's flow.
    pub fn flow(&self) -> IpFlow {
        self.flow
    }

    /// Where it comes from.
    pub fn source(&self) -> IpAddr {
        self.flow.source
    }

    /// Where it goes.
    pub fn destination(&self) -> IpAddr {
        self.flow.destination
    }

    /// The IP protocol number of the payload, behind all extension headers.
    pub fn protocol(&self) -> u8 {
        self.flow.protocol
    }

    /// Over how many hops it may still go.
    pub fn hop_limit(&self) -> u8 {
        self.hop_limit
    }

    /// Which part of a packet it is.
    pub fn fragment(&self) -> Fragment {
        self.fragment
    }

    /// Whether it is of IPv4.
    pub fn is_ipv4(&self) -> bool {
        self.flow.source.is_ipv4()
    }

    /// Whether it is one of the two segments of TCP that open a connection: only these name the size of segments.
    pub fn is_tcp_syn(&self) -> bool {
        const SYN: u8 = 0x02;
        self.flow.protocol == TCP
            && self.fragment != Fragment::Later
            && self.payload()[13] & SYN != 0
    }

    /// Whether it opens a connection of TCP from its source: the first segment, not the one that answers it.
    pub fn opens_tcp(&self) -> bool {
        const ACK: u8 = 0x10;
        self.is_tcp_syn() && self.payload()[13] & ACK == 0
    }

    /// Whether it breaks a connection of TCP off.
    pub fn resets_tcp(&self) -> bool {
        const RST: u8 = 0x04;
        let flags = self.payload().get(13);
        self.protocol() == TCP
            && self.fragment != Fragment::Later
            && flags.is_some_and(|flags| flags & RST != 0)
    }

    /// Whether it asks for an echo (RFC 792; RFC 4443, section 4.1).
    pub fn is_echo_request(&self) -> bool {
        if self.fragment == Fragment::Later {
            return false;
        }
        let kind = self.payload().first();
        match self.protocol() {
            ICMP if self.is_ipv4() => kind == Some(&8),
            ICMPV6 if !self.is_ipv4() => kind == Some(&128),
            _ => false,
        }
    }

    /// Whether it reports the fate of another packet (RFC 792; RFC 4443, section 2.1).
    pub fn is_icmp_error(&self) -> bool {
        if self.fragment == Fragment::Later {
            return false;
        }
        let kind = self.payload().first();
        match self.protocol() {
            // Source quench and redirects are errors, too (RFC 1122, section 3.2.2).
            ICMP if self.is_ipv4() => matches!(kind, Some(3..=5 | 11 | 12)),
            // Errors of unknown types are handed on as well (RFC 4443, section 2.1).
            ICMPV6 if !self.is_ipv4() => matches!(kind, Some(0..=127)),
            _ => false,
        }
    }

    /// Whether a router may not cut it into fragments: IPv6 never (RFC 8200, section 5), IPv4 where it says so.
    pub fn keeps_whole(&self) -> bool {
        !self.is_ipv4() || self.bytes[6] & 0x40 != 0
    }
}

fn expect_length(said: usize, bytes: &[u8]) -> Result<(), PacketError> {
    if said != bytes.len() {
        return Err(PacketError::Length {
            said,
            actual: bytes.len(),
        });
    }
    Ok(())
}

/// Which part of a packet has `length` bytes and begins at `offset`, in bytes; whether `more` follow.
pub(super) fn fragment(offset: u16, more: bool, length: usize) -> Result<Fragment, PacketError> {
    let end = usize::from(offset) + length;
    let ragged = more && (length == 0 || !length.is_multiple_of(8));
    // A fragment this early overwrites the header that a rule has read in the first (RFC 3128). No
    // real sender makes one: every link carries more (RFC 791, section 3.2).
    let overwrites = offset == 8;
    if end > MAX_WHOLE || ragged || overwrites {
        return Err(PacketError::Fragment);
    }

    Ok(match (offset, more) {
        (0, false) => Fragment::Whole,
        (0, true) => Fragment::First,
        _ => Fragment::Later,
    })
}

/// The ports at the beginning of a payload; zeros if it has no ports.
fn ports(payload: &[u8], upper: Upper) -> Result<[u16; 2], PacketError> {
    let protocol = upper.protocol;
    if upper.fragment == Fragment::Later {
        return Ok([0; 2]);
    }
    if protocol != TCP && protocol != UDP && !WITH_PORTS.contains(&protocol) {
        return Ok([0; 2]);
    }

    let least = match (upper.fragment, protocol) {
        (Fragment::First, TCP) => FIRST_FRAGMENT_TCP,
        (_, TCP) => 20,
        (_, UDP) => 8,
        _ => 4,
    };
    if payload.len() < least {
        return Err(match upper.fragment {
            Fragment::Whole => PacketError::Transport,
            Fragment::First | Fragment::Later => PacketError::Fragment,
        });
    }

    let word = |at: usize| u16::from_be_bytes([payload[at], payload[at + 1]]);
    Ok([word(0), word(2)])
}

#[cfg(test)]
mod tests;
