//! Messages without a pause, from one publisher to all subscribers of a channel.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use super::client::{Publisher, Subscribers};
use super::side::{Side, apart};
use super::systems::BrokerAddress;

/// Bytes of one write.
const WRITE: usize = 10_000;

/// Messages that all subscribers together may be behind. NATS drops a client that is too far behind, where Hermes has its publisher wait; and what waits
/// for one owner is bounded at the relay, each of its subscriptions counted.
const MESSAGES: u64 = 50_000;

/// The same in bytes, of all flows at once.
pub(super) const WINDOW: u64 = 8 << 20;

/// What is sent.
pub(super) struct MessageFlow<'a> {
    /// The broker of the publisher, and that of the subscribers.
    pub at: [BrokerAddress; 2],
    /// The publisher, and the subscribers.
    pub sides: [Side<'a>; 2],
    pub channel: &'a str,
    pub subscribers: usize,
    /// Bytes of a message.
    pub size: usize,
    /// Bytes that its subscribers may be behind, all together.
    pub window: u64,
    /// How long its publisher goes on.
    pub limit: Duration,
}

/// What came.
#[derive(Debug, Clone, Copy)]
pub(super) struct FlowRate {
    /// Messages, at all subscribers.
    pub deliveries: u64,
    /// Until the last one came.
    pub took: Duration,
}

impl FlowRate {
    /// Gigabits of messages of this size in a second.
    pub(super) fn gigabits(&self, size: usize) -> f64 {
        let bits = self.deliveries as f64 * size as f64 * 8.0;
        bits / self.took.as_secs_f64() / 1e9
    }
}

impl MessageFlow<'_> {
    /// Sends, in threads of its own, and counts. No message may be lost.
    ///
    /// # Errors
    /// When a connection fails, or a message is lost.
    pub(super) fn run(&self) -> Result<FlowRate> {
        apart(|| {
            let [from, to] = self.sides;
            let [first, last] = self.at;
            to.enter()?;
            let mut subscribers = Subscribers::begin(last, self.channel, self.subscribers)?;
            from.enter()?;
            let publisher = Publisher::begin(first, self.channel, self.size)?;

            let taken = AtomicU64::new(0);
            let begin = Instant::now();
            let sent = thread::scope(|scope| {
                let sending = scope.spawn(|| self.send(publisher, begin, &taken));
                // The publisher waits for room that only reading makes.
                while !sending.is_finished() {
                    subscribers.take_some()?;
                    taken.store(subscribers.least(), Ordering::Relaxed);
                }
                let sent = sending.join();
                sent.map_err(|_| anyhow!("the publisher panicked"))?
            })?;
            subscribers.wait_for(sent)?;
            Ok(FlowRate {
                deliveries: sent * self.subscribers as u64,
                took: begin.elapsed(),
            })
        })
    }

    /// Sends until the limit; how many messages.
    fn send(&self, mut publisher: Publisher, begin: Instant, taken: &AtomicU64) -> Result<u64> {
        let messages = (WRITE / self.size).max(1) as u64;
        let batch = publisher.batch(self.channel, self.size, messages);
        let window = MESSAGES.min(self.window / self.size as u64) / self.subscribers as u64;
        publisher.begin_batches(self.channel)?;
        let mut sent = 0;
        while begin.elapsed() < self.limit || sent == 0 {
            if sent - taken.load(Ordering::Relaxed) > window {
                thread::yield_now();
                continue;
            }
            publisher.send(&batch)?;
            sent += batch.messages;
        }
        publisher.end_batches()?;
        Ok(sent)
    }
}
