//! The sending half of an end: numbers datagrams, remembers them for a while, and sends lost ones again, or parity of them.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::WINDOW;
use crate::frame::{BLOCK, BlockShape, Frame, FrameBody, Probe, Report, whole};
use crate::loss::{LossEstimate, Sample};
use crate::parity;
use crate::retry_budget::RetryBudget;
use crate::settings::{ParityShare, RecoverySettings};

/// Time between probes while datagrams are sent.
const PROBE_TIME: Duration = Duration::from_millis(250);

/// Probes without a report that are remembered: some seconds of them.
#[doc(alias = "bound")]
const PROBES: usize = 32;

/// Silence after which the last datagrams are announced by a probe, as no later one shows that they are lost.
const TAIL_TIME: Duration = Duration::from_millis(20);

/// Probes of one tail at most: each waits twice as long as the one before it, as the first may be lost, too.
const TAIL_PROBES: u32 = 9;

/// The part of the bound of time that a block may take to fill: its parity must come before that is over.
const BLOCK_SHARE: u32 = 4;

/// The probability that a datagram is lost that needs no parity, where there is time to send it again.
const RARE: f64 = 1e-6;

/// Frames that wait to leave above which reports are dropped: a peer that asks and does not read costs no more. Its later reports count the same.
#[doc(alias = "bound")]
const WAITING: usize = 2 * WINDOW as usize;

/// The sending half.
#[derive(Debug)]
pub(crate) struct Sender {
    settings: RecoverySettings,
    tag: u16,
    kept: Kept,
    budget: RetryBudget,
    block: OpenBlock,
    probes: Probes,
    loss: LossEstimate,
    /// Frames that are to leave.
    pub(crate) frames: VecDeque<Bytes>,
    pub(crate) tally: SenderTally,
}

/// Counts of a sender, in datagrams.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SenderTally {
    /// Sent again.
    pub(crate) again: u64,
    /// Sent as parity.
    pub(crate) parity: u64,
}

/// Datagrams that may have to be sent again.
#[derive(Debug, Default)]
struct Kept {
    /// In the order of their numbers, without a gap.
    datagrams: VecDeque<KeptDatagram>,
    /// The number after the last.
    next: u64,
    bytes: usize,
}

#[derive(Debug)]
struct KeptDatagram {
    sent: Instant,
    payload: Bytes,
    attempts: u8,
}

/// The datagrams of the block that fills.
#[derive(Debug, Default)]
struct OpenBlock {
    first: u64,
    datagrams: Vec<Bytes>,
    began: Option<Instant>,
}

/// Probes of the path.
#[derive(Debug, Default)]
struct Probes {
    id: u32,
    /// Those without a report.
    asked: VecDeque<AskedProbe>,
    /// When the last one left.
    last: Option<Instant>,
    /// The last datagram left.
    sent: Option<Instant>,
    /// Probes since then; [`TAIL_PROBES`] once the peer knows that it was the last.
    tail: u32,
    round_trip: Option<Duration>,
}

/// A probe that left.
#[derive(Debug)]
struct AskedProbe {
    id: u32,
    left: Instant,
    /// How many datagrams had left by then.
    sent: u64,
}

impl Sender {
    pub(crate) fn new(settings: RecoverySettings, tag: u16) -> Self {
        Self {
            settings,
            tag,
            kept: Kept::default(),
            budget: RetryBudget::default(),
            block: OpenBlock::default(),
            probes: Probes::default(),
            loss: LossEstimate::default(),
            frames: VecDeque::new(),
            tally: SenderTally::default(),
        }
    }

    pub(crate) fn loss(&self) -> f64 {
        self.loss.share()
    }

    pub(crate) fn round_trip(&self) -> Option<Duration> {
        self.probes.round_trip
    }

    /// Datagrams are recovered so from now on; those that are missing already, as before.
    pub(crate) fn set(&mut self, settings: RecoverySettings) {
        self.settings = settings;
    }

    /// Sends a datagram for the first time.
    pub(crate) fn send(&mut self, datagram: &[u8], now: Instant) {
        let payload = Bytes::copy_from_slice(datagram);
        let number = self.kept.next;
        self.emit(FrameBody::Data {
            number: number as u32,
            attempt: 0,
            payload: payload.clone(),
        });
        self.budget.earn(payload.len());
        self.probes.sent = Some(now);
        self.probes.tail = 0;

        // A datagram may be asked for as soon as it has left.
        self.kept.push(payload.clone(), now);
        self.kept.forget(&self.settings, now);
        self.fill_block(number, payload, now);
        if self.probes.is_due(now) {
            self.probe(now);
        }
    }

    /// Acts on a report of the peer.
    pub(crate) fn handle_report(&mut self, report: &Report, now: Instant) {
        if let Some(probe) = self.probes.answered(report.probe) {
            if probe.sent == self.kept.next {
                self.probes.tail = TAIL_PROBES;
            }
            let is_first = self.probes.round_trip.is_none();
            self.probes
                .measured(now.saturating_duration_since(probe.left));
            self.loss.handle(Sample {
                sent: probe.sent,
                received: report.received,
            });
            // Tells the peer the round trip as soon as it is known.
            if is_first {
                self.probe(now);
            }
        }

        for (first, count) in &report.missing {
            let first = whole(*first, self.kept.next);
            for number in first..first + u64::from(*count) {
                self.send_again(number, now);
            }
        }
    }

    /// When [`Self::handle_time`] is to be called.
    pub(crate) fn due(&self) -> Option<Instant> {
        let tail = self.probes.tail_due(self.settings.within);
        let block = self
            .block
            .began
            .map(|began| began + self.settings.within / BLOCK_SHARE);
        tail.into_iter().chain(block).min()
    }

    /// Closes a block that has waited, and announces the end of a burst.
    pub(crate) fn handle_time(&mut self, now: Instant) {
        let is_old = |began: Instant| now >= began + self.settings.within / BLOCK_SHARE;
        if self.block.began.is_some_and(is_old) {
            self.close_block();
        }
        if self
            .probes
            .tail_due(self.settings.within)
            .is_some_and(|due| now >= due)
        {
            self.probes.tail += 1;
            self.probe(now);
        }
        self.kept.forget(&self.settings, now);
    }

    /// Has a report of the receiving half leave.
    pub(crate) fn push_report(&mut self, frame: Bytes) {
        if self.frames.len() < WAITING {
            self.frames.push_back(frame);
        }
    }

    fn emit(&mut self, body: FrameBody) {
        let frame = Frame {
            tag: self.tag,
            body,
        };
        self.frames.push_back(frame.encode());
    }

    fn probe(&mut self, now: Instant) {
        let probes = &mut self.probes;
        probes.id = probes.id.wrapping_add(1).max(1);
        probes.asked.push_back(AskedProbe {
            id: probes.id,
            left: now,
            sent: self.kept.next,
        });
        if probes.asked.len() > PROBES {
            probes.asked.pop_front();
        }
        probes.last = Some(now);
        let round_trip = probes.round_trip.map_or(0, |time| {
            u16::try_from(time.as_millis().max(1)).unwrap_or(u16::MAX)
        });
        let probe = Probe {
            id: probes.id,
            next: self.kept.next as u32,
            round_trip,
        };
        self.emit(FrameBody::Probe(probe));
    }

    /// Sends a datagram again, if it is remembered and may be.
    fn send_again(&mut self, number: u64, now: Instant) {
        let within = self.settings.within;
        let tries = self.settings.tries;
        let Some(kept) = self.kept.find(number) else {
            return;
        };
        // The peer has given it up by then.
        let is_late = now.saturating_duration_since(kept.sent) > within + within;
        if kept.attempts >= tries || is_late || !self.budget.spend(kept.payload.len()) {
            return;
        }

        kept.attempts += 1;
        let body = FrameBody::Data {
            number: number as u32,
            attempt: kept.attempts,
            payload: kept.payload.clone(),
        };
        self.tally.again += 1;
        self.emit(body);
    }

    /// Puts a datagram into the block, and closes that when it is full.
    fn fill_block(&mut self, number: u64, payload: Bytes, now: Instant) {
        if self.parity(usize::from(BLOCK)) == 0 {
            return;
        }
        if self.block.datagrams.is_empty() {
            self.block.first = number;
            self.block.began = Some(now);
        }
        self.block.datagrams.push(payload);
        if self.block.datagrams.len() >= usize::from(BLOCK) {
            self.close_block();
        }
    }

    fn close_block(&mut self) {
        let block = std::mem::take(&mut self.block);
        let data = block.datagrams.len();
        let parity = self.parity(data);
        if data == 0 || parity == 0 {
            return;
        }

        let shape = BlockShape {
            first: block.first as u32,
            data: data as u8,
            parity: parity as u8,
        };
        let shards = parity::encode(&block.datagrams, parity);
        for (index, shard) in (0..).zip(shards) {
            self.tally.parity += 1;
            self.emit(FrameBody::Parity {
                block: shape,
                index,
                shard,
            });
        }
    }

    /// How many parities a block of so many datagrams gets now.
    fn parity(&self, data: usize) -> usize {
        match self.settings.parity {
            ParityShare::None => 0,
            ParityShare::Percent(percent) => (data * usize::from(percent))
                .div_ceil(100)
                .clamp(1, usize::from(BLOCK)),
            ParityShare::ByLoss => parity::needed(data, self.residual()),
        }
    }

    /// The share of datagrams that stay lost although they are sent again in time.
    fn residual(&self) -> f64 {
        let loss = self.loss.share();
        let Some(round_trip) = self.probes.round_trip else {
            return 0.0;
        };
        let spare = round_trip / 4 + Duration::from_millis(2);
        let rounds = self.settings.within.as_micros() / (round_trip + spare).as_micros();
        let rounds = i32::try_from(rounds)
            .unwrap_or(i32::MAX)
            .min(i32::from(self.settings.tries));
        let residual = loss.powi(rounds + 1);
        if residual < RARE { 0.0 } else { residual }
    }
}

impl Kept {
    fn push(&mut self, payload: Bytes, now: Instant) {
        self.next += 1;
        self.bytes += payload.len();
        self.datagrams.push_back(KeptDatagram {
            sent: now,
            payload,
            attempts: 0,
        });
    }

    /// Forgets datagrams that no one asks for any more, and those above the bounds.
    fn forget(&mut self, settings: &RecoverySettings, now: Instant) {
        while let Some(first) = self.datagrams.front() {
            let is_old = now.saturating_duration_since(first.sent) > 2 * settings.within;
            let is_much = self.bytes > settings.bytes || self.datagrams.len() as u64 > WINDOW;
            if !is_old && !is_much {
                return;
            }
            self.bytes -= first.payload.len();
            self.datagrams.pop_front();
        }
    }

    fn find(&mut self, number: u64) -> Option<&mut KeptDatagram> {
        let first = self.next - self.datagrams.len() as u64;
        let place = number.checked_sub(first)?;
        self.datagrams.get_mut(usize::try_from(place).ok()?)
    }
}

impl Probes {
    /// Whether one is due beside datagrams.
    fn is_due(&self, now: Instant) -> bool {
        self.last
            .is_none_or(|last| now.saturating_duration_since(last) >= PROBE_TIME)
    }

    /// When the end of a burst is to be announced: until the peer says that it knows, or has no use for the last datagrams.
    fn tail_due(&self, within: Duration) -> Option<Instant> {
        let sent = self.sent?;
        let wait = TAIL_TIME * 2_u32.pow(self.tail.min(TAIL_PROBES));
        let is_useful = self.tail < TAIL_PROBES && wait <= within.max(TAIL_TIME);
        is_useful.then(|| sent + wait)
    }

    /// The probe that a report answers, if it was not answered before.
    fn answered(&mut self, id: u32) -> Option<AskedProbe> {
        let place = self.asked.iter().position(|probe| probe.id == id)?;
        self.asked.drain(..=place).next_back()
    }

    /// Smooths as RFC 6298 does.
    fn measured(&mut self, sample: Duration) {
        self.round_trip = Some(match self.round_trip {
            None => sample,
            Some(before) => (before * 7 + sample) / 8,
        });
    }
}
