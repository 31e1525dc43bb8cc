//! The experiments of the paper that need one machine: pings and throughput by size, a call beside bulk, many receivers, many pairs.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use super::call::Call;
use super::counts::{BULK, PaperCounts};
use crate::push::client::{Publisher, Subscribers};
use crate::push::flow::{FlowRate, MessageFlow, WINDOW};
use crate::push::lane::{LaneKind, pings};
use crate::push::side::Side;
use crate::push::systems::BrokerAddress;
use crate::push::words;
use crate::report::{Figure, Sheet, median};

/// The ping of the paper's first table.
pub(crate) const PING: &str = "ping of 100 B, one machine (Table 1)";
/// A call beside bulk.
pub(crate) const CALL: &str = "160 B, 50 a second, beside bulk (Fig. 7b)";
/// The sizes of heads.
pub(crate) const HEADS: &str = "bytes beside a message of 100 B";
/// The largest messages.
pub(crate) const LARGEST: &str = "1 MB without pause, one machine (Fig. 7c)";
/// Bytes of a message of the paper's ping.
pub(super) const SMALL: usize = 100;

/// The brokers and the other ways on this machine.
pub(super) struct LocalMeasuring<'a> {
    pub lanes: &'a [LaneKind],
    pub brokers: &'a [BrokerAddress],
    pub counts: PaperCounts,
    pub sheet: &'a mut Sheet,
}

impl LocalMeasuring<'_> {
    /// Measures all.
    ///
    /// # Errors
    /// When a connection fails.
    pub(super) fn all(mut self) -> Result<()> {
        for size in self.counts.sizes {
            for lane in self.lanes {
                self.ping(*lane, *size)?;
                self.throughput(*lane, *size)?;
            }
        }
        for lane in self.lanes {
            self.call(*lane)?;
        }
        for at in self.brokers {
            for receivers in self.counts.receivers {
                self.receivers(*at, *receivers)?;
            }
            for pairs in self.counts.pairs {
                self.pairs(*at, *pairs)?;
            }
            self.heads(*at)?;
        }
        Ok(())
    }

    fn ping(&mut self, lane: LaneKind, size: usize) -> Result<()> {
        let times = pings(lane, [Side::HERE; 2], size, self.counts.pings)?;
        let case = match size {
            SMALL => PING.to_owned(),
            _ => format!("ping of {}, one machine (Fig. 7a)", bytes(size)),
        };
        let p50 = median(&times) * 1e3;
        let figure = Figure::less("RTT, p50", "ms");
        self.sheet.add(&case, &lane.to_string(), figure, p50);
        Ok(())
    }

    fn throughput(&mut self, lane: LaneKind, size: usize) -> Result<()> {
        let rate = lane.flow([Side::HERE; 2], size, self.counts.flow)?;
        let case = format!("{} without pause, one machine (Fig. 7c)", bytes(size));
        let figure = Figure::more("throughput", "Gbit/s");
        self.sheet
            .add(&case, &lane.to_string(), figure, rate.gigabits(size));
        Ok(())
    }

    fn call(&mut self, lane: LaneKind) -> Result<()> {
        let spoken = Call {
            lane,
            sides: [Side::HERE; 2],
            messages: self.counts.call,
            has_bulk: true,
        };
        spoken.measure(CALL, self.sheet)
    }

    fn receivers(&mut self, at: BrokerAddress, subscribers: usize) -> Result<()> {
        let flow = MessageFlow {
            at: [at; 2],
            sides: [Side::HERE; 2],
            channel: &format!("receivers{subscribers}"),
            subscribers,
            size: BULK,
            window: WINDOW,
            limit: self.counts.flow,
        };
        let rate = flow.run()?;
        let case = format!("50 KB to {subscribers} receivers (Fig. 8b)");
        self.add_total(&case, at, rate.gigabits(BULK));
        Ok(())
    }

    fn pairs(&mut self, at: BrokerAddress, pairs: usize) -> Result<()> {
        let limit = self.counts.flow;
        let begin = Instant::now();
        let rates: Result<Vec<FlowRate>> = std::thread::scope(|scope| {
            let flows: Vec<_> = (0..pairs)
                .map(|pair| scope.spawn(move || one_of(at, pair, pairs, limit)))
                .collect();
            let joined = flows.into_iter().map(|flow| {
                let ended = flow.join();
                ended.map_err(|_| anyhow!("a pair panicked"))?
            });
            joined.collect()
        });
        let all = FlowRate {
            deliveries: rates?.iter().map(|rate| rate.deliveries).sum(),
            took: begin.elapsed(),
        };
        let case = format!("50 KB of {pairs} pairs at once (Fig. 8c)");
        self.add_total(&case, at, all.gigabits(BULK));
        Ok(())
    }

    fn add_total(&mut self, case: &str, at: BrokerAddress, gigabits: f64) {
        let figure = Figure::more("all together", "Gbit/s");
        self.sheet.add(case, at.system.name(), figure, gigabits);
    }

    /// Bytes on the wire, above TCP, beside the content.
    fn heads(&mut self, at: BrokerAddress) -> Result<()> {
        const MESSAGES: u64 = 10;

        let channel = "heads";
        let mut subscriber = Subscribers::begin(at, channel, 1)?;
        let mut publisher = Publisher::begin(at, channel, SMALL)?;
        for _ in 0..MESSAGES {
            publisher.publish()?;
            subscriber.wait_for(1)?;
            publisher.answer()?;
        }
        let system = at.system.name();
        let received = subscriber.bytes() as f64 / MESSAGES as f64 - SMALL as f64;
        let batch = publisher.batch(channel, SMALL, 1000);
        let streamed = batch.bytes.len() as f64 / 1000.0 - SMALL as f64;
        let subscribed = words::subscription(at.system, channel).len();
        for (name, value) in [
            ("publish", publisher.head(SMALL) as f64),
            ("publish, many in one stream", streamed),
            ("receive", received),
            ("subscribe, once", subscribed as f64),
        ] {
            self.sheet
                .add(HEADS, system, Figure::less(name, "B"), value);
        }
        Ok(())
    }
}

/// One of several pairs, which share the room of one owner.
fn one_of(at: BrokerAddress, pair: usize, pairs: usize, limit: Duration) -> Result<FlowRate> {
    let flow = MessageFlow {
        at: [at; 2],
        sides: [Side::HERE; 2],
        channel: &format!("pair{pair}of{pairs}"),
        subscribers: 1,
        size: BULK,
        window: WINDOW / pairs as u64,
        limit,
    };
    flow.run()
}

/// A size as people say it.
pub(super) fn bytes(size: usize) -> String {
    match size {
        1_000_000.. => format!("{} MB", size / 1_000_000),
        1000.. => format!("{} KB", size / 1000),
        _ => format!("{size} B"),
    }
}
