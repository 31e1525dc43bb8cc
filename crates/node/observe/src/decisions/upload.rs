//! Sends decisions to an HTTP service in batches, as Open Policy Agent does: gzip'd lists of JSON.

use std::io::Write;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use hermes_net::Watch;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::{DecisionLine, Fates};
use crate::batch::{BatchFate, Batches};
use crate::post::{Content, Destination, Refused, post};
use crate::{LOG, Telemetry};

/// Decisions of one message: some hundred kilobytes before they are compressed.
#[doc(alias = "bound")]
const BATCH: usize = 256;

/// How long a decision waits for others, and how soon a reload is noticed.
const TICK: Duration = Duration::from_secs(1);

/// Time for the remaining lines when the process ends.
#[doc(alias = "bound")]
const LAST: Duration = Duration::from_millis(500);

/// The state of the upload.
struct Uploader {
    batches: Batches<DecisionLine>,
    fates: Fates,
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
            batches: Batches::new(queue, BATCH),
            fates: self.decisions.fates.clone(),
        };

        let mut ticks = interval(TICK);
        // No burst of ticks to catch up after a slow service.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut end = pin!(watch.graceful());
        loop {
            tokio::select! {
                () = &mut end => break,
                () = uploader.batches.gather(ticks.tick()) => {}
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
    async fn send_if_due(&mut self, to: Option<Destination>) {
        match to {
            _ if !self.batches.is_due() => {}
            Some(to) => self.send(&to).await,
            // The configuration changed: there is no receiver any more.
            None => self.give_up(),
        }
    }

    async fn send(&mut self, to: &Destination) {
        let Some(content) = packed(self.batches.items().to_vec()).await else {
            return self.give_up();
        };
        let sent = post(to, "", content).await;
        self.tell(to, &sent);

        match self.batches.settle(&sent) {
            BatchFate::Sent(lines) => drop(self.fates.written.inc_by(lines as u64)),
            BatchFate::Dropped(lines) => drop(self.fates.failed.inc_by(lines as u64)),
            BatchFate::Kept => {}
        }
    }

    fn give_up(&mut self) {
        self.fates.failed.inc_by(self.batches.discard() as u64);
    }

    /// Sends the remaining lines.
    async fn finish(&mut self, to: Option<Destination>) {
        while self.batches.fill_last() {
            match &to {
                Some(to) => self.send(to).await,
                None => self.give_up(),
            }
        }
    }

    fn tell(&mut self, to: &Destination, sent: &Result<(), Refused>) {
        if !self.batches.has_turned(sent.is_ok()) {
            return;
        }
        let service = &to.server;
        match sent {
            Err(error) => {
                tracing::warn!(target: LOG, %service, %error, "decisions are not taken by their service")
            }
            Ok(()) => tracing::info!(target: LOG, %service, "decisions are taken again"),
        }
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
