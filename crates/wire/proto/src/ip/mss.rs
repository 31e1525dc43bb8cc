//! The size of TCP segments where a path carries less than its ends believe (RFC 9293, section 3.7.1; RFC 6691).

use super::checksum::updated;
use super::packet::{V4_HEADER, V6_HEADER};

/// Bytes of a TCP header without options.
const TCP_HEADER: usize = 20;

/// The least size that is written: a path that carries less is no path, and a size of almost nothing would be one packet a byte.
const LEAST: usize = 216;

const END: u8 = 0;
const FILLER: u8 = 1;
const SEGMENT_SIZE: u8 = 2;

/// Makes the [opening segment](super::Packet::is_tcp_syn) of a connection, whose TCP header is at
/// `header`, ask for segments that fit `mtu`, and returns the size that it asked for before.
/// `None`, with the packet unchanged, if that was no larger, or the option is absent.
///
/// The checksum follows, unless it has yet to be completed (`completed` is false): then it does not cover the segment so far.
pub fn clamp_mss(packet: &mut [u8], header: usize, mtu: usize, completed: bool) -> Option<u16> {
    let ip_header = match packet.first()? >> 4 {
        4 => V4_HEADER,
        _ => V6_HEADER,
    };
    let fits = mtu.saturating_sub(ip_header + TCP_HEADER).max(LEAST);
    let fits = u16::try_from(fits).ok()?;

    let segment = packet.get_mut(header..)?;
    let options = usize::from(segment.get(12)? >> 4) * 4;
    let at = TCP_HEADER + find(segment.get(TCP_HEADER..options)?)?;
    let asked = u16::from_be_bytes([segment[at], segment[at + 1]]);
    if asked <= fits {
        return None;
    }

    segment[at..at + 2].copy_from_slice(&fits.to_be_bytes());
    if completed {
        let before = u16::from_be_bytes([segment[16], segment[17]]);
        // Behind an odd number of fillers, its bytes stand in two words the other way round.
        let [old, new] = match at % 2 {
            0 => [asked, fits],
            _ => [asked.swap_bytes(), fits.swap_bytes()],
        };
        segment[16..18].copy_from_slice(&updated(before, old, new).to_be_bytes());
    }

    Some(asked)
}

/// Where the size stands among the options.
fn find(options: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += match *options.get(at..)? {
            [SEGMENT_SIZE, 4, _, _, ..] => return Some(at + 2),
            [END, ..] | [] => return None,
            [FILLER, ..] => 1,
            [_, length, ..] if length >= 2 => usize::from(length),
            _ => return None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::checksum::Sum;
    use crate::ip::sample::tcp;
    use crate::ip::{Packet, TCP};

    fn is_whole(packet: &[u8]) -> bool {
        let packet = Packet::parse(packet).unwrap();
        let payload = packet.payload();
        let sum = Sum::default()
            .pseudo_header(packet.source(), packet.destination(), TCP, payload.len())
            .bytes(payload);
        sum.checksum() == 0
    }

    fn asks_for(size: u16, fillers: usize) -> Vec<u8> {
        let [high, low] = size.to_be_bytes();
        let mut options = vec![FILLER; fillers];
        options.extend([SEGMENT_SIZE, 4, high, low, 4, 2]);
        options.resize(12, END);
        options
    }

    #[test]
    fn what_is_too_large_is_lowered_and_the_checksum_kept() {
        for is_ipv4 in [true, false] {
            for fillers in 0..4 {
                let mut packet = tcp(is_ipv4, 0x02, &asks_for(1460, fillers), b"");
                let header = Packet::parse(&packet).unwrap().header_length();
                assert!(Packet::parse(&packet).unwrap().is_tcp_syn());
                assert_eq!(clamp_mss(&mut packet, header, 1300, true), Some(1460));
                assert!(is_whole(&packet), "behind {fillers} fillers");

                let expected = 1300 - if is_ipv4 { 40 } else { 60 };
                assert_eq!(clamp_mss(&mut packet, header, 1280, true), Some(expected));
                assert_eq!(clamp_mss(&mut packet, header, 1280, true), None);
            }
        }
    }

    #[test]
    fn a_checksum_that_is_not_complete_stays() {
        let mut packet = tcp(true, 0x02, &asks_for(1460, 0), b"");
        let before = packet[36..38].to_vec();
        assert_eq!(clamp_mss(&mut packet, 20, 1300, false), Some(1460));
        assert_eq!(packet[36..38], before);
    }

    #[test]
    fn what_fits_or_does_not_say_stays() {
        for options in [
            asks_for(1200, 0),
            vec![],
            vec![1; 8],
            vec![3, 0, 0, 0],
            vec![2, 4],
        ] {
            let options = [&options[..], &[0; 4][..(4 - options.len() % 4) % 4]].concat();
            let mut packet = tcp(true, 0x02, &options, b"");
            let before = packet.clone();
            assert_eq!(clamp_mss(&mut packet, 20, 1300, true), None);
            assert_eq!(packet, before);
        }
    }

    #[test]
    fn a_path_of_nothing_does_not_make_segments_of_nothing() {
        let mut packet = tcp(true, 0x02, &asks_for(1460, 0), b"");
        assert_eq!(clamp_mss(&mut packet, 20, 0, true), Some(1460));
        assert_eq!(packet[42..44], (LEAST as u16).to_be_bytes());
    }
}
