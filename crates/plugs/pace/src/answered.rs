//! What a budget is told, and what it says.

use std::time::{Duration, Instant};

use crate::words::Told;

/// Whether a request may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    Now,
    /// Not before this, if no answer comes earlier.
    At(Instant),
    /// When one of those that were sent is answered.
    AfterAnswer,
}

/// The answer of an origin to a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answered {
    /// When the request was sent.
    pub(crate) sent: Instant,
    /// The origin refused it for want of room.
    pub(crate) is_refused: bool,
    pub(crate) told: Told,
    /// Users who have asked in the last half minute, at all nodes that are known.
    pub(crate) users: usize,
    /// Between 0 and 1.
    pub(crate) chance: f64,
}

/// A number in a duration, in a minute.
pub(crate) fn in_a_minute(count: u64, time: Duration) -> f64 {
    count as f64 * 60.0 / time.as_secs_f64().max(0.001)
}
