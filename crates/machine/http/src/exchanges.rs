//! The exchanges of a connection that many share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

/// The exchanges of a connection that are open.
#[derive(Debug, Default)]
pub(crate) struct Exchanges {
    open: AtomicUsize,
    changed: Notify,
}

impl Exchanges {
    /// Resolves when no exchange was open for `time`.
    pub(crate) async fn none_for(&self, time: Duration) {
        loop {
            let changed = self.changed.notified();
            if self.open.load(Ordering::Relaxed) > 0 {
                changed.await;
            } else if tokio::time::timeout(time, changed).await.is_err()
                && self.open.load(Ordering::Relaxed) == 0
            {
                return;
            }
        }
    }
}

/// Counts an exchange while it lasts.
#[derive(Debug)]
pub(crate) struct Active(Arc<Exchanges>);

impl Active {
    pub(crate) fn enter(exchanges: &Arc<Exchanges>) -> Self {
        exchanges.open.fetch_add(1, Ordering::Relaxed);
        Self(exchanges.clone())
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        if self.0.open.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.0.changed.notify_one();
        }
    }
}
