//! The device that smoltcp reads packets from and writes them to: at most one received packet, and
//! the queue of outgoing ones.

use hermes_proto::ip::checksum::updated;
use hermes_proto::ip::{Packet, TCP};
use smoltcp::phy::{Checksum, Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;

use crate::outgoing::Outgoing;

/// The device of one connection while that is polled.
pub(crate) struct Wire<'a> {
    pub(crate) incoming: Option<&'a [u8]>,
    pub(crate) outgoing: &'a mut Outgoing,
    pub(crate) sent: &'a mut HighestSent,
    pub(crate) mtu: usize,
    /// Whether something could not be written.
    pub(crate) held_up: bool,
}

impl Device for Wire<'_> {
    type RxToken<'t>
        = WireRx<'t>
    where
        Self: 't;
    type TxToken<'t>
        = WireTx<'t>
    where
        Self: 't;

    fn receive(&mut self, _: Instant) -> Option<(WireRx<'_>, WireTx<'_>)> {
        let packet = self.incoming.take()?;
        let transmit = WireTx {
            outgoing: self.outgoing,
            sent: self.sent,
        };
        Some((WireRx(packet), transmit))
    }

    fn transmit(&mut self, _: Instant) -> Option<WireTx<'_>> {
        if !self.outgoing.has_room() {
            self.held_up = true;
            return None;
        }
        Some(WireTx {
            outgoing: self.outgoing,
            sent: self.sent,
        })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        // A received packet was checked already, or its sender left the checksum to others to
        // compute.
        capabilities.checksum.ipv4 = Checksum::Tx;
        capabilities.checksum.tcp = Checksum::Tx;
        capabilities
    }
}

/// A packet that came.
pub(crate) struct WireRx<'a>(&'a [u8]);

impl RxToken for WireRx<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(self.0)
    }
}

/// Room for a packet that leaves.
pub(crate) struct WireTx<'a> {
    outgoing: &'a mut Outgoing,
    sent: &'a mut HighestSent,
}

impl TxToken for WireTx<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, write: F) -> R {
        let mut packet = vec![0; length];
        let result = write(&mut packet);
        self.sent.correct(&mut packet);
        // An answer does not check for room first; without room the packet is lost, and sent again
        // later.
        self.outgoing.push(packet);
        result
    }
}

/// The number behind the last byte that a connection has sent.
///
/// After a timeout, smoltcp sends from the first byte that is not acknowledged, and gives its mere acknowledgements the number where that
/// has got to. A receiver that has more than that discards them as old (RFC 9293, section 3.10.7.4), so that two ends which both lost
/// something would never hear of each other again. An acknowledgement has SND.NXT, which does not go back.
#[derive(Debug, Default)]
pub(crate) struct HighestSent {
    next: Option<u32>,
}

impl HighestSent {
    /// The next sequence number, once a segment was sent.
    pub(crate) fn next(&self) -> Option<u32> {
        self.next
    }

    /// Notes the bytes that a segment sends; gives a segment without bytes the right number.
    fn correct(&mut self, packet: &mut [u8]) {
        const NUMBER: usize = 4;
        const FLAGS: usize = 13;
        const CHECKSUM: usize = 16;
        const FIN_SYN_RST: u8 = 0x07;

        let Ok(parsed) = Packet::parse(packet) else {
            return;
        };
        if parsed.protocol() != TCP {
            return;
        }
        let at = parsed.header_length();
        let segment = &mut packet[at..];
        let header = usize::from(segment[12] >> 4) * 4;
        let content = segment.len().saturating_sub(header);
        let flags = segment[FLAGS] & FIN_SYN_RST;
        let number = word(segment, NUMBER) << 16 | word(segment, NUMBER + 2);

        // A segment with bytes or flags has the right number: only mere acknowledgements lack it.
        if content > 0 || flags != 0 {
            let control = (flags & 0x03).count_ones();
            let end = number
                .wrapping_add(u32::try_from(content).unwrap_or_default())
                .wrapping_add(control);
            if self.next.is_none_or(|next| is_before(next, end)) {
                self.next = Some(end);
            }
            return;
        }

        let Some(next) = self.next.filter(|next| is_before(number, *next)) else {
            return;
        };
        // The checksum follows the change of each half (RFC 1624).
        for (offset, half) in [(NUMBER, next >> 16), (NUMBER + 2, next & 0xffff)] {
            let half = half as u16;
            let old = word(segment, offset) as u16;
            let sum = updated(word(segment, CHECKSUM) as u16, old, half);
            segment[CHECKSUM..CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
            segment[offset..offset + 2].copy_from_slice(&half.to_be_bytes());
        }
    }
}

/// Whether one sequence number is before another (RFC 9293, section 3.4).
fn is_before(one: u32, other: u32) -> bool {
    one != other && other.wrapping_sub(one) < 1 << 31
}

fn word(segment: &[u8], at: usize) -> u32 {
    u32::from(u16::from_be_bytes([segment[at], segment[at + 1]]))
}
