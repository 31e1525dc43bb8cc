//! Packets that are longer than a link carries, in pieces (RFC 791, section 3.2; RFC 8200, section 4.5).

use hermes_proto::ip::checksum::checksum;

use crate::build::{IPV4, IPV6};

/// Offsets of fragments count units of so many bytes.
const UNIT: usize = 8;

/// The fragment header of IPv6: its number, and its length.
const FRAGMENT: u8 = 44;
const FRAGMENT_HEADER: usize = 8;

/// "More fragments", in IPv4 beside the offset in units, in IPv6 below the offset in bytes.
const MORE_V4: u16 = 0x2000;
const MORE_V6: u16 = 1;

/// Cuts a packet of ours, which has no options, so that no piece has more than `mtu` bytes. `identification` differs from that of any other
/// packet that is on its way between the same hosts.
pub(crate) fn cut(packet: &[u8], mtu: usize, identification: u32) -> Vec<Vec<u8>> {
    let is_ipv4 = packet[0] >> 4 == 4;
    let (header, more_header) = if is_ipv4 {
        (IPV4, 0)
    } else {
        (IPV6, FRAGMENT_HEADER)
    };
    let (header, content) = packet.split_at(header);
    let most = (mtu - header.len() - more_header) / UNIT * UNIT;

    let count = content.len().div_ceil(most);
    let pieces = content.chunks(most).enumerate();
    pieces
        .map(|(index, piece)| {
            let place = Place {
                offset: index * most,
                is_last: index + 1 == count,
                identification,
            };
            match is_ipv4 {
                true => place.v4(header, piece),
                false => place.v6(header, piece),
            }
        })
        .collect()
}

/// Which part of a packet a fragment is.
struct Place {
    /// Bytes of content before it: whole units.
    offset: usize,
    is_last: bool,
    identification: u32,
}

impl Place {
    fn v4(&self, header: &[u8], piece: &[u8]) -> Vec<u8> {
        let mut fragment = [header, piece].concat();
        let length = word(fragment.len());
        fragment[2..4].copy_from_slice(&length);
        // The low bits: 16 are all that IPv4 has.
        fragment[4..6].copy_from_slice(&(self.identification as u16).to_be_bytes());

        let more = if self.is_last { 0 } else { MORE_V4 };
        let offset = u16::from_be_bytes(word(self.offset / UNIT));
        fragment[6..8].copy_from_slice(&(more | offset).to_be_bytes());

        fragment[10..12].fill(0);
        let sum = checksum(&fragment[..IPV4]);
        fragment[10..12].copy_from_slice(&sum.to_be_bytes());
        fragment
    }

    fn v6(&self, header: &[u8], piece: &[u8]) -> Vec<u8> {
        let protocol = header[6];
        let more = if self.is_last { 0 } else { MORE_V6 };
        let offset = u16::from_be_bytes(word(self.offset));

        let mut fragment = header.to_vec();
        fragment[4..6].copy_from_slice(&word(FRAGMENT_HEADER + piece.len()));
        fragment[6] = FRAGMENT;
        fragment.extend_from_slice(&[protocol, 0]);
        fragment.extend_from_slice(&(offset | more).to_be_bytes());
        fragment.extend_from_slice(&self.identification.to_be_bytes());
        fragment.extend_from_slice(piece);
        fragment
    }
}

/// A number of bytes of a packet, which has no more than 65,535.
fn word(bytes: usize) -> [u8; 2] {
    u16::try_from(bytes).unwrap_or(u16::MAX).to_be_bytes()
}
