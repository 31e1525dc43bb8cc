//! The exporter: takes spans from the queue in batches and sends them; sends the metrics now and then.

use std::pin::pin;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use hermes_config::model::Trace;
use hermes_net::Watch;
use serde_json::Value;
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::{Ended, Spans, encode, metrics};
use crate::LOG;
use crate::post::{Content, Destination, Refused, post};

/// Spans of one message: some hundred kilobytes.
#[doc(alias = "bound")]
const BATCH: usize = 512;

/// How long a span waits for others, and how soon a reload is noticed.
const TICK: Duration = Duration::from_secs(1);

/// Attempts to send one batch; then it is dropped, so that the sent ones are not old.
#[doc(alias = "bound")]
const TRIES: u32 = 5;

/// Pause after the first failure; it doubles with each further one.
const PAUSE: Duration = Duration::from_secs(1);

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
    queue: Receiver<Ended>,
    batch: Vec<Ended>,
    tries: u32,
    not_before: Instant,
    metrics_sent: Instant,
    began: SystemTime,
    /// Whether the last message was taken, so that the log says each change once.
    well: bool,
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
        let batch = Vec::with_capacity(BATCH);
        let now = Instant::now();
        let tries = 0;
        let not_before = now;
        let metrics_sent = now;
        let well = true;
        let began = SystemTime::now();

        let mut exporter = Exporter {
            node: self,
            queue,
            batch,
            tries,
            not_before,
            metrics_sent,
            began,
            well,
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
        let mut tick = pin!(tick);
        while self.batch.len() < BATCH {
            let room = BATCH - self.batch.len();
            tokio::select! {
                _ = self.queue.recv_many(&mut self.batch, room) => {}
                _ = &mut tick => break,
            }
        }

        // A full batch does not wait above: without this, a collector that is away would keep this task spinning.
        if self.batch.len() == BATCH && Instant::now() < self.not_before {
            tick.await;
        }
        match to {
            None => self.batch.clear(),
            Some(to) => {
                if !self.batch.is_empty() && Instant::now() >= self.not_before {
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
        let message = encode::request(self.node.name, &self.batch, trace.user);
        let sent = post(to, "/v1/traces", plain(&message)).await;
        self.tell(to, &sent);
        let counters = &self.node.spans.counters;

        match sent {
            Ok(()) => counters.count("exported", self.batch.len()),
            Err(refused) if refused.again && self.tries + 1 < TRIES => {
                self.not_before = Instant::now() + PAUSE * 2_u32.pow(self.tries);
                self.tries += 1;
                return;
            }
            Err(_) => counters.count("failed", self.batch.len()),
        }

        self.batch.clear();
        self.tries = 0;
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
        loop {
            while self.batch.len() < BATCH
                && let Ok(ended) = self.queue.try_recv()
            {
                self.batch.push(ended);
            }

            if self.batch.is_empty() {
                return;
            }
            // The process ends: there is no time for another try.
            self.tries = TRIES;
            self.send(to, trace).await;
        }
    }

    fn tell(&mut self, to: &Destination, sent: &Result<(), Refused>) {
        let collector = &to.server;
        match sent {
            Err(error) if self.well => {
                tracing::warn!(target: LOG, %collector, %error, "traces and metrics do not arrive")
            }
            Ok(()) if !self.well => {
                tracing::info!(target: LOG, %collector, "traces and metrics arrive again")
            }
            _ => {}
        }

        self.well = sent.is_ok();
    }
}

fn plain(message: &Value) -> Content {
    Content {
        bytes: message.to_string().into(),
        is_gzip: false,
    }
}
