//! Signs of life of a neighbour.

use std::net::SocketAddr;
use std::time::Duration;

/// Signs of life of a neighbour.
#[derive(Debug, Clone, PartialEq)]
pub struct NeighbourSigns {
    /// Its address, if that is known.
    pub address: Option<SocketAddr>,
    /// How long ago it was heard last.
    pub heard: Option<Duration>,
    /// The time since the last answer; `None` if nothing is asked for.
    pub unanswered: Option<Duration>,
    /// Something there asks for a cookie, and answers no HELLO that has it.
    pub is_asked_to_prove: bool,
    /// The time of a round trip, once that is known.
    pub round_trip: Option<Duration>,
    /// Exchanges that this node has begun with it.
    pub asking: usize,
    /// Exchanges that the neighbour has begun.
    pub answering: usize,
}
