//! Packets that the kernel holds until this process says what becomes of them.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use tokio::io::unix::AsyncFd;

use super::TCP;

/// Flags of a segment.
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;

/// A queue of held packets, which no runtime knows yet. Its packets are let go when it is dropped.
#[derive(Debug)]
pub struct PacketQueue {
    pub(super) socket: OwnedFd,
    pub(super) number: u16,
}

/// A queue of held packets, on the runtime that it was made on.
#[derive(Debug)]
pub struct PacketQueueReader {
    pub(super) socket: AsyncFd<OwnedFd>,
    pub(super) number: u16,
}

/// The beginning of a connection, whose packet is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuedSyn {
    /// The number of its packet.
    pub packet: u32,
    /// The mark of its packet.
    pub mark: u32,
    /// Client and server; `None` of a packet that is no whole beginning of a connection.
    pub ends: Option<SynEnds>,
}

/// The addresses of a connection that begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SynEnds {
    /// The sender.
    pub client: SocketAddr,
    /// The address that it is for.
    pub server: SocketAddr,
}

/// The fate of a held packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketVerdict {
    /// It goes on, with this mark.
    Pass(u32),
    /// It is dropped.
    Drop,
}

impl PacketQueue {
    /// Its number.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }
}

impl SynEnds {
    /// The ends of the connection that this IP packet begins, or of its retransmission. Packets with extension headers or in pieces
    /// are none: TCP has no reason for them.
    #[must_use]
    pub fn of(packet: &[u8]) -> Option<Self> {
        match packet.first()? >> 4 {
            4 => Self::of_ipv4(packet),
            6 => Self::of_ipv6(packet),
            _ => None,
        }
    }

    /// RFC 791, 3.1.
    fn of_ipv4(packet: &[u8]) -> Option<Self> {
        let header = usize::from(packet[0] & 0x0f) * 4;
        let fragment = u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]) & 0x3fff;
        if header < 20 || fragment != 0 || *packet.get(9)? != TCP {
            return None;
        }
        let client: [u8; 4] = packet.get(12..16)?.try_into().ok()?;
        let server: [u8; 4] = packet.get(16..20)?.try_into().ok()?;
        let ports = Ports::of(packet.get(header..)?)?;
        Some(Self {
            client: SocketAddr::from((client, ports.client)),
            server: SocketAddr::from((server, ports.server)),
        })
    }

    /// RFC 8200, 3.
    fn of_ipv6(packet: &[u8]) -> Option<Self> {
        if *packet.get(6)? != TCP {
            return None;
        }
        let client: [u8; 16] = packet.get(8..24)?.try_into().ok()?;
        let server: [u8; 16] = packet.get(24..40)?.try_into().ok()?;
        let ports = Ports::of(packet.get(40..)?)?;
        Some(Self {
            client: SocketAddr::from((client, ports.client)),
            server: SocketAddr::from((server, ports.server)),
        })
    }
}

/// Ports of a segment.
struct Ports {
    client: u16,
    server: u16,
}

impl Ports {
    /// Those of a segment that begins a connection (RFC 9293, 3.1).
    fn of(segment: &[u8]) -> Option<Self> {
        let flags = *segment.get(13)?;
        let begins = flags & (SYN | ACK | RST) == SYN;
        let client = u16::from_be_bytes([segment[0], segment[1]]);
        let server = u16::from_be_bytes([segment[2], segment[3]]);
        (begins && client != 0 && server != 0).then_some(Self { client, server })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(flags: u8) -> Vec<u8> {
        let mut segment = vec![0; 20];
        segment[..4].copy_from_slice(&[0x9c, 0x40, 0x1f, 0x40]);
        segment[12] = 0x50;
        segment[13] = flags;
        segment
    }

    fn ipv4(flags: u8) -> Vec<u8> {
        let header = [
            0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 1, 2, 10, 0, 2, 2,
        ];
        [&header[..], &segment(flags)].concat()
    }

    fn ipv6(flags: u8) -> Vec<u8> {
        let mut header = vec![0x60, 0, 0, 0, 0, 20, 6, 64];
        header.extend("fd01::2".parse::<std::net::Ipv6Addr>().unwrap().octets());
        header.extend("fd02::2".parse::<std::net::Ipv6Addr>().unwrap().octets());
        [header, segment(flags)].concat()
    }

    #[test]
    fn the_ends_of_a_connection_that_begins_are_read_of_both_versions() {
        let ends = SynEnds::of(&ipv4(SYN)).unwrap();
        assert_eq!(ends.client, "10.0.1.2:40000".parse().unwrap());
        assert_eq!(ends.server, "10.0.2.2:8000".parse().unwrap());
        let ends = SynEnds::of(&ipv6(SYN)).unwrap();
        assert_eq!(ends.client, "[fd01::2]:40000".parse().unwrap());
        assert_eq!(ends.server, "[fd02::2]:8000".parse().unwrap());
    }

    #[test]
    fn explicit_congestion_notification_does_not_hide_a_beginning() {
        // CWR and ECE (RFC 3168, 6.1.1).
        assert!(SynEnds::of(&ipv4(SYN | 0xc0)).is_some());
    }

    #[test]
    fn other_segments_and_pieces_begin_nothing() {
        for flags in [0, ACK, SYN | ACK, RST, SYN | RST] {
            assert_eq!(SynEnds::of(&ipv4(flags)), None, "{flags}");
            assert_eq!(SynEnds::of(&ipv6(flags)), None, "{flags}");
        }
        let mut piece = ipv4(SYN);
        piece[6] = 0x20;
        assert_eq!(SynEnds::of(&piece), None);
        let mut udp = ipv4(SYN);
        udp[9] = 17;
        assert_eq!(SynEnds::of(&udp), None);
    }

    #[test]
    fn packets_that_are_cut_off_anywhere_are_read_without_a_panic() {
        for whole in [ipv4(SYN), ipv6(SYN)] {
            for length in 0..whole.len() {
                let cut = SynEnds::of(&whole[..length]);
                assert!(cut.is_none() || length >= whole.len() - 6, "{length}");
            }
        }
        for first in 0..=u8::MAX {
            let mut packet = ipv4(SYN);
            packet[0] = first;
            let _ = SynEnds::of(&packet);
        }
    }
}
