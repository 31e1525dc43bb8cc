//! The part between an IP header and the transport: options of IPv4, extension headers of IPv6.

use super::packet::{Fragment, PacketError, V6_HEADER, fragment};

/// How many extension headers of a packet are looked at: RFC 8200, section 4.1 lists seven that may stand in one, one of them twice.
#[doc(alias = "bound")]
pub const MAX_EXTENSION_HEADERS: usize = 8;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION: u8 = 60;
/// Mobility (RFC 6275), HIP (RFC 7401) and Shim6 (RFC 5533), which have the form of all extension headers (RFC 6564).
const OTHERS: [u8; 3] = [135, 139, 140];

/// Options of IPv4: the end, a filler, and the two that choose the way (RFC 791, section 3.1).
const END: u8 = 0;
const FILLER: u8 = 1;
const SOURCE_ROUTES: [u8; 2] = [131, 137];

/// The payload of the IP headers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Upper {
    pub(super) protocol: u8,
    /// Where it begins.
    pub(super) at: usize,
    pub(super) fragment: Fragment,
}

/// Walks the extension headers of IPv6; `next` is the next header of the fixed one.
pub(super) fn walk(packet: &[u8], next: u8) -> Result<Upper, PacketError> {
    let mut upper = Upper {
        protocol: next,
        at: V6_HEADER,
        fragment: Fragment::Whole,
    };

    for count in 0..=MAX_EXTENSION_HEADERS {
        let rest = &packet[upper.at..];
        let length = match upper.protocol {
            // RFC 8200, section 4.1: directly behind the IPv6 header, or nowhere.
            HOP_BY_HOP if count > 0 => return Err(PacketError::Extensions),
            HOP_BY_HOP | DESTINATION => units(rest, 8)?,
            ROUTING => routing(rest)?,
            AUTHENTICATION => units(rest, 4)?,
            FRAGMENT => {
                upper.fragment = fragment_of(rest, upper.fragment)?;
                8
            }
            other if OTHERS.contains(&other) => units(rest, 8)?,
            _ => return Ok(upper),
        };

        let header = rest.get(..length).ok_or_else(|| cut(upper.fragment))?;
        upper.protocol = header[0];
        upper.at += length;
        // The bytes behind are payload, under any protocol number (RFC 8200, section 4.5).
        if upper.fragment == Fragment::Later {
            return Ok(upper);
        }
    }

    Err(PacketError::Extensions)
}

/// Bytes of a header that counts them in units, beyond the first 8 bytes.
fn units(header: &[u8], unit: usize) -> Result<usize, PacketError> {
    let count = header.get(1).ok_or(PacketError::Truncated)?;
    Ok(8 + usize::from(*count) * unit)
}

/// RFC 5095 and RFC 8200, section 4.4: with segments left, it goes elsewhere than its destination says.
fn routing(header: &[u8]) -> Result<usize, PacketError> {
    match header.get(3) {
        None => Err(PacketError::Truncated),
        Some(0) => units(header, 8),
        Some(_) => Err(PacketError::SourceRouted),
    }
}

fn fragment_of(header: &[u8], before: Fragment) -> Result<Fragment, PacketError> {
    if before != Fragment::Whole {
        return Err(PacketError::Extensions);
    }
    let fixed: &[u8; 8] = header.first_chunk().ok_or(PacketError::Truncated)?;
    let offset = u16::from_be_bytes([fixed[2], fixed[3]]);
    fragment(offset & !7, offset & 1 != 0, header.len() - fixed.len())
}

/// A first fragment has all headers (RFC 7112); anything else that ends in them is cut off.
fn cut(fragment: Fragment) -> PacketError {
    match fragment {
        Fragment::First => PacketError::Fragment,
        Fragment::Whole | Fragment::Later => PacketError::Truncated,
    }
}

/// Checks the options of IPv4.
pub(super) fn check_options(mut options: &[u8]) -> Result<(), PacketError> {
    loop {
        let length = match *options {
            [] | [END, ..] => return Ok(()),
            [FILLER, ..] => 1,
            [kind, ..] if SOURCE_ROUTES.contains(&kind) => return Err(PacketError::SourceRouted),
            [_, length, ..] if length >= 2 => usize::from(length),
            _ => return Err(PacketError::Options),
        };
        options = options.get(length..).ok_or(PacketError::Options)?;
    }
}
