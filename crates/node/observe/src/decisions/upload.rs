//! Sends decisions to an HTTP service in batches, as Open Policy Agent does: gzip'd lists of JSON.

use std::io::Write;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use hermes_net::Watch;
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::{DecisionLine, Fates};
use crate::post::{Content, Destination, Refused, post};
use crate::{LOG, Telemetry};

/// Decisions of one message: some hundred kilobytes before they are compressed.
#[doc(alias = "bound")]
const BATCH: usize = 256;

/// How long a decision waits for others, and how soon a reload is noticed.
const TICK: Duration = Duration::from_secs(1);

/// Attempts to send one batch; then it is dropped, so that the sent ones are not old.
#[doc(alias = "bound")]
const TRIES: u32 = 5;

/// Pause after the first failure; it doubles with each further one.
const PAUSE: Duration = Duration::from_secs(1);

/// Time for the remaining lines when the process ends.
#[doc(alias = "bound")]
const LAST: Duration = Duration::from_millis(500);

/// The state of the upload.
struct Uploader {
    queue: Receiver<DecisionLine>,
    batch: Vec<DecisionLine>,
    fates: Fates,
    tries: u32,
    not_before: Instant,
    /// Whether the last message was taken, so that the log says each change once.
    well: bool,
}

impl Telemetry {
    /// Sends decisions to where `config` says at the time, until the process ends. Only the first call does anything.
    pub async fn send_decisions(
        self: Arc<Self>,
        config: impl Fn() -> Option<Destination>,
        watch: Watch,
    ) {
        let Some(queue) = self.decisions.far.lock().take() else {
            return;
        };
        let mut uploader = Uploader {
            queue,
            batch: Vec::new(),
            fates: self.decisions.fates.clone(),
            tries: 0,
            not_before: Instant::now(),
            well: true,
        };

        let mut ticks = interval(TICK);
        // No burst of ticks to catch up after a slow service.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut end = pin!(watch.graceful());
        loop {
            tokio::select! {
                () = &mut end => break,
                () = uploader.gather(ticks.tick()) => {}
            }

            // Dropped where the process ends; the batch is still there then.
            tokio::select! {
                () = &mut end => break,
                () = uploader.send_if_due(config()) => {}
            }
        }

        let _ = timeout(LAST, uploader.finish(config())).await;
    }
}

impl Uploader {
    /// Takes decisions until the batch is full or the tick comes. May be dropped at any time.
    async fn gather(&mut self, tick: impl Future<Output = Instant>) {
        let mut tick = pin!(tick);
        while self.batch.len() < BATCH {
            let room = BATCH - self.batch.len();
            tokio::select! {
                _ = self.queue.recv_many(&mut self.batch, room) => {}
                _ = &mut tick => return,
            }
        }

        // A batch waits to be tried again, and others wait for it.
        if Instant::now() < self.not_before {
            tick.await;
        }
    }

    async fn send_if_due(&mut self, to: Option<Destination>) {
        match to {
            _ if self.batch.is_empty() || Instant::now() < self.not_before => {}
            Some(to) => self.send(&to).await,
            // The configuration changed: there is no receiver any more.
            None => self.give_up(),
        }
    }

    async fn send(&mut self, to: &Destination) {
        let Some(content) = packed(self.batch.clone()).await else {
            return self.give_up();
        };
        let sent = post(to, "", content).await;
        self.tell(to, &sent);

        match sent {
            Ok(()) => {
                self.fates.written.inc_by(self.batch.len() as u64);
                self.batch.clear();
                self.tries = 0;
            }
            Err(refused) if refused.again && self.tries + 1 < TRIES => {
                self.not_before = Instant::now() + PAUSE * 2_u32.pow(self.tries);
                self.tries += 1;
            }
            Err(_) => self.give_up(),
        }
    }

    fn give_up(&mut self) {
        self.fates.failed.inc_by(self.batch.len() as u64);
        self.batch.clear();
        self.tries = 0;
    }

    /// Sends the remaining lines.
    async fn finish(&mut self, to: Option<Destination>) {
        loop {
            while self.batch.len() < BATCH
                && let Ok(line) = self.queue.try_recv()
            {
                self.batch.push(line);
            }

            if self.batch.is_empty() {
                return;
            }
            // The process ends: there is no time for another try.
            self.tries = TRIES;
            match &to {
                Some(to) => self.send(to).await,
                None => self.give_up(),
            }
        }
    }

    fn tell(&mut self, to: &Destination, sent: &Result<(), Refused>) {
        let service = &to.server;
        match sent {
            Err(error) if self.well => {
                tracing::warn!(target: LOG, %service, %error, "decisions are not taken by their service")
            }
            Ok(()) if !self.well => {
                tracing::info!(target: LOG, %service, "decisions are taken again")
            }
            _ => {}
        }

        self.well = sent.is_ok();
    }
}

/// A batch as it is sent. It is compressed on a thread of its own, because health checks wait beside it.
async fn packed(batch: Vec<DecisionLine>) -> Option<Content> {
    let bytes = tokio::task::spawn_blocking(move || compressed(&batch)).await;
    let bytes = bytes.ok()?.ok()?;
    Some(Content {
        bytes,
        is_gzip: true,
    })
}

/// A list of JSON, by gzip (RFC 1952).
pub(super) fn compressed(batch: &[DecisionLine]) -> std::io::Result<Bytes> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let mut before: &[u8] = b"[";
    for line in batch {
        encoder.write_all(before)?;
        encoder.write_all(line.as_bytes())?;
        before = b",";
    }
    encoder.write_all(b"]")?;
    Ok(encoder.finish()?.into())
}
