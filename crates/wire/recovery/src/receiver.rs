//! The receiving half of an end: gives datagrams out in their order, asks for missing ones, and gives those up that do not come in time.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::WINDOW;
use crate::frame::{BLOCK, BlockShape, MISSING, Probe, Report, whole};
use crate::parity::PartialBlock;

/// The round trip that is assumed until the peer tells it.
const FIRST_ROUND_TRIP: Duration = Duration::from_millis(100);

/// A datagram that is overtaken by others is not missing yet: it has a part of the round trip, within these bounds.
const OVERTAKEN: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_millis(10);

/// How often one datagram is asked for, at most.
const ASKS: u8 = 16;

/// From the second round on a datagram is asked for twice, so long after one another: what leaves at once shares a packet, and its fate.
const TWICE: Duration = Duration::from_millis(4);

/// Blocks whose parity is kept at once, at most.
#[doc(alias = "bound")]
const BLOCKS: usize = 16;

/// Datagrams that have been given out and are still needed to compute others, at most.
const NEEDED: u64 = 4 * BLOCK as u64;

/// The receiving half.
#[derive(Debug)]
pub(crate) struct Receiver {
    within: Duration,
    bytes: usize,
    stream: Option<Stream>,
    /// Datagrams that are to be given out.
    pub(crate) datagrams: VecDeque<Bytes>,
    pub(crate) tally: ReceiverTally,
}

/// Counts of a receiver, in datagrams.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ReceiverTally {
    /// Came when they were sent again.
    pub(crate) again: u64,
    /// Computed from parity.
    pub(crate) computed: u64,
    /// Given up.
    pub(crate) lost: u64,
    /// Came twice, or too late.
    pub(crate) spare: u64,
}

/// The datagrams of one tag.
#[derive(Debug)]
struct Stream {
    tag: u16,
    /// The number that is given out next.
    next: u64,
    /// The number after the last that is known to have been sent.
    end: u64,
    /// Datagrams that wait for earlier ones, and some that were given out.
    store: BTreeMap<u64, Bytes>,
    stored: usize,
    gaps: BTreeMap<u64, Gap>,
    blocks: BTreeMap<u64, Block>,
    /// Whether the peer sends parity.
    has_parity: bool,
    received: u32,
    round_trip: Duration,
}

/// A datagram that is missing.
#[derive(Debug)]
struct Gap {
    noticed: Instant,
    ask: Instant,
    asked: u8,
}

/// Parity of a block that is not whole yet.
#[derive(Debug)]
struct Block {
    shape: BlockShape,
    shards: Vec<(u8, Bytes)>,
}

/// A datagram that came.
pub(crate) struct Came {
    pub(crate) number: u32,
    pub(crate) attempt: u8,
    pub(crate) payload: Bytes,
}

impl Receiver {
    pub(crate) fn new(within: Duration, bytes: usize) -> Self {
        Self {
            within,
            bytes,
            stream: None,
            datagrams: VecDeque::new(),
            tally: ReceiverTally::default(),
        }
    }

    /// The tag of the peer's stream, once something of it came.
    pub(crate) fn tag(&self) -> Option<u16> {
        self.stream.as_ref().map(|stream| stream.tag)
    }

    /// Takes a datagram.
    pub(crate) fn handle_data(&mut self, tag: u16, came: Came, now: Instant) {
        self.reach(tag, came.number, 1, now);
        let Some(stream) = &mut self.stream else {
            return;
        };
        let number = whole(came.number, stream.end);
        if number < stream.next || stream.store.contains_key(&number) {
            self.tally.spare += 1;
            return;
        }

        match came.attempt {
            0 => stream.received = stream.received.wrapping_add(1),
            _ => self.tally.again += 1,
        }
        self.insert(number, came.payload);
        // It may be the one that parity of its block waited for.
        self.mend(number);
        self.advance();
    }

    /// Takes parity of a block.
    pub(crate) fn handle_parity(
        &mut self,
        tag: u16,
        shape: BlockShape,
        shard: (u8, Bytes),
        now: Instant,
    ) {
        self.reach(tag, shape.first, u64::from(shape.data), now);
        let Some(stream) = &mut self.stream else {
            return;
        };
        stream.has_parity = true;
        let first = whole(shape.first, stream.end);
        if stream.is_whole(first, shape) {
            return;
        }

        // A peer that names another shape for the same block is not heeded: its first word counts.
        let block = stream.blocks.entry(first).or_insert_with(|| Block {
            shape,
            shards: Vec::new(),
        });
        let is_new = block.shards.iter().all(|(index, _)| *index != shard.0);
        if block.shape == shape && is_new {
            block.shards.push(shard);
        }
        while stream.blocks.len() > BLOCKS {
            stream.blocks.pop_first();
        }
        self.mend(first);
        self.advance();
    }

    /// Takes a probe; the report that answers it.
    pub(crate) fn handle_probe(&mut self, tag: u16, probe: Probe, now: Instant) -> Report {
        self.reach(tag, probe.next, 0, now);
        let received = self.stream.as_mut().map_or(0, |stream| {
            if probe.round_trip > 0 {
                stream.round_trip = Duration::from_millis(u64::from(probe.round_trip));
            }
            stream.received
        });
        Report {
            probe: probe.id,
            received,
            missing: Vec::new(),
        }
    }

    /// When [`Self::handle_time`] is to be called.
    pub(crate) fn due(&self) -> Option<Instant> {
        let gaps = self.stream.as_ref()?.gaps.values();
        gaps.map(|gap| {
            let end = gap.noticed + self.within;
            if gap.asked < ASKS {
                end.min(gap.ask)
            } else {
                end
            }
        })
        .min()
    }

    /// Gives up datagrams that did not come in time, and asks for others.
    pub(crate) fn handle_time(&mut self, now: Instant) -> Option<Report> {
        let within = self.within;
        let stream = self.stream.as_mut()?;
        let is_over = |gap: &Gap| now >= gap.noticed + within;
        // The earliest were noticed first.
        while let Some(first) = stream.gaps.first_entry()
            && is_over(first.get())
        {
            self.tally.lost += 1;
            first.remove();
        }

        let missing = stream.ask(now);
        let report = Report {
            probe: 0,
            received: stream.received,
            missing,
        };
        self.advance();
        (!report.missing.is_empty()).then_some(report)
    }

    /// Begins with the stream of a tag, and learns that `count` datagrams from `number` on were sent.
    fn reach(&mut self, tag: u16, number: u32, count: u64, now: Instant) {
        if self.stream.as_ref().is_none_or(|stream| stream.tag != tag) {
            self.flush();
            self.stream = Some(Stream::new(tag));
        }
        let Some(stream) = &mut self.stream else {
            return;
        };

        let end = whole(number, stream.end) + count;
        if end > stream.end + WINDOW {
            // The peer is far ahead: all in between is lost.
            let stream = Stream {
                next: end - count,
                end: end - count,
                ..Stream::new(tag)
            };
            self.flush();
            self.stream = Some(stream);
        }
        if let Some(stream) = &mut self.stream {
            stream.notice(end, now);
        }
    }

    /// Gives out all that waits, in its order.
    fn flush(&mut self) {
        let Some(stream) = self.stream.take() else {
            return;
        };
        self.tally.lost += stream.gaps.len() as u64;
        let next = stream.next;
        let waiting = stream.store.into_iter();
        let waiting = waiting.filter(|(number, _)| *number >= next);
        self.datagrams.extend(waiting.map(|(_, payload)| payload));
    }

    fn insert(&mut self, number: u64, payload: Bytes) {
        let Some(stream) = &mut self.stream else {
            return;
        };
        stream.gaps.remove(&number);
        stream.stored += payload.len();
        stream.store.insert(number, payload);
    }

    /// Computes the missing datagrams of the block around a number, if enough of it came.
    fn mend(&mut self, number: u64) {
        let Some(stream) = &mut self.stream else {
            return;
        };
        let Some((first, computed)) = stream.compute(number) else {
            return;
        };
        stream.blocks.remove(&first);
        let next = stream.next;
        for (place, payload) in computed {
            let number = first + place as u64;
            if number >= next {
                self.tally.computed += 1;
                self.insert(number, payload);
            }
        }
    }

    /// Gives out datagrams up to the first that is missing.
    fn advance(&mut self) {
        let Some(stream) = &mut self.stream else {
            return;
        };
        while stream.next < stream.end {
            match stream.store.get(&stream.next) {
                Some(payload) => self.datagrams.push_back(payload.clone()),
                // Too much waits for it.
                None if stream.stored > self.bytes => {
                    let was_missing = stream.gaps.remove(&stream.next).is_some();
                    self.tally.lost += u64::from(was_missing);
                }
                None if stream.gaps.contains_key(&stream.next) => break,
                None => {}
            }
            stream.next += 1;
            stream.forget();
        }
    }
}

impl Stream {
    /// Every stream begins with number 0.
    fn new(tag: u16) -> Self {
        Self {
            tag,
            next: 0,
            end: 0,
            store: BTreeMap::new(),
            stored: 0,
            gaps: BTreeMap::new(),
            blocks: BTreeMap::new(),
            has_parity: false,
            received: 0,
            round_trip: FIRST_ROUND_TRIP,
        }
    }

    /// All datagrams before `end` were sent: those that are not here are missing.
    fn notice(&mut self, end: u64, now: Instant) {
        let wait = (self.round_trip / 16).clamp(*OVERTAKEN.start(), *OVERTAKEN.end());
        for number in self.end..end {
            let gap = Gap {
                noticed: now,
                ask: now + wait,
                asked: 0,
            };
            self.gaps.insert(number, gap);
        }
        self.end = self.end.max(end);
    }

    /// The runs of missing datagrams that are to be asked for now.
    fn ask(&mut self, now: Instant) -> Vec<(u32, u8)> {
        let again = self.round_trip + self.round_trip / 8 + 2 * *OVERTAKEN.start();
        let mut missing = Vec::<(u32, u8)>::new();
        for (number, gap) in &mut self.gaps {
            if gap.asked >= ASKS || now < gap.ask {
                continue;
            }
            if !is_named(*number as u32, &mut missing) {
                // The rest is asked for with the next report.
                break;
            }
            gap.asked += 1;
            let is_twice = gap.asked.is_multiple_of(2);
            gap.ask = now + if is_twice { TWICE } else { again };
        }
        missing
    }

    /// Whether all datagrams of a block are here, or no longer of interest.
    fn is_whole(&self, first: u64, shape: BlockShape) -> bool {
        let numbers = first..first + u64::from(shape.data);
        numbers
            .into_iter()
            .all(|number| !self.gaps.contains_key(&number))
    }

    /// The missing datagrams of the block around a number, and the block's first number.
    fn compute(&self, number: u64) -> Option<(u64, Vec<(usize, Bytes)>)> {
        let (first, block) = self.blocks.range(..=number).next_back()?;
        let end = first + u64::from(block.shape.data);
        let found = self.store.range(*first..end);
        let found = found.map(|(number, payload)| ((number - first) as usize, payload));
        let computed = PartialBlock {
            data: usize::from(block.shape.data),
            parity: usize::from(block.shape.parity),
            found: found.collect(),
            shards: &block.shards,
        }
        .decode();
        (!computed.is_empty()).then_some((*first, computed))
    }

    /// Forgets datagrams that were given out, unless parity may need them.
    fn forget(&mut self) {
        let needed = if self.has_parity { NEEDED } else { 0 };
        while let Some(first) = self.store.first_entry()
            && *first.key() + needed < self.next
        {
            self.stored -= first.remove().len();
        }
        while let Some(first) = self.blocks.first_entry()
            && first.key() + u64::from(BLOCK) + needed < self.next
        {
            first.remove();
        }
    }
}

/// Names a missing number in the last run, or in one more; false if there is no room for that.
fn is_named(number: u32, missing: &mut Vec<(u32, u8)>) -> bool {
    let is_full = missing.len() == MISSING;
    match missing.last_mut() {
        Some((first, count))
            if *count < u8::MAX && number == first.wrapping_add(u32::from(*count)) =>
        {
            *count += 1;
        }
        _ if is_full => return false,
        _ => missing.push((number, 1)),
    }
    true
}
