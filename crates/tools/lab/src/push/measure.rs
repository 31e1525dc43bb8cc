//! One broker, once.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::client::{Publisher, Subscribers};
use super::flow::{MessageFlow, WINDOW};
use super::side::Side;
use super::systems::RunningBroker;
use crate::report::{Figure, Sheet, median, quantile};

/// The case of a latency to so many subscribers.
pub(super) const LATENCY: [(&str, usize); 3] = [
    ("100 B to 1 subscriber", 1),
    ("100 B to 100 subscribers", 100),
    ("100 B to 1,000 subscribers", 1000),
];

pub(super) const STREAM: &str = "100 B without pause to 1 subscriber";
pub(super) const FAN_OUT: &str = "100 B without pause to 100 subscribers";
pub(super) const LARGE: &str = "1 MB to 1 subscriber";
pub(super) const MEMORY: &str = "idle subscribers";
pub(super) const BESIDE_IDLE: &str = "100 B to 1 subscriber, beside idle ones";

/// Bytes of a small message.
const SMALL: usize = 100;

/// Bytes of a large message.
const MEGABYTE: usize = 1_000_000;

/// Pings before those that are measured.
const WARM: usize = 20;

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct PushCounts {
    /// Messages one by one, for each of [`LATENCY`].
    pub pings: [usize; 3],
    /// How long messages are sent without a pause.
    pub stream: Duration,
    /// Subscribers that wait.
    pub idle: [usize; 2],
}

/// A broker, and where its figures go.
pub(super) struct PushMeasuring<'a> {
    pub running: &'a RunningBroker,
    pub counts: PushCounts,
    pub sheet: &'a mut Sheet,
}

impl PushMeasuring<'_> {
    /// Measures all.
    ///
    /// # Errors
    /// When a connection fails.
    pub(super) fn all(mut self) -> Result<()> {
        for ((case, subscribers), pings) in LATENCY.into_iter().zip(self.counts.pings) {
            let times = self.pings(subscribers, pings)?;
            self.add(case, Figure::less("p50", "us"), median(&times));
            self.add(case, Figure::less("p99", "us"), quantile(&times, 0.99));
        }
        // Before the flows, whose buffers stay resident and would be counted as the memory of subscribers.
        self.idle()?;
        self.stream(STREAM, 1)?;
        self.stream(FAN_OUT, 100)?;
        self.large()
    }

    fn add(&mut self, case: &str, figure: Figure, value: f64) {
        let system = self.running.at.system.name();
        self.sheet.add(case, system, figure, value);
    }

    /// Microseconds from a message until the last subscriber has it.
    fn pings(&self, subscribers: usize, count: usize) -> Result<Vec<f64>> {
        let channel = format!("ping{subscribers}");
        let mut subscribers = Subscribers::begin(self.running.at, &channel, subscribers)?;
        let mut publisher = Publisher::begin(self.running.at, &channel, SMALL)?;
        let mut times = Vec::new();
        for ping in 0..WARM + count {
            let begin = Instant::now();
            publisher.publish()?;
            subscribers.wait_for(1)?;
            if ping >= WARM {
                times.push(begin.elapsed().as_secs_f64() * 1e6);
            }
            publisher.answer()?;
        }
        Ok(times)
    }

    /// Messages as fast as the broker takes them, without a loss.
    fn stream(&mut self, case: &str, subscribers: usize) -> Result<()> {
        let used = self.running.process.processor_time_of_all();
        let channel = format!("stream{subscribers}");
        let flow = self.flow(&channel, subscribers, SMALL);
        let rate = flow.run()?;
        let used = self.running.process.processor_time_of_all() - used;
        let deliveries = rate.deliveries as f64;
        let a_second = deliveries / rate.took.as_secs_f64();
        self.add(case, Figure::more("deliveries", "/s"), a_second);
        let each = used.as_secs_f64() * 1e6 / deliveries;
        self.add(case, Figure::less("processor", "us a delivery"), each);
        Ok(())
    }

    fn large(&mut self) -> Result<()> {
        let rate = self.flow("large", 1, MEGABYTE).run()?;
        let a_second = rate.deliveries as f64 / rate.took.as_secs_f64();
        self.add(LARGE, Figure::more("rate", "/s"), a_second);
        Ok(())
    }

    /// Messages without a pause, none of which is lost.
    fn flow<'b>(&self, channel: &'b str, subscribers: usize, size: usize) -> MessageFlow<'b> {
        MessageFlow {
            at: [self.running.at; 2],
            sides: [Side::HERE; 2],
            channel,
            subscribers,
            size,
            window: WINDOW,
            limit: self.counts.stream,
        }
    }

    fn idle(&mut self) -> Result<()> {
        let before = self.running.process.memory();
        let mut all = Vec::new();
        for count in self.counts.idle {
            all.push(Subscribers::begin(
                self.running.at,
                "idle",
                count - waiting(&all),
            )?);
            let after = self.running.process.memory();
            let each = after.saturating_sub(before) as f64 / 1024.0 / count as f64;
            self.add(MEMORY, Figure::less(format!("{count}, each"), "KiB"), each);
            let whole = after as f64 / f64::from(1 << 20);
            self.add(MEMORY, Figure::less(format!("{count}, all"), "MiB"), whole);
        }
        let times = self.pings(1, self.counts.pings[0])?;
        self.add(BESIDE_IDLE, Figure::less("p50", "us"), median(&times));
        Ok(())
    }
}

fn waiting(all: &[Subscribers]) -> usize {
    all.iter().map(Subscribers::count).sum()
}
