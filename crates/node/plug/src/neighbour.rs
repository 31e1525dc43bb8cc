//! Neighbours: the nodes to which a plug carries requests, without a connection that others see.

use serde::Serialize;

/// The state of a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NeighbourState {
    /// The neighbour was not heard yet, and nothing is wanted from it.
    Unheard,
    /// The neighbour answers, or did when something was wanted last.
    Up,
    /// The neighbour does not answer.
    Silent,
    /// Something answers where it is, and no keys can be agreed.
    Refused,
}

impl NeighbourState {
    /// As `status` says it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Unheard => "unheard",
            Self::Up => "up",
            Self::Silent => "silent",
            Self::Refused => "refused",
        }
    }
}

/// The status of a neighbour.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NeighbourView {
    /// Its name, which is that of the upstream that stands for it.
    pub name: String,
    /// Its address, if that is known.
    pub address: Option<String>,
    /// Its state.
    pub state: NeighbourState,
    /// The reason for which it is not up.
    pub reason: Option<String>,
    /// Seconds since its last sign of life.
    pub heard_seconds: Option<u64>,
    /// Milliseconds of a round trip to it, once that is known.
    pub round_trip_ms: Option<f64>,
    /// Exchanges that this node has begun with it.
    pub asking: usize,
    /// Exchanges that the neighbour has begun.
    pub answering: usize,
}
