//! The network path to a neighbour: its address, and whether the neighbour has shown that it receives there.

use std::net::SocketAddr;
use std::time::Instant;

/// Bytes that go to an address that was not shown to be the neighbour's, for each byte that came from there.
#[doc(alias = "bound")]
const AMPLIFICATION: u64 = 3;

/// The network path to a neighbour.
#[derive(Debug, Clone, Copy)]
pub(super) struct Path {
    pub(super) address: SocketAddr,
    /// The operator has written the address, or the neighbour has shown that it receives there.
    pub(super) validated: bool,
    /// Bytes from there and to there, until it is validated.
    pub(super) heard: u64,
    pub(super) said: u64,
    /// When something came from there last.
    pub(super) heard_at: Option<Instant>,
    pub(super) challenge: Option<[u8; 8]>,
}

impl Path {
    pub(super) fn new(address: SocketAddr, validated: bool) -> Self {
        Self {
            address,
            validated,
            heard: 0,
            said: 0,
            heard_at: None,
            challenge: None,
        }
    }

    pub(super) fn may_say(&self, bytes: usize) -> bool {
        // As RFC 9000, 8.1: a forged source address must not turn this node into an amplifier.
        self.validated || self.said + bytes as u64 <= AMPLIFICATION * self.heard
    }
}

/// A random token; `None` without random bytes.
pub(super) fn drawn() -> Option<[u8; 8]> {
    let mut token = [0; 8];
    let drawn = aws_lc_rs::rand::fill(&mut token);
    drawn.ok().map(|()| token)
}
