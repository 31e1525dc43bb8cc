//! Version Negotiation of QUIC (RFC 8999, sections 5.1 and 6; RFC 9000, sections 6, 15 and 17.2.1): how a client finds out that a server
//! speaks QUIC, in which versions, and that a packet of some length arrives, without a handshake.

use bytes::BufMut;

/// Bytes of the connection IDs of a probe.
pub const ID: usize = 8;

/// A server need not answer a shorter UDP payload (RFC 9000, section 6.1).
pub const SHORTEST: usize = 1200;

/// QUIC version 1 (RFC 9000).
pub const VERSION_1: u32 = 1;

/// QUIC version 2 (RFC 9369).
pub const VERSION_2: u32 = 0x6b33_43cf;

/// A version that no server supports: those of the pattern `0x?a?a?a?a` are reserved for this (RFC 9000, section 15).
const RESERVED: u32 = 0x1a2a_3a4a;

/// The highest bit: a long header. The next one is fixed in version 1.
const LONG_HEADER: u8 = 0x80;
const FIXED: u8 = 0x40;

/// A server's answer to an unknown version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionNegotiation<'a> {
    /// The source connection ID of the packet that it answers.
    pub to: &'a [u8],
    /// The versions that it supports, at least one.
    pub versions: Vec<u32>,
}

/// Encodes a packet that every server of QUIC answers with its versions: `length` bytes, at least [`SHORTEST`]. The answer has `id`.
pub fn encode_probe(id: [u8; ID], length: usize) -> Vec<u8> {
    let length = length.max(SHORTEST);
    let mut packet = Vec::with_capacity(length);
    packet.put_u8(LONG_HEADER | FIXED);
    packet.put_u32(RESERVED);

    // The server's own ID is not known yet: any will do (RFC 9000, section 7.2).
    for id in [id.map(|byte| !byte), id] {
        packet.put_u8(ID as u8);
        packet.put_slice(&id);
    }

    packet.resize(length, 0);
    packet
}

/// Decodes an answer; `None` for any other packet.
pub fn decode(packet: &[u8]) -> Option<VersionNegotiation<'_>> {
    let (first, rest) = packet.split_first()?;
    let (version, rest) = rest.split_first_chunk()?;
    if first & LONG_HEADER == 0 || u32::from_be_bytes(*version) != 0 {
        return None;
    }

    let (to, rest) = connection_id(rest)?;
    let (_from, rest) = connection_id(rest)?;
    let (versions, cut_off) = rest.as_chunks();
    if versions.is_empty() || !cut_off.is_empty() {
        return None;
    }

    let versions = versions.iter().map(|version| u32::from_be_bytes(*version));
    Some(VersionNegotiation {
        to,
        versions: versions.collect(),
    })
}

/// A connection ID behind its length, of up to 255 bytes where the version is not known (RFC 8999, section 5.1); and the rest.
fn connection_id(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first()?;
    rest.split_at_checked(usize::from(*length))
}

/// Decodes arbitrary bytes: every version found is part of the input.
#[cfg(test)]
pub(crate) fn fuzz_one(data: &[u8]) {
    let Some(found) = decode(data) else {
        return;
    };
    assert_eq!(data[0] & LONG_HEADER, LONG_HEADER);
    assert_eq!(found.to, &data[6..6 + usize::from(data[5])]);
    assert!(!found.versions.is_empty() && 4 * found.versions.len() < data.len());

    let tail: Vec<u8> = found
        .versions
        .iter()
        .flat_map(|version| version.to_be_bytes())
        .collect();
    assert!(data.ends_with(&tail));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9000, section 17.2.1.
    fn answer(to: &[u8], from: &[u8], versions: &[u32]) -> Vec<u8> {
        let mut packet = vec![0x9a, 0, 0, 0, 0];
        for id in [to, from] {
            packet.put_u8(u8::try_from(id.len()).unwrap());
            packet.put_slice(id);
        }
        versions.iter().for_each(|version| packet.put_u32(*version));
        packet
    }

    #[test]
    fn a_probe_is_a_long_header_of_a_reserved_version() {
        let probe = encode_probe(*b"12345678", 1350);
        assert_eq!(probe.len(), 1350);
        assert_eq!(probe[0], 0xc0);
        assert!(probe[1..5].iter().all(|byte| byte & 0x0f == 0x0a));
        assert_eq!((probe[5], probe[14]), (8, 8));
        assert_eq!(&probe[15..23], b"12345678");
        assert_eq!(encode_probe([0; ID], 20).len(), SHORTEST);
        assert_eq!(decode(&probe), None, "it is no answer");
    }

    #[test]
    fn an_answer_has_the_versions_of_the_server_and_our_id() {
        let packet = answer(b"12345678", b"server", &[VERSION_1, VERSION_2]);
        let found = decode(&packet).unwrap();
        assert_eq!(found.to, b"12345678");
        assert_eq!(found.versions, [VERSION_1, VERSION_2]);

        let longest = answer(&[7; 255], &[], &[VERSION_1]);
        assert_eq!(decode(&longest).unwrap().to.len(), 255);
    }

    #[test]
    fn what_is_no_answer_is_none() {
        let whole = answer(b"12345678", b"server", &[VERSION_1]);
        for length in 0..whole.len() {
            assert_eq!(decode(&whole[..length]), None, "{length}");
        }

        let mut short = whole.clone();
        short[0] = 0x40;
        assert_eq!(decode(&short), None, "a short header");
        let mut initial = whole;
        initial[4] = 1;
        assert_eq!(decode(&initial), None, "a packet of version 1");
    }
}
