//! The log of decisions on its way out: to a file, or to an HTTP service.
//!
//! The content of a decision is made elsewhere, without secrets; here it is a line of JSON. Neither
//! queue ever makes a worker wait: decisions without room are counted and dropped. If room is
//! short, an owner of many decisions leaves some for others.

mod upload;

#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hermes_net::AppendedFile;
use hermes_net::memory::Owner;
use parking_lot::{Mutex, RwLock};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use serde::Serialize;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::Telemetry;
use crate::shown::write_json;
use crate::waiting::{WaitingPart, WaitingRoom};
use crate::writer::{Fates, Place, Writer, Written};

/// Decisions that wait for their file or service: a fraction of a second's at full speed. A service that is away costs decisions,
/// not traffic.
#[doc(alias = "bound")]
const QUEUE: usize = 4096;

/// Bytes of decisions that wait, for the file and for the service each: a full queue of usual ones.
/// Clients choose much of a decision's content.
#[doc(alias = "bound")]
const QUEUE_BYTES: usize = 8 << 20;

/// One decision, as a line of JSON.
#[derive(Debug, Clone)]
pub struct DecisionLine {
    json: Box<[u8]>,
    owner: Owner,
    /// Its part of the queue to the service.
    _part: Option<Arc<WaitingPart>>,
}

impl DecisionLine {
    /// A line with the content of a decision.
    pub fn new(event: &impl Serialize) -> Self {
        let mut line = Vec::with_capacity(1024);
        // Writing to memory does not fail, and keys are texts.
        let _ = write_json(&mut line, event);
        Self {
            json: line.into(),
            owner: Owner::Local,
            _part: None,
        }
    }

    /// The same, with the owner of the exchange; the line takes a part of that owner's share.
    #[must_use]
    pub fn owned_by(self, owner: Owner) -> Self {
        Self { owner, ..self }
    }

    /// The same in the queue to the service; `None` if it has no room for it.
    fn in_queue(mut self, room: &Arc<WaitingRoom>) -> Option<Self> {
        let part = room.enter(self.json.len(), || self.owner.clone())?;
        self._part = Some(Arc::new(part));
        Some(self)
    }

    /// Its JSON, without the end of the line.
    pub fn as_bytes(&self) -> &[u8] {
        &self.json
    }
}

impl Written for DecisionLine {
    const QUEUE: usize = QUEUE;
    const BYTES: Option<usize> = Some(QUEUE_BYTES);
    const THREAD: &'static str = "hermes-decided";
    const WHAT: &'static str = "logged decisions";

    fn size(&self) -> usize {
        self.json.len()
    }

    fn owner(&self) -> Owner {
        self.owner.clone()
    }

    fn write(&self, output: &mut impl io::Write) -> io::Result<()> {
        output.write_all(&self.json)?;
        output.write_all(b"\n")
    }
}

/// The near end of both queues.
#[derive(Debug)]
pub(super) struct Decisions {
    file: RwLock<Writer<DecisionLine>>,
    posted: Sender<DecisionLine>,
    posted_room: Arc<WaitingRoom>,
    /// Taken by the uploader.
    far: Mutex<Option<Receiver<DecisionLine>>>,
    fates: Fates,
}

impl Decisions {
    /// Empty queues, and no file.
    pub fn new(counters: &DecisionCounters) -> Self {
        let (posted, far) = channel(QUEUE);
        let fates = counters.fates();
        Self {
            file: RwLock::new(Writer::start(None, fates.clone())),
            posted,
            posted_room: WaitingRoom::new(QUEUE, QUEUE_BYTES),
            far: Mutex::new(Some(far)),
            fates,
        }
    }
}

impl Telemetry {
    /// Logs further decisions to this file, which is begun if it is not there; `None`: to no file. Earlier ones stay where they went.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn redirect_decisions(&self, file: Option<&Path>) -> io::Result<()> {
        let place = file.map(AppendedFile::open).transpose()?.map(Place::File);
        let decisions = &self.decisions;
        *decisions.file.write() = Writer::start(place, decisions.fates.clone());
        Ok(())
    }

    /// Looks at once whether the file of decisions was moved, and begins a new one then.
    pub fn reopen_decisions(&self) {
        self.decisions.file.read().follow();
    }

    /// Waits at most `limit` until the decisions logged so far are in their file; false when they are not.
    ///
    /// Blocks the thread: for the end of a process.
    pub fn flush_decisions(&self, limit: Duration) -> bool {
        self.decisions.file.read().flush(limit)
    }

    /// Logs a decision to the file, if there is one.
    pub fn write_decision(&self, line: DecisionLine) {
        self.decisions.file.read().offer(line);
    }

    /// Counts a decision for which there is no room before it is made a line.
    pub fn forgo_decision(&self) {
        self.decisions.fates.crowded_out.inc();
    }

    /// Logs a decision to the service.
    pub fn post_decision(&self, line: DecisionLine) {
        let line = line.in_queue(&self.decisions.posted_room);
        let sent = line.is_some_and(|line| self.decisions.posted.try_send(line).is_ok());
        if !sent {
            self.forgo_decision();
        }
    }
}

/// Counts the fates of logged decisions.
#[derive(Debug, Clone)]
pub(super) struct DecisionCounters(Family<FateLabel, Counter>);

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FateLabel {
    outcome: &'static str,
}

impl DecisionCounters {
    /// Counters at zero.
    pub fn register(registry: &mut Registry) -> Self {
        let decisions = Family::default();
        registry.register(
            "decisions_logged",
            "Decisions for the log, by what became of them",
            decisions.clone(),
        );
        let counters = Self(decisions);
        // All series exist from the beginning.
        counters.fates();
        counters
    }

    fn fates(&self) -> Fates {
        let counter = |outcome| self.0.get_or_create(&FateLabel { outcome }).clone();
        Fates {
            written: counter("logged"),
            crowded_out: counter("queue_full"),
            failed: counter("failed"),
        }
    }
}
