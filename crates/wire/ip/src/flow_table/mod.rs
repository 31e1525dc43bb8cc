//! The current flows, when they began, and their traffic.

mod recent;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use hermes_proto::ip::{Fragment, IpFlow, Packet, TCP};

use crate::flow_cache::hash;
use recent::RecentQueue;

/// Flows of one table, at some 250 bytes each.
#[doc(alias = "bound")]
pub const MAX_FOLLOWED: usize = 4_096;

/// One in this many new flows is followed when the table is full. It takes the place of the one
/// that has been silent for longest, so that a flood of flows ends few of them early.
#[doc(alias = "bound")]
pub const CROWDED_ONE_IN: u64 = 64;

/// How long a TCP connection that both sides have closed is kept, for its last packets.
#[doc(alias = "bound")]
pub const CLOSED_LINGER: Duration = Duration::from_secs(2);

/// Which flows a table follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowSampling {
    /// One in so many; 1: all.
    pub one_in: u32,
    /// How long a flow may be silent before it has ended.
    pub silence: Duration,
    /// How many at once, up to [`MAX_FOLLOWED`].
    pub room: usize,
}

/// The traffic of one direction of a flow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlowCount {
    /// Packets, those that a super-packet stands for each.
    pub packets: u64,
    /// Their bytes, headers of IP included.
    pub bytes: u64,
}

/// A flow that has ended. `M` is the mark that it got when it began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedFlow<M> {
    /// Its ends, as its first packet had them.
    pub flow: IpFlow,
    /// When the first packet came.
    pub first: Instant,
    /// When the last packet came.
    pub last: Instant,
    /// Traffic of the side that sent the first packet.
    pub sent: FlowCount,
    /// Traffic of the other side.
    pub returned: FlowCount,
    /// The mark that it got when it began.
    pub mark: M,
    /// Why it has ended.
    pub end: FlowEnd,
}

/// Why a flow has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowEnd {
    /// Both sides closed it, or one reset it.
    Closed,
    /// The flow was silent.
    Silent,
    /// Another one took its place.
    CrowdedOut,
    /// The tunnel ended, or its flows are followed no more.
    TunnelEnded,
}

impl FlowEnd {
    /// In a word, for records.
    pub fn word(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Silent => "silent",
            Self::CrowdedOut => "crowded_out",
            Self::TunnelEnded => "tunnel_ended",
        }
    }
}

/// The flows of a tunnel, up to a fixed number of them. A flow is its addresses, protocol and ports, in both directions.
///
/// It takes no decisions, and does not read a clock. Memory grows with the number of flows.
#[derive(Debug, Clone)]
pub struct FlowTable<M> {
    sampling: FlowSampling,
    seed: u64,
    /// By their ends as their first packet had them.
    places: HashMap<IpFlow, Slot>,
    open: RecentQueue<Followed<M>>,
    /// TCP connections that both sides have closed.
    closed: RecentQueue<Followed<M>>,
    passed_over: u64,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    is_closed: bool,
    number: usize,
}

impl Slot {
    fn open(number: usize) -> Self {
        Self {
            is_closed: false,
            number,
        }
    }

    fn closed(number: usize) -> Self {
        Self {
            is_closed: true,
            number,
        }
    }
}

#[derive(Debug, Clone)]
struct Followed<M> {
    flow: IpFlow,
    first: Instant,
    last: Instant,
    sent: FlowCount,
    returned: FlowCount,
    mark: M,
    /// Which sides of TCP have said that they send no more.
    has_sent_all: bool,
    has_returned_all: bool,
}

/// The effect of a TCP segment on the end of its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Closing {
    Nothing,
    /// Its sender sends no more.
    Half,
    All,
}

impl Closing {
    fn of(packet: &Packet<'_>) -> Self {
        const FIN: u8 = 0x01;
        const RST: u8 = 0x04;
        if packet.protocol() != TCP || packet.fragment() == Fragment::Later {
            return Self::Nothing;
        }
        let flags = packet.payload().get(13).copied().unwrap_or_default();
        match (flags & RST != 0, flags & FIN != 0) {
            (true, _) => Self::All,
            (false, true) => Self::Half,
            (false, false) => Self::Nothing,
        }
    }
}

impl<M> Followed<M> {
    fn ended(self, end: FlowEnd) -> EndedFlow<M> {
        EndedFlow {
            flow: self.flow,
            first: self.first,
            last: self.last,
            sent: self.sent,
            returned: self.returned,
            mark: self.mark,
            end,
        }
    }
}

impl<M> FlowTable<M> {
    /// An empty one. `seed` is any number that peers do not know.
    pub fn new(sampling: FlowSampling, seed: u64) -> Self {
        let sampling = FlowSampling {
            one_in: sampling.one_in.max(1),
            room: sampling.room.clamp(1, MAX_FOLLOWED),
            ..sampling
        };
        Self {
            sampling,
            seed,
            places: HashMap::new(),
            open: RecentQueue::default(),
            closed: RecentQueue::default(),
            passed_over: 0,
        }
    }

    /// How many flows are open.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether no flow is open.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Which flows it follows.
    pub fn sampling(&self) -> FlowSampling {
        self.sampling
    }

    /// How many packets were of flows that are not followed.
    pub fn passed_over(&self) -> u64 {
        self.passed_over
    }

    /// Counts a packet, or a super-packet, for its flow. `mark` is asked about a flow that begins. Returns a flow that has ended to make
    /// room for it, or because it begins anew.
    pub fn handle_packet(
        &mut self,
        packet: &Packet<'_>,
        count: FlowCount,
        now: Instant,
        mark: impl FnOnce() -> M,
    ) -> Option<EndedFlow<M>> {
        let flow = packet.flow();
        let mut ended = None;
        // The ends of a connection that was closed may open another one.
        if packet.opens_tcp() {
            ended = self.end_closed(&flow);
        }

        if let Some((slot, is_sent)) = self.slot(&flow) {
            self.count(slot, is_sent, (count, Closing::of(packet)), now);
            return ended;
        }
        if !self.is_followed(&flow) {
            self.passed_over += count.packets;
            return ended;
        }

        if self.places.len() >= self.sampling.room {
            ended = self.make_room().or(ended);
        }
        let number = self.open.push(Followed {
            flow,
            first: now,
            last: now,
            sent: count,
            returned: FlowCount::default(),
            mark: mark(),
            has_sent_all: Closing::of(packet) == Closing::Half,
            has_returned_all: false,
        });
        let slot = Slot {
            is_closed: false,
            number,
        };
        self.places.insert(flow, slot);
        ended
    }

    /// The next flow that has ended by now; call it until it returns `None`.
    pub fn poll_ended(&mut self, now: Instant) -> Option<EndedFlow<M>> {
        if let Some((number, followed)) = self.closed.oldest()
            && now.saturating_duration_since(followed.last) >= CLOSED_LINGER
        {
            return self.end(Slot::closed(number), FlowEnd::Closed);
        }

        let (number, followed) = self.open.oldest()?;
        let is_silent = now.saturating_duration_since(followed.last) >= self.sampling.silence;
        is_silent.then(|| self.end(Slot::open(number), FlowEnd::Silent))?
    }

    /// Ends any open flow; call it until it returns `None`.
    pub fn poll_rest(&mut self) -> Option<EndedFlow<M>> {
        if let Some((number, _)) = self.closed.oldest() {
            return self.end(Slot::closed(number), FlowEnd::Closed);
        }
        let (number, _) = self.open.oldest()?;
        self.end(Slot::open(number), FlowEnd::TunnelEnded)
    }

    /// Where a flow is, and whether this is the direction of its first packet.
    fn slot(&self, flow: &IpFlow) -> Option<(Slot, bool)> {
        if let Some(slot) = self.places.get(flow) {
            return Some((*slot, true));
        }
        let slot = self.places.get(&flow.reversed())?;
        Some((*slot, false))
    }

    fn count(
        &mut self,
        slot: Slot,
        is_sent: bool,
        (count, closing): (FlowCount, Closing),
        now: Instant,
    ) {
        let queue = match slot.is_closed {
            true => &mut self.closed,
            false => &mut self.open,
        };
        let Some(followed) = queue.use_now(slot.number) else {
            return;
        };
        followed.last = now;
        let (counted, has_ended) = match is_sent {
            true => (&mut followed.sent, &mut followed.has_sent_all),
            false => (&mut followed.returned, &mut followed.has_returned_all),
        };
        counted.packets += count.packets;
        counted.bytes += count.bytes;
        *has_ended |= closing == Closing::Half;

        let is_over = followed.has_sent_all && followed.has_returned_all;
        if !slot.is_closed
            && (is_over || closing == Closing::All)
            && let Some(followed) = self.open.remove(slot.number)
        {
            let flow = followed.flow;
            let slot = Slot {
                is_closed: true,
                number: self.closed.push(followed),
            };
            self.places.insert(flow, slot);
        }
    }

    fn end_closed(&mut self, flow: &IpFlow) -> Option<EndedFlow<M>> {
        let (slot, _) = self.slot(flow)?;
        let ends = slot.is_closed;
        ends.then(|| self.end(slot, FlowEnd::Closed))?
    }

    fn end(&mut self, slot: Slot, why: FlowEnd) -> Option<EndedFlow<M>> {
        let queue = match slot.is_closed {
            true => &mut self.closed,
            false => &mut self.open,
        };
        let followed = queue.remove(slot.number)?;
        self.places.remove(&followed.flow);
        Some(followed.ended(why))
    }

    /// Whether a flow is in the sample. Both of its directions are, or neither is, and other flows
    /// are chosen independently.
    fn is_followed(&self, flow: &IpFlow) -> bool {
        let one_in = u64::from(self.sampling.one_in);
        let is_full = self.places.len() >= self.sampling.room && self.closed.len() == 0;
        let one_in = match is_full {
            true => one_in * CROWDED_ONE_IN,
            false => one_in,
        };
        if one_in == 1 {
            return true;
        }

        let number = hash(self.seed, flow) ^ hash(self.seed, &flow.reversed());
        // The low bits of a product depend on the low bits of its factors alone.
        (number >> 16).is_multiple_of(one_in)
    }

    fn make_room(&mut self) -> Option<EndedFlow<M>> {
        if let Some((number, _)) = self.closed.oldest() {
            return self.end(Slot::closed(number), FlowEnd::Closed);
        }
        let (number, _) = self.open.oldest()?;
        self.end(Slot::open(number), FlowEnd::CrowdedOut)
    }
}
