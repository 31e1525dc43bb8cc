//! The exporter: takes spans from the queue in batches and sends them; sends the metrics now and then.

use std::pin::pin;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use hermes_config::model::Trace;
use hermes_net::Watch;
use serde_json::Value;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::{Ended, Spans, encode, metrics};
use crate::LOG;
use crate::batch::{BatchFate, Batches};
use crate::post::{Content, Destination, Refused, post};

/// Spans of one message: some hundred kilobytes.
#[doc(alias = "bound")]
const BATCH: usize = 512;

/// How long a span waits for others, and how soon a reload is noticed.
const TICK: Duration = Duration::from_secs(1);

/// Time for the remaining spans when the process ends.
#[doc(alias = "bound")]
const LAST: Duration = Duration::from_millis(500);

/// The node whose spans and metrics are exported.
#[derive(Clone, Copy)]
pub(crate) struct ExportedNode<'a> {
    pub(crate) name: &'a str,
    pub(crate) spans: &'a Spans,
    /// Its metrics as Prometheus gets them.
    pub(crate) metrics: &'a (dyn Fn() -> String + Sync),
}

/// The state of the export.
struct Exporter<'a> {
    node: ExportedNode<'a>,
    batches: Batches<Ended>,
    metrics_sent: Instant,
    began: SystemTime,
}

impl ExportedNode<'_> {
    /// Sends spans and metrics as `config` says at the time, until the process ends. Only the first call does anything.
    pub(crate) async fn export(
        self,
        config: impl Fn() -> (Trace, Option<Destination>),
        watch: Watch,
    ) {
        let Some(queue) = self.spans.far.lock().take() else {
            return;
        };
        let mut exporter = Exporter {
            node: self,
            batches: Batches::new(queue, BATCH),
            metrics_sent: Instant::now(),
            began: SystemTime::now(),
        };

        let mut ticks = interval(TICK);
        // No burst of ticks to catch up after a slow collector.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut end = pin!(watch.graceful());

        loop {
            let (trace, to) = config();
            self.spans.on.store(to.is_some(), Ordering::Relaxed);

            tokio::select! {
                () = &mut end => break,
                () = exporter.turn(&trace, to.as_ref(), ticks.tick()) => {}
            }
        }

        let (trace, to) = config();
        let _ = timeout(LAST, exporter.finish(&trace, to.as_ref())).await;
    }
}

impl Exporter<'_> {
    /// Takes spans until the batch is full or the tick comes, then sends the due batch. May be
    /// dropped at any time: a batch that was being sent is kept.
    async fn turn(
        &mut self,
        trace: &Trace,
        to: Option<&Destination>,
        tick: impl Future<Output = Instant>,
    ) {
        self.batches.gather(tick).await;
        match to {
            // The configuration changed: there is no collector any more.
            None => drop(self.batches.discard()),
            Some(to) => {
                if self.batches.is_due() {
                    self.send(to, trace).await;
                }
                if trace
                    .metrics
                    .is_some_and(|every| self.metrics_sent.elapsed() >= every.0)
                {
                    self.send_metrics(to).await;
                }
            }
        }
    }

    async fn send(&mut self, to: &Destination, trace: &Trace) {
        let message = encode::request(self.node.name, self.batches.items(), trace.user);
        let sent = post(to, "/v1/traces", plain(&message)).await;
        self.tell(to, &sent);
        let counters = &self.node.spans.counters;

        match self.batches.settle(&sent) {
            BatchFate::Sent(spans) => counters.count("exported", spans),
            BatchFate::Dropped(spans) => counters.count("failed", spans),
            BatchFate::Kept => {}
        }
    }

    async fn send_metrics(&mut self, to: &Destination) {
        self.metrics_sent = Instant::now();
        let text = (self.node.metrics)();
        let message = metrics::request(self.node.name, &text, self.began, SystemTime::now());
        // The next ones say more than these: they are not sent twice.
        let sent = post(to, "/v1/metrics", plain(&message)).await;
        self.tell(to, &sent);
    }

    /// Sends the remaining spans.
    async fn finish(&mut self, trace: &Trace, to: Option<&Destination>) {
        let Some(to) = to else { return };
        while self.batches.fill_last() {
            self.send(to, trace).await;
        }
    }

    fn tell(&mut self, to: &Destination, sent: &Result<(), Refused>) {
        if !self.batches.has_turned(sent.is_ok()) {
            return;
        }
        let collector = &to.server;
        match sent {
            Err(error) => {
                tracing::warn!(target: LOG, %collector, %error, "traces and metrics do not arrive")
            }
            Ok(()) => tracing::info!(target: LOG, %collector, "traces and metrics arrive again"),
        }
    }
}

fn plain(message: &Value) -> Content {
    Content {
        bytes: message.to_string().into(),
        is_gzip: false,
    }
}
