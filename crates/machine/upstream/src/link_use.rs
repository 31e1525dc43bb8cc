//! Counts the exchanges of a link.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// The exchanges of a link.
#[derive(Debug, Default)]
pub(crate) struct Use {
    streams: AtomicUsize,
    began: Notify,
}

impl Use {
    /// How many there are.
    pub(crate) fn streams(&self) -> usize {
        self.streams.load(Ordering::Relaxed)
    }

    /// Resolves when the first exchange of an idle link begins.
    pub(crate) async fn began(&self) {
        self.began.notified().await;
    }
}

/// Counts one exchange on its link until it is dropped.
#[derive(Debug)]
pub(crate) struct Counted(Arc<Use>);

impl Counted {
    pub(crate) fn on(uses: &Arc<Use>) -> Self {
        // Only the first: a monitor looks at a link as long as it has exchanges, and sleeps in between.
        if uses.streams.fetch_add(1, Ordering::Relaxed) == 0 {
            uses.began.notify_one();
        }
        Self(uses.clone())
    }

    /// The counter.
    pub(crate) fn uses(&self) -> Arc<Use> {
        self.0.clone()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
    }
}
