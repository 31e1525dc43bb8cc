//! The state that all functions of a node share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::origins::Origins;
use crate::permits::Permits;
use crate::shares::Shares;

/// Origins, turns that are lent, and counts.
#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) origins: Origins,
    pub(crate) permits: Permits,
    pub(crate) shares: Arc<Shares>,
    alone: AtomicU64,
}

impl Shared {
    /// A keeper could not be asked.
    pub(crate) fn alone(&self) {
        self.alone.fetch_add(1, Ordering::Relaxed);
    }

    /// Requests that were paced here as their keeper could not be asked.
    pub(crate) fn were_alone(&self) -> u64 {
        self.alone.load(Ordering::Relaxed)
    }
}
