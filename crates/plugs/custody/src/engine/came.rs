//! How a datagram came.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// How a datagram came.
#[derive(Debug, Clone, Copy)]
pub struct Came {
    /// Where it came from.
    pub from: SocketAddr,
    /// How long it waited in this machine, which is no delay of the path.
    pub waited: Duration,
    /// When it is looked at.
    pub now: Instant,
}
