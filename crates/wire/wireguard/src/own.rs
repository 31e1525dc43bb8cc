//! The state that the peers of an interface share: its key, the indices in use, and the outgoing
//! datagrams.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use aws_lc_rs::rand::fill;

use crate::indices::Indices;
use crate::timestamp::WallClock;
use hermes_noise::PrivateKey;

/// Datagrams that wait to be sent: answers, keepalives, and the packets that waited for keys. More are lost.
#[doc(alias = "bound")]
const MOST_OUTGOING: usize = 512;

/// The longest random delay of an initiation, in milliseconds (section 6.1).
const JITTER: u16 = 333;

/// The state that the peers of an interface share.
pub(crate) struct Own {
    pub(crate) key: PrivateKey,
    pub(crate) clock: WallClock,
    pub(crate) indices: Indices,
    outgoing: VecDeque<Outgoing>,
}

/// A datagram that is to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// Where to.
    pub to: SocketAddr,
    /// Its payload.
    pub payload: Vec<u8>,
}

impl Own {
    pub(crate) fn new(key: PrivateKey, clock: WallClock) -> Self {
        Self {
            key,
            clock,
            indices: Indices::default(),
            outgoing: VecDeque::new(),
        }
    }

    pub(crate) fn send(&mut self, to: SocketAddr, payload: Vec<u8>) {
        // Beyond the bound the datagram is lost, as on any link; the peer's timers ask again.
        if self.outgoing.len() < MOST_OUTGOING {
            self.outgoing.push_back(Outgoing { to, payload });
        }
    }

    /// The next datagram that is to be sent.
    pub(crate) fn poll_outgoing(&mut self) -> Option<Outgoing> {
        self.outgoing.pop_front()
    }

    /// A random time.
    pub(crate) fn jitter(&self) -> Duration {
        let mut bytes = [0; 2];
        // Without random bytes, there is no jitter.
        let _ = fill(&mut bytes);
        Duration::from_millis((u16::from_le_bytes(bytes) % JITTER).into())
    }
}
