//! Hop limits, which end loops (RFC 791, section 3.2; RFC 8200, section 3).

use super::checksum::updated;

/// The packet has passed as many hops as it may: it goes no further, and its sender is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("its hop limit is exceeded")]
pub struct HopLimitExceeded;

/// Takes one hop off a packet, as a router does before it sends it on, and updates the checksum of
/// IPv4. Returns the new limit.
///
/// # Errors
/// [`HopLimitExceeded`], with the packet unchanged; also for bytes that are no packet.
pub fn decrement_hop_limit(packet: &mut [u8]) -> Result<u8, HopLimitExceeded> {
    match packet.first().map(|byte| byte >> 4) {
        Some(4) => {
            let header: &mut [u8; 12] = packet.first_chunk_mut().ok_or(HopLimitExceeded)?;
            let [left, protocol] = [header[8], header[9]];
            let next = after(left)?;

            let before = u16::from_be_bytes([header[10], header[11]]);
            let [old, new] = [left, next].map(|hops| u16::from_be_bytes([hops, protocol]));
            header[8] = next;
            header[10..12].copy_from_slice(&updated(before, old, new).to_be_bytes());
            Ok(next)
        }
        Some(6) => {
            let hops = packet.get_mut(7).ok_or(HopLimitExceeded)?;
            *hops = after(*hops)?;
            Ok(*hops)
        }
        _ => Err(HopLimitExceeded),
    }
}

/// A packet with one hop left has arrived or is lost (RFC 1812, section 5.3.1).
fn after(hops: u8) -> Result<u8, HopLimitExceeded> {
    match hops {
        0 | 1 => Err(HopLimitExceeded),
        more => Ok(more - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::Packet;
    use crate::ip::sample::{udp4, udp6};

    #[test]
    fn each_hop_takes_one_and_keeps_the_checksum() {
        let mut packet = udp4(b"payload");
        for left in (1..packet[8]).rev() {
            assert_eq!(decrement_hop_limit(&mut packet), Ok(left));
            assert_eq!(Packet::parse(&packet).unwrap().hop_limit(), left);
        }
        let last = packet.clone();
        assert_eq!(decrement_hop_limit(&mut packet), Err(HopLimitExceeded));
        assert_eq!(packet, last);
    }

    #[test]
    fn ipv6_has_no_checksum_to_keep() {
        let mut packet = udp6(b"payload");
        packet[7] = 2;
        assert_eq!(decrement_hop_limit(&mut packet), Ok(1));
        assert_eq!(decrement_hop_limit(&mut packet), Err(HopLimitExceeded));
        assert_eq!(packet[7], 1);
    }

    #[test]
    fn what_is_no_packet_goes_nowhere() {
        for bytes in [&mut [][..], &mut [0x45, 0], &mut [0x60], &mut [0x10; 40]] {
            assert_eq!(decrement_hop_limit(bytes), Err(HopLimitExceeded));
        }
    }
}
