//! How a neighbour is, as far as that can be told from what came.

use std::net::SocketAddr;
use std::time::Duration;

/// How a neighbour is, as far as that can be told from what came.
#[derive(Debug, Clone, PartialEq)]
pub struct NeighbourSigns {
    /// Where it is, if that is known.
    pub address: Option<SocketAddr>,
    /// How long ago it was heard last.
    pub heard: Option<Duration>,
    /// How long nothing has come of what was asked; `None` where nothing is.
    pub unanswered: Option<Duration>,
    /// Something there asks for a cookie, and answers no HELLO that has it.
    pub is_asked_to_prove: bool,
    /// What a round trip takes, once that is known.
    pub round_trip: Option<Duration>,
    /// Exchanges that this node has begun with it.
    pub asking: usize,
    /// Exchanges that it has begun.
    pub answering: usize,
}
