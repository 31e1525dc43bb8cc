//! When agents put documents in force, and how often.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hermes_agent::{Refused, Subject};
use hermes_api::Statement;
use parking_lot::Mutex;
use std::sync::Arc;

/// The times of all agents.
#[derive(Debug, Default)]
pub(super) struct Journal {
    /// When each agent put a document in force for the last time.
    last: Mutex<Vec<Option<Instant>>>,
    /// Documents that were put in force since the beginning.
    applied: AtomicU64,
}

/// An agent's node without a data plane: it notes when it was changed.
pub(super) struct Noted {
    pub(super) journal: Arc<Journal>,
    pub(super) agent: usize,
}

impl Journal {
    /// Room for one more agent; returns its number.
    pub(super) fn add(&self) -> usize {
        let mut last = self.last.lock();
        last.push(None);
        last.len() - 1
    }

    fn note(&self, agent: usize) {
        self.applied.fetch_add(1, Ordering::Relaxed);
        let mut last = self.last.lock();
        if let Some(last) = last.get_mut(agent) {
            *last = Some(Instant::now());
        }
    }

    /// Documents that were put in force since the beginning.
    pub(super) fn applied(&self) -> u64 {
        self.applied.load(Ordering::Relaxed)
    }

    /// When this agent put its last document in force.
    pub(super) fn last(&self, agent: usize) -> Option<Instant> {
        self.last.lock().get(agent).copied().flatten()
    }

    /// The times from `begin` until each agent put its last document in force, of those that did since then; in milliseconds.
    pub(super) fn since(&self, begin: Instant) -> Vec<f64> {
        let last = self.last.lock();
        let times = last.iter().flatten();
        let times = times.filter(|time| **time >= begin);
        times.map(|time| milliseconds(*time - begin)).collect()
    }
}

/// A time in milliseconds.
pub(super) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

impl Subject for Noted {
    async fn apply(
        &mut self,
        _statement: &Statement,
        _confirm: Option<Duration>,
    ) -> Result<String, Vec<Refused>> {
        self.journal.note(self.agent);
        Ok(String::new())
    }

    async fn confirm(&mut self) {}

    fn renewed(&mut self) {}

    fn has_returned(&mut self) -> bool {
        false
    }
}
