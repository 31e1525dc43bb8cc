//! What a direction of a link is like.

use std::time::Duration;

use super::{Schedule, Turn};

/// The faults of one direction. The default has none.
#[derive(Debug, Clone, Default)]
pub struct Profile {
    /// What every packet takes, beside the time that the rate takes.
    pub delay: Duration,
    /// The delay varies by as much as this, up and down, evenly spread. Packets keep their order.
    pub jitter: Duration,
    /// Which packets are lost.
    pub loss: Loss,
    /// How many bytes it carries in a second; no bound by default.
    pub rate: Option<Rate>,
    /// The share of packets, 0 to 1, that wait for no delay and so overtake those before them.
    pub reorder: f64,
    /// When it is up.
    pub schedule: Schedule,
    /// When it is its turn, if it is one of several links of which one is up at a time.
    pub turn: Option<Turn>,
}

/// Bytes a second, and the room for those that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Bits a second; at least 1.
    pub bits_per_second: u64,
    /// Bytes that may wait to be sent. A packet that finds no room is lost.
    pub queue_bytes: usize,
}

/// Which packets are lost on the way.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Loss {
    /// None.
    #[default]
    None,
    /// Each with the same probability (Bernoulli).
    Random(f64),
    /// In bursts (Gilbert and Elliott, with two states): in the good state nothing is lost, in the bad one everything.
    Bursts {
        /// Probability, for each packet, that a burst begins with it.
        begin: f64,
        /// Probability, for each packet after the first of a burst, that the burst is over. Its mean length is `1 / end`.
        end: f64,
    },
}

impl Loss {
    /// The share of packets that is lost in the long run.
    pub fn share(self) -> f64 {
        match self {
            Self::None => 0.0,
            Self::Random(share) => share,
            Self::Bursts { begin, end } => begin / (begin + end),
        }
    }
}
