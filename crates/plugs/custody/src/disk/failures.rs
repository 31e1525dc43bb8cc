//! Failures of a folder, as the log has them.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How often failures are logged: a neighbour that has no room fails as often as it writes.
#[doc(alias = "bound")]
const TOLD_EVERY: Duration = Duration::from_secs(60);

/// Logs failures of a folder.
#[derive(Debug)]
pub(super) struct FailureLog {
    folder: PathBuf,
    /// When one was logged last.
    told: Mutex<Option<Instant>>,
}

impl FailureLog {
    pub(super) fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            told: Mutex::new(None),
        }
    }

    /// Logs a failure, and not those that follow soon.
    pub(super) fn tell(&self, error: &io::Error) {
        let now = Instant::now();
        let mut told = self.told.lock();
        let is_recent = |told: Instant| now.saturating_duration_since(told) < TOLD_EVERY;
        if told.is_some_and(is_recent) {
            return;
        }
        *told = Some(now);
        drop(told);

        let path = self.folder.display();
        tracing::error!(%path, %error, "custody continues in memory: later objects are lost with the process");
    }
}
