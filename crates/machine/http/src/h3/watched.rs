//! A link as its watcher sees it.

use std::sync::Arc;

use hermes_net::quic::PathStats;
use hermes_proto::h3::Code;

use super::shared::Shared;

/// A monitored link. Monitoring does not keep it open.
#[derive(Debug, Clone)]
pub struct Watched {
    pub(crate) shared: Arc<Shared>,
}

impl Watched {
    /// Figures that show whether the path still works.
    pub fn path_stats(&self) -> PathStats {
        self.shared.connection.path_stats()
    }

    /// Resolves when the link has ended.
    pub async fn closed(&self) {
        self.shared.connection.closed().await;
    }

    /// How often the peer's machine has said that nothing listens there: a hint, that can be forged.
    pub fn refusals(&self) -> u64 {
        self.shared.connection.refusals()
    }

    /// Resolves when it has said so more than `count` times.
    pub async fn refused(&self, count: u64) {
        self.shared.connection.refused(count).await;
    }

    /// Sends something that the peer acknowledges and otherwise ignores. Frames of HTTP/3 that mean nothing (RFC 9114, 7.2.8) would
    /// do for a while: peers count them, some over the life of a connection.
    pub fn probe(&self) {
        self.shared.connection.ping();
    }

    /// Whether nothing comes back at the moment, as was said last.
    pub fn is_silent(&self) -> bool {
        self.shared.is_silent()
    }

    /// Says whether nothing comes back.
    pub fn set_silent(&self, silent: bool) {
        self.shared.set_silent(silent);
    }

    /// Sets whether the link has been silent for so long that no response is to be waited for. The
    /// link may yet come back, with its tunnels.
    pub fn set_lost(&self, lost: bool) {
        self.shared.set_lost(lost);
    }

    /// Ends the link, and all that is on it, for this reason. The peer may never hear of it.
    pub fn give_up(&self, reason: &'static str) {
        self.shared.give_up(reason);
        self.shared
            .connection
            .close(Code::NoError.number(), b"silent");
    }
}
