//! The PROXY protocol, versions 1 (text) and 2 (binary): the first bytes of a connection, in which
//! a load balancer names the client of the connection (haproxy.org, `doc/proxy-protocol.txt`).
//!
//! Anyone who can write such a header can claim any address, so only the caller, who knows the real peer, can say whether
//! to read one. Addresses of Unix sockets, and protocols other than TCP over IPv4 or IPv6, are read as
//! [`Header::Unknown`]: the connection is someone's, but of no address that means anything here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Begins version 1.
const TEXT: &[u8] = b"PROXY ";

/// Begins version 2.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// The longest header of version 1, in bytes with its CRLF (section 2.1).
const MAX_TEXT: usize = 107;

/// Signature, command, family and length of version 2, in bytes.
const FIXED: usize = 16;

/// Bytes after the fixed part of version 2: addresses and a few TLVs, of which the largest in use
/// names a TLS client. The protocol itself would allow 65,535.
#[doc(alias = "bound")]
pub const MAX_REST: usize = 4096;

/// The type of the TLV that holds a CRC-32C of the header (section 2.2.3).
const CRC32C: u8 = 0x03;

/// The content of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Header {
    /// The connection is for a client at `source`, who connected to `destination`.
    Proxied {
        /// The client.
        source: SocketAddr,
        /// Where the client connected to; of the same family.
        destination: SocketAddr,
    },
    /// The sender's own connection, such as a health check: its real addresses count (LOCAL; version 2 only).
    Local,
    /// A client without a known TCP address.
    Unknown,
}

impl Header {
    /// The client, where it is known.
    pub fn client(&self) -> Option<SocketAddr> {
        match self {
            Self::Proxied { source, .. } => Some(*source),
            Self::Local | Self::Unknown => None,
        }
    }
}

/// A version to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// Text.
    V1,
    /// Binary.
    V2,
}

/// A mistake in a header; close the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadHeader {
    /// The connection begins with something else.
    #[error("the connection does not begin with a PROXY header")]
    Missing,
    /// A line of version 1 that breaks its grammar.
    #[error("the PROXY line is malformed")]
    Line,
    /// Version 2 with a version, command or family that does not exist.
    #[error("the PROXY header has an unknown version, command or family")]
    Kind,
    /// Addresses or TLVs of version 2 reach beyond the header's length.
    #[error("the PROXY header is shorter than its content")]
    Short,
    /// Version 2 with more than [`MAX_REST`] bytes.
    #[error("the PROXY header is too long")]
    Long,
    /// The checksum of version 2 does not match.
    #[error("the checksum of the PROXY header is wrong")]
    Checksum,
}

/// Decodes the header at the front of `input`: its content and length; `None` means that more bytes
/// are needed.
///
/// # Errors
/// The first rule that it broke.
pub fn decode(input: &[u8]) -> Result<Option<(Header, usize)>, BadHeader> {
    if begins(input, SIGNATURE) {
        decode_binary(input)
    } else if begins(input, TEXT) {
        decode_text(input)
    } else {
        Err(BadHeader::Missing)
    }
}

/// Whether `input` begins with `start`, or could once there is more of it.
fn begins(input: &[u8], start: &[u8]) -> bool {
    let length = input.len().min(start.len());
    input[..length] == start[..length]
}

fn decode_text(input: &[u8]) -> Result<Option<(Header, usize)>, BadHeader> {
    let seen = &input[..input.len().min(MAX_TEXT)];
    let Some(end) = seen.windows(2).position(|two| two == b"\r\n") else {
        return if seen.len() < MAX_TEXT {
            Ok(None)
        } else {
            Err(BadHeader::Line)
        };
    };

    let line = std::str::from_utf8(&seen[TEXT.len()..end]).map_err(|_| BadHeader::Line)?;
    Ok(Some((parse_line(line)?, end + 2)))
}

/// Reads the text behind `PROXY ` (section 2.1); any text may follow UNKNOWN.
fn parse_line(line: &str) -> Result<Header, BadHeader> {
    let parts: Vec<&str> = line.split(' ').collect();
    let [family, source, destination, source_port, destination_port] = parts[..] else {
        return if parts.first() == Some(&"UNKNOWN") {
            Ok(Header::Unknown)
        } else {
            Err(BadHeader::Line)
        };
    };

    let address = |text: &str| -> Result<IpAddr, BadHeader> {
        match family {
            "TCP4" => text
                .parse::<Ipv4Addr>()
                .map(IpAddr::V4)
                .map_err(|_| BadHeader::Line),
            "TCP6" => text
                .parse::<Ipv6Addr>()
                .map(IpAddr::V6)
                .map_err(|_| BadHeader::Line),
            _ => Err(BadHeader::Line),
        }
    };

    if family == "UNKNOWN" {
        return Ok(Header::Unknown);
    }
    Ok(Header::Proxied {
        source: SocketAddr::new(address(source)?, parse_port(source_port)?),
        destination: SocketAddr::new(address(destination)?, parse_port(destination_port)?),
    })
}

/// Digits only, without zeros in front.
fn parse_port(text: &str) -> Result<u16, BadHeader> {
    let plain =
        text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| plain).ok_or(BadHeader::Line)
}

fn decode_binary(input: &[u8]) -> Result<Option<(Header, usize)>, BadHeader> {
    let Some(&[command, family, high, low]) = input.get(SIGNATURE.len()..FIXED) else {
        return Ok(None);
    };
    let length = usize::from(u16::from_be_bytes([high, low]));
    if command >> 4 != 2 || command & 0xf > 1 || family >> 4 > 3 || family & 0xf > 2 {
        return Err(BadHeader::Kind);
    }

    if length > MAX_REST {
        return Err(BadHeader::Long);
    }
    let Some(header) = input.get(..FIXED + length) else {
        return Ok(None);
    };

    let said = if command & 0xf == 0 {
        // Section 2.2: of a LOCAL command everything else is passed over.
        Header::Local
    } else {
        let (said, tlvs) = addresses(family, &header[FIXED..])?;
        check_tlvs(header, header.len() - tlvs.len())?;
        said
    };

    Ok(Some((said, header.len())))
}

/// The addresses, and the TLVs behind them.
fn addresses(family: u8, rest: &[u8]) -> Result<(Header, &[u8]), BadHeader> {
    // Lengths of the address blocks of section 2.2; the transport, the low half, does not matter.
    let size = match family >> 4 {
        1 => 12,
        2 => 36,
        3 => 216,
        // Unspecified: the block has no known length (section 2.2).
        _ => return Ok((Header::Unknown, &[])),
    };

    let (block, tlvs) = rest.split_at_checked(size).ok_or(BadHeader::Short)?;
    let port = |at: usize| u16::from_be_bytes([block[at], block[at + 1]]);
    let said = match family {
        0x11 => {
            let address =
                |at: usize| Ipv4Addr::new(block[at], block[at + 1], block[at + 2], block[at + 3]);
            let end = |at: usize, port: u16| SocketAddr::new(address(at).into(), port);
            Header::Proxied {
                source: end(0, port(8)),
                destination: end(4, port(10)),
            }
        }
        0x21 => {
            let address = |at: usize| {
                let mut octets = [0; 16];
                octets.copy_from_slice(&block[at..at + 16]);
                Ipv6Addr::from(octets)
            };

            let end = |at: usize, port: u16| SocketAddr::new(address(at).into(), port);
            Header::Proxied {
                source: end(0, port(32)),
                destination: end(16, port(34)),
            }
        }
        _ => Header::Unknown,
    };

    Ok((said, tlvs))
}

/// Walks the TLVs that begin at `at`, which may not reach beyond the header; a checksum among them
/// must fit.
fn check_tlvs(header: &[u8], mut at: usize) -> Result<(), BadHeader> {
    while at < header.len() {
        let Some(&[kind, high, low]) = header.get(at..at + 3) else {
            return Err(BadHeader::Short);
        };
        let start = at + 3;
        let length = usize::from(u16::from_be_bytes([high, low]));
        let value = header.get(start..start + length).ok_or(BadHeader::Short)?;

        if kind == CRC32C {
            let said: [u8; 4] = value.try_into().map_err(|_| BadHeader::Short)?;
            // Section 2.2.3: computed over the whole header, with zeros in its own place.
            let zeroed = header[..start]
                .iter()
                .chain(&[0; 4])
                .chain(&header[start + 4..]);

            if crc32c(zeroed) != u32::from_be_bytes(said) {
                return Err(BadHeader::Checksum);
            }
        }

        at = start + length;
    }
    Ok(())
}

/// CRC-32C (RFC 9260, appendix A), bit by bit: headers are short.
fn crc32c<'a>(bytes: impl Iterator<Item = &'a u8>) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 }
        })
    };
    !bytes.fold(u32::MAX, step)
}

/// Writes a header. Addresses of two families are written as IPv6, an IPv4 address as the mapped one.
///
/// Version 1 has no LOCAL; UNKNOWN is written for it, which says the same to a receiver: use the real addresses.
pub fn encode(version: Version, header: Header) -> Vec<u8> {
    match version {
        Version::V1 => encode_text(header),
        Version::V2 => encode_binary(header),
    }
}

fn encode_text(header: Header) -> Vec<u8> {
    let Header::Proxied {
        source,
        destination,
    } = header
    else {
        return b"PROXY UNKNOWN\r\n".to_vec();
    };

    let (source, destination) = of_one_family(source, destination);
    let family = if source.is_ipv4() { "TCP4" } else { "TCP6" };
    let from = source.ip();
    let to = destination.ip();

    format!(
        "PROXY {family} {from} {to} {} {}\r\n",
        source.port(),
        destination.port()
    )
    .into_bytes()
}

fn encode_binary(header: Header) -> Vec<u8> {
    let mut out = SIGNATURE.to_vec();
    let (source, destination) = match header {
        Header::Proxied {
            source,
            destination,
        } => of_one_family(source, destination),
        Header::Local => {
            out.extend([0x20, 0, 0, 0]);
            return out;
        }
        Header::Unknown => {
            out.extend([0x21, 0, 0, 0]);
            return out;
        }
    };

    match (source.ip(), destination.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            out.extend([0x21, 0x11, 0, 12]);
            out.extend(source.octets());
            out.extend(destination.octets());
        }
        (source, destination) => {
            out.extend([0x21, 0x21, 0, 36]);
            out.extend(mapped(source).octets());
            out.extend(mapped(destination).octets());
        }
    }

    out.extend(source.port().to_be_bytes());
    out.extend(destination.port().to_be_bytes());
    out
}

fn of_one_family(source: SocketAddr, destination: SocketAddr) -> (SocketAddr, SocketAddr) {
    if source.is_ipv4() == destination.is_ipv4() {
        return (source, destination);
    }
    let six = |address: SocketAddr| SocketAddr::new(mapped(address.ip()).into(), address.port());
    (six(source), six(destination))
}

fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

/// Decodes arbitrary bytes. An accepted header lies within the input and needs all of it: no
/// shorter input is taken, and bytes behind it change nothing. Its content survives being written
/// in both versions.
#[cfg(test)]
pub(crate) fn fuzz_one(data: &[u8]) {
    let Ok(Some((header, length))) = decode(data) else {
        return;
    };
    assert!(length <= data.len() && length <= FIXED + MAX_REST);
    assert_eq!(decode(&data[..length]), Ok(Some((header, length))));
    assert_eq!(decode(&data[..length - 1]), Ok(None));

    for version in [Version::V1, Version::V2] {
        let written = encode(version, header);
        let expected = if version == Version::V1 && header == Header::Local {
            Header::Unknown
        } else {
            header
        };
        assert_eq!(decode(&written), Ok(Some((expected, written.len()))));
    }
}

#[cfg(test)]
#[path = "proxy_protocol/tests.rs"]
mod tests;
