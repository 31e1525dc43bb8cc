//! Spans on their way to a collector: OTLP over HTTP, in its JSON encoding (OpenTelemetry protocol, 1.x).
//!
//! Written here rather than taken from the opentelemetry crates: two messages are needed, and those
//! crates bring a second model of spans and metrics, a batching run time and an HTTP client with
//! them. The queue never makes a worker wait: spans without room are counted and dropped.

mod encode;
mod export;
mod metrics;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::live::Live;
use super::record::Record;
use super::span::Span;
use crate::waiting::{WaitingPart, WaitingRoom};
pub(crate) use export::ExportedNode;

/// Spans that wait for the collector: some seconds at a thousand sampled exchanges a second. A
/// collector that is away costs spans, not traffic.
#[doc(alias = "bound")]
const QUEUE: usize = 4096;

/// Bytes of spans that wait, those of the batch that is being sent included: a full queue of usual ones.
#[doc(alias = "bound")]
const QUEUE_BYTES: usize = 8 << 20;

/// A recorded exchange.
#[derive(Debug)]
struct Ended {
    _part: WaitingPart,
    span: Span,
    record: Record,
    began: SystemTime,
    ended: SystemTime,
    failed: bool,
}

/// The near end of the queue.
#[derive(Debug)]
pub(super) struct Spans {
    /// Whether a collector is configured.
    on: AtomicBool,
    queue: Sender<Ended>,
    room: Arc<WaitingRoom>,
    /// Taken by the exporter.
    far: Mutex<Option<Receiver<Ended>>>,
    counters: SpanCounters,
}

impl Spans {
    /// An empty queue.
    pub fn new(counters: SpanCounters) -> Self {
        let (queue, far) = channel(QUEUE);
        Self {
            on: AtomicBool::new(false),
            queue,
            room: WaitingRoom::new(QUEUE, QUEUE_BYTES),
            far: Mutex::new(Some(far)),
            counters,
        }
    }

    /// Whether this exchange is to be recorded.
    pub fn wants(&self, live: &Live) -> bool {
        self.on.load(Ordering::Relaxed) && live.span.get().is_some_and(|span| span.context.sampled)
    }

    /// Queues an exchange that has ended, if its user or source has room there.
    pub fn offer(&self, live: &Live, record: Record, failed: bool) {
        let Some(span) = live.span.get().cloned() else {
            return;
        };
        let size = size_of::<Span>() + record.size();
        let is_queued = self
            .room
            .enter(size, || record.owner())
            .is_some_and(|part| {
                let ended = Ended {
                    _part: part,
                    span,
                    record,
                    began: live.began,
                    ended: SystemTime::now(),
                    failed,
                };
                self.queue.try_send(ended).is_ok()
            });

        if !is_queued {
            self.counters.count("queue_full", 1);
        }
    }
}

/// Counts the fates of spans.
#[derive(Debug, Clone)]
pub(super) struct SpanCounters(Family<Outcome, Counter>);

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

impl SpanCounters {
    /// Counters at zero.
    pub fn register(registry: &mut Registry) -> Self {
        let spans = Family::default();
        registry.register(
            "spans",
            "Recorded exchanges, by what became of them",
            spans.clone(),
        );
        let counters = Self(spans);

        for outcome in ["exported", "queue_full", "failed"] {
            counters.count(outcome, 0);
        }
        counters
    }

    fn count(&self, outcome: &'static str, count: usize) {
        self.0
            .get_or_create(&Outcome { outcome })
            .inc_by(count as u64);
    }
}
