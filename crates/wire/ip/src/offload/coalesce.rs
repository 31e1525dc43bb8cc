//! Makes super-packets of packets that arrive one by one, so that a device takes many at once.

use hermes_proto::ip::{IpFlow, Packet};

use super::header::OffloadHeader;
use super::headers::Layout;
use super::open::{Open, Part};

/// Super-packets that grow at once: flows of which packets come by turns. Each takes up to 64 KiB.
#[doc(alias = "bound")]
pub const MAX_OPEN: usize = 8;

/// Merges consecutive packets of a flow of TCP or UDP. The output keeps the order of each flow.
///
/// [Cutting](super::segment) the output gives back the input packets, bit for bit: packets that
/// would not survive this are not merged. Only the identification of IPv4 packets that are never
/// cut may differ, which has no meaning (RFC 6864, section 4.1).
#[derive(Debug, Default)]
pub struct Coalescer {
    open: Vec<Open>,
    /// Memory of those that ended.
    rooms: Vec<Vec<u8>>,
}

impl Coalescer {
    /// Takes a packet. `is_verified`: its checksum is known to be right; otherwise it is computed,
    /// as merging would hide a wrong one. `output` gets the complete packets.
    pub fn push(
        &mut self,
        packet: &[u8],
        is_verified: bool,
        mut output: impl FnMut(OffloadHeader, &[u8]),
    ) {
        let Ok(parsed) = Packet::parse(packet) else {
            // The next that looks at it decides about it.
            return output(OffloadHeader::DONE, packet);
        };
        let flow = parsed.flow();
        let layout = Layout::of(&parsed);
        let part = layout.map_or(Part::Alone, |layout| Part::of(&parsed, layout));
        let layout = layout.filter(|layout| {
            part != Part::Alone && (is_verified || layout.is_intact(parsed.bytes()))
        });

        let Some(layout) = layout else {
            self.end_flow(&flow, &mut output);
            return output(OffloadHeader::DONE, packet);
        };
        if let Some(at) = self.open.iter().position(|open| open.flow == flow) {
            if self.open[at].append(&parsed, layout) {
                let payload = self.open[at].payload_of(&parsed);
                if part == Part::Last || !self.open[at].is_full(payload) {
                    self.end(at, &mut output);
                }
                return;
            }
            self.end(at, &mut output);
        }

        self.begin(&parsed, layout, part, &mut output);
    }

    fn begin(
        &mut self,
        packet: &Packet<'_>,
        layout: Layout,
        part: Part,
        output: &mut impl FnMut(OffloadHeader, &[u8]),
    ) {
        if part == Part::Last {
            return output(OffloadHeader::DONE, packet.bytes());
        }
        // The one that was begun first goes.
        if self.open.len() == MAX_OPEN {
            self.end(0, output);
        }

        let room = self.rooms.pop().unwrap_or_default();
        self.open.push(Open::begin(packet, layout, room));
    }

    /// Ends all: no more packets are waiting.
    pub fn flush(&mut self, mut output: impl FnMut(OffloadHeader, &[u8])) {
        while !self.open.is_empty() {
            self.end(0, &mut output);
        }
    }

    /// A packet that cannot be merged must not overtake those of its flow.
    fn end_flow(&mut self, flow: &IpFlow, output: &mut impl FnMut(OffloadHeader, &[u8])) {
        if let Some(at) = self.open.iter().position(|open| open.flow == *flow) {
            self.end(at, output);
        }
    }

    fn end(&mut self, at: usize, output: &mut impl FnMut(OffloadHeader, &[u8])) {
        let mut open = self.open.remove(at);
        let (header, packet) = open.finish();
        output(header, packet);
        self.rooms.push(open.into_room());
    }
}
