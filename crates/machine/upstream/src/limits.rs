//! Bounds on open exchanges and connections towards one upstream, over all workers, and the queue
//! for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use hermes_config::model::UpstreamLimits;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use crate::answers::AnswerLimits;
use crate::failure::{ConnectFailure, FailureKind};

/// Exchanges that may wait for an upstream: more than a burst, fewer than would fill memory.
#[doc(alias("bound", "limits.pending"))]
const PENDING: usize = 1024;

/// A place under a bound; given back when the last clone is dropped. `None` where there is no bound.
pub(crate) type Room = Option<Arc<OwnedSemaphorePermit>>;

/// The bounds of one upstream.
#[derive(Debug)]
pub(crate) struct Limits {
    connections: Option<Gate>,
    exchanges: Option<Gate>,
    pending: usize,
    waiting: AtomicUsize,
    refused: AtomicU64,
    /// Bounds of its endpoints' answers.
    pub(crate) answers: AnswerLimits,
}

#[derive(Debug)]
struct Gate {
    room: Arc<Semaphore>,
    most: usize,
    waiting: AtomicUsize,
    what: &'static str,
}

impl Gate {
    fn new(count: u32, what: &'static str) -> Self {
        Self {
            room: Arc::new(Semaphore::new(count as usize)),
            most: count as usize,
            waiting: AtomicUsize::new(0),
            what,
        }
    }
}

/// Counts one that waits, until it is dropped.
struct Waiting<'a>([&'a AtomicUsize; 2]);

impl<'a> Waiting<'a> {
    fn new(counters: [&'a AtomicUsize; 2]) -> Self {
        for counter in counters {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        Self(counters)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        for counter in self.0 {
            counter.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Limits {
    pub(crate) fn new(config: &UpstreamLimits) -> Self {
        Self {
            connections: config
                .connections
                .map(|count| Gate::new(count, "connections")),
            exchanges: config.streams.map(|count| Gate::new(count, "exchanges")),
            pending: config.pending.map_or(PENDING, |count| count as usize),
            waiting: AtomicUsize::new(0),
            refused: AtomicU64::new(0),
            answers: AnswerLimits::new(config),
        }
    }

    /// Room for an exchange; waited for until then.
    pub(crate) async fn exchange(
        &self,
        until: Instant,
        upstream: &str,
    ) -> Result<Room, ConnectFailure> {
        self.enter(self.exchanges.as_ref(), until, upstream).await
    }

    /// Room for a connection; waited for until then.
    pub(crate) async fn connection(
        &self,
        until: Instant,
        endpoint: &str,
    ) -> Result<Room, ConnectFailure> {
        self.enter(self.connections.as_ref(), until, endpoint).await
    }

    async fn enter(
        &self,
        gate: Option<&Gate>,
        until: Instant,
        place: &str,
    ) -> Result<Room, ConnectFailure> {
        let Some(gate) = gate else { return Ok(None) };
        if let Ok(permit) = gate.room.clone().try_acquire_owned() {
            return Ok(Some(Arc::new(permit)));
        }

        if self.waiting() >= self.pending {
            return Err(self.refuse(
                place,
                format!("too many {} are open, and too many wait", gate.what),
            ));
        }

        let _waiting = Waiting::new([&self.waiting, &gate.waiting]);
        match timeout_at(until, gate.room.clone().acquire_owned()).await {
            Ok(Ok(permit)) => Ok(Some(Arc::new(permit))),
            _ => Err(self.refuse(
                place,
                format!("too many {} are open, and none ended in time", gate.what),
            )),
        }
    }

    fn refuse(&self, place: &str, reason: String) -> ConnectFailure {
        self.refused.fetch_add(1, Ordering::Relaxed);
        ConnectFailure::new(FailureKind::Limit, place, reason)
    }

    /// Whether someone waits for a connection that an idle one could make room for.
    pub(crate) fn wants_connections(&self) -> bool {
        self.connections
            .as_ref()
            .is_some_and(|gate| gate.waiting.load(Ordering::Relaxed) > 0)
    }

    /// Whether half of the connections that may be open are free.
    pub(crate) fn has_spare_connections(&self) -> bool {
        self.connections
            .as_ref()
            .is_none_or(|gate| gate.room.available_permits() > gate.most / 2)
    }

    /// How many wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// How many were refused since the start.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}
