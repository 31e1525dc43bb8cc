//! How losses are to be mended.

use std::time::Duration;

/// How the datagrams that one end sends are recovered. Each end decides for its own direction; the bound of time is agreed between the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecoverySettings {
    /// How long datagrams may wait for one that is missing. It is the delay that recovery adds at most.
    pub within: Duration,
    /// How often one datagram may be sent again; 0 for never.
    pub tries: u8,
    /// How much parity goes with the datagrams.
    pub parity: ParityShare,
    /// Bytes that each direction remembers, at most.
    pub bytes: usize,
}

/// How many datagrams of parity go with a block of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParityShare {
    /// None.
    None,
    /// So many for each hundred, and at least one.
    Percent(u8),
    /// As many as the measured loss asks for, and none where there is time to send lost ones again.
    ByLoss,
}

impl RecoverySettings {
    /// Sends again, and sends no parity.
    pub fn retransmission(within: Duration, tries: u8) -> Self {
        Self {
            within,
            tries,
            parity: ParityShare::None,
            bytes: Self::BYTES,
        }
    }

    /// Sends parity, and nothing again.
    pub fn parity(within: Duration, percent: u8) -> Self {
        Self {
            within,
            tries: 0,
            parity: ParityShare::Percent(percent),
            bytes: Self::BYTES,
        }
    }

    /// Chooses by the loss and the round trip that it measures.
    pub fn auto(within: Duration, tries: u8) -> Self {
        Self {
            within,
            tries,
            parity: ParityShare::ByLoss,
            bytes: Self::BYTES,
        }
    }

    /// Bytes that are remembered unless something else is asked for: 200 ms of 40 Mbit/s.
    #[doc(alias = "bound")]
    pub const BYTES: usize = 1024 * 1024;
}
