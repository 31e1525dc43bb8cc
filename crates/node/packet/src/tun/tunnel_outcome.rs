//! The outcome of the tunnel that the device of a listener asks for.

use std::sync::OnceLock;

use tokio::sync::Notify;

/// Whether the tunnel was accepted, and why it is over.
#[derive(Debug, Default)]
pub(super) struct TunnelOutcome {
    accepted: Notify,
    end: OnceLock<String>,
}

impl TunnelOutcome {
    /// The tunnel is about to be open.
    pub(super) fn accept(&self) {
        self.accepted.notify_one();
    }

    /// Waits until it is.
    pub(super) async fn accepted(&self) {
        self.accepted.notified().await;
    }

    /// The tunnel is refused or has ended, for this reason.
    pub(super) fn end(&self, reason: String) {
        // The first one counts.
        let _ = self.end.set(reason);
    }

    /// Why it is over, if it is.
    pub(super) fn reason(&self) -> Option<&str> {
        self.end.get().map(String::as_str)
    }
}
