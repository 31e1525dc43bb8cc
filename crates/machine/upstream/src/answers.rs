//! Bounds of a place's answers, and how long its connections are kept between them.

use std::time::Duration;

use hermes_config::model::{ByteSize, UpstreamLimits};
use hermes_proto::h1::MessageLimits;

/// How long a kept HTTP/1.1 connection waits for the next exchange: idle connections die unseen.
#[doc(alias("bound", "limits.idle_time"))]
const IDLE_TIME: Duration = Duration::from_secs(60);

/// How much earlier than the server's time-out a connection is left: a request sent just then would
/// be lost.
#[doc(alias = "bound")]
const BEFORE: Duration = Duration::from_secs(1);

/// Bounds of answers, of all versions of HTTP.
#[derive(Debug, Clone, Copy)]
pub struct AnswerLimits {
    /// Limits of heads and trailers.
    pub(crate) message: MessageLimits,
    /// How long a connection of HTTP/1.1 is kept.
    idle_time: Duration,
}

impl Default for AnswerLimits {
    fn default() -> Self {
        Self::new(&UpstreamLimits::default())
    }
}

impl AnswerLimits {
    /// The configured bounds.
    pub fn new(config: &UpstreamLimits) -> Self {
        let usual = MessageLimits::of_responses();
        let bytes = |bytes: ByteSize| usize::try_from(bytes.0).unwrap_or(usize::MAX);
        let message = MessageLimits {
            head_bytes: config.head_bytes.map_or(usual.head_bytes, bytes),
            trailer_bytes: config.trailer_bytes.map_or(usual.trailer_bytes, bytes),
            fields: config.fields.unwrap_or(usual.fields),
            ..usual
        };

        Self {
            message,
            idle_time: config.idle_time.map_or(IDLE_TIME, |time| time.0),
        }
    }

    /// How long a connection is kept for which the server gave this time.
    pub(crate) fn kept_for(&self, said: Option<Duration>) -> Duration {
        let said = said.map(|said| said.saturating_sub(BEFORE));
        said.map_or(self.idle_time, |said| said.min(self.idle_time))
    }
}
