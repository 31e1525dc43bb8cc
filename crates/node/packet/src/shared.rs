//! A stream of capsules that directions of several paths lead into.

use bytes::Bytes;
use hermes_http::{Outgoing, Reset, StreamError};

/// The stream, and whether the next that is written may begin a capsule. A writer that gives up in the middle of one leaves it so: nothing
/// can follow.
pub struct Shared {
    outgoing: Outgoing,
    within: bool,
}

impl Shared {
    pub(crate) fn new(outgoing: Outgoing) -> Self {
        Self {
            outgoing,
            within: false,
        }
    }

    /// Whether a capsule may begin here.
    pub(crate) fn is_between(&self) -> bool {
        !self.within
    }

    /// Writes a piece; `ends` says whether a capsule ends with it.
    pub(crate) async fn data(&mut self, bytes: Bytes, ends: bool) -> Result<(), StreamError> {
        self.within = true;
        let written = self.outgoing.data(bytes, false).await;
        // A stream that is broken says so itself.
        self.within = written.is_ok() && !ends;
        written
    }

    pub(crate) async fn flush(&mut self) -> Result<(), StreamError> {
        let within = std::mem::replace(&mut self.within, true);
        let flushed = self.outgoing.flush().await;
        self.within = flushed.is_ok() && within;
        flushed
    }

    pub(crate) async fn finish(&mut self) -> Result<(), StreamError> {
        self.outgoing.finish(None).await
    }

    pub(crate) fn reset(&mut self, reset: Reset) {
        self.outgoing.reset(reset);
    }

    pub(crate) async fn broken(&mut self) -> Reset {
        self.outgoing.broken().await
    }
}
