//! The findings of a check.

use std::time::Duration;

/// A check and its outcome: its findings, or the reason of its failure.
pub struct Checked {
    /// The action, in a few words.
    pub what: &'static str,
    /// The findings.
    pub outcome: Result<Evidence, String>,
}

/// The evidence that a check passed.
pub struct Evidence {
    /// The way that the traffic took.
    pub journey: Journey,
    /// The subject of the check, in one line.
    pub proof: String,
    /// How long a round trip takes, where that says something.
    pub latency: Option<Latency>,
}

/// The way of an exchange.
pub struct Journey {
    /// Nodes in order, then the origin if it was reached.
    pub hops: Vec<String>,
    /// Overlay fields that were added on the way, as the last hop saw them.
    pub fields: Vec<String>,
}

/// Median round trips.
#[derive(Clone, Copy)]
pub struct Latency {
    /// Through the overlay.
    pub overlay: Duration,
    /// To the origin without it.
    pub direct: Duration,
}
