//! The traffic of one exchange, counted without a lock.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU64, Ordering};
use std::time::Duration;

use hermes_net::clock;
use hermes_rules::session::{Speaker, Traffic, Turn};
use tokio::time::Instant;

/// The traffic of an exchange so far; add with [`Ordering::Relaxed`].
#[derive(Debug, Default)]
pub struct Counters {
    /// Bytes of content or tunnel from the client.
    pub client_to_target: AtomicU64,
    /// Bytes of content or tunnel to the client.
    pub target_to_client: AtomicU64,
    /// Datagrams from the client.
    pub datagrams_in: AtomicU64,
    /// Datagrams to the client.
    pub datagrams_out: AtomicU64,
    /// Datagrams of either direction that were not delivered.
    pub dropped: AtomicU64,
    /// Bytes of the largest UDP payload that goes on as a QUIC datagram, from the client; 0: no limit is known.
    pub datagram_limit_in: AtomicU16,
    /// The same to the client.
    pub datagram_limit_out: AtomicU16,
    /// Flows of IP that were followed.
    pub flows: FlowCounters,
    /// Who sent, in order: the number of a [`Turn`].
    turn: AtomicU8,
    /// When the target spoke last, in milliseconds since [`CLOCK`] began, as long as there is no conversation.
    answered_at: AtomicU64,
}

/// The flows of an exchange of IP that are followed.
#[derive(Debug, Default)]
pub struct FlowCounters {
    /// Flows that began.
    pub began: AtomicU64,
    /// Flows that were denied.
    pub denied: AtomicU64,
    /// Flows that have ended.
    pub ended: AtomicU64,
}

impl FlowCounters {
    /// One begins.
    pub fn count(&self, is_allowed: bool) {
        self.began.fetch_add(1, Ordering::Relaxed);
        self.denied
            .fetch_add(u64::from(!is_allowed), Ordering::Relaxed);
    }

    /// How many are open.
    pub fn open(&self) -> u64 {
        let ended = self.ended.load(Ordering::Relaxed);
        self.began.load(Ordering::Relaxed).saturating_sub(ended)
    }
}

/// The clock that answers and their successors are timed by.
static CLOCK: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Bytes that count as a datagram where datagrams are not counted: a stream of capsules that is passed on as it is.
const CAPSULE_BYTES: u64 = 8 * 1024;

impl Counters {
    /// Counts bytes from the client.
    pub fn from_client(&self, bytes: u64) {
        self.client_to_target.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Notes how large UDP payloads may be that go on in QUIC datagrams.
    pub fn datagram_limit(&self, from_client: bool, limit: usize) {
        let of = if from_client {
            &self.datagram_limit_in
        } else {
            &self.datagram_limit_out
        };
        of.store(u16::try_from(limit).unwrap_or(u16::MAX), Ordering::Relaxed);
    }

    /// Notes that the client, or else the target, has sent something in a tunnel of datagrams.
    pub fn spoke(&self, by_client: bool) {
        let turn = self.turn();
        if turn == Turn::AskedAgain {
            return;
        }

        let now = clock::now().saturating_duration_since(*CLOCK).as_millis() as u64;
        let speaker = if by_client {
            Speaker::Client(Duration::from_millis(
                now.saturating_sub(self.answered_at.load(Ordering::Relaxed)),
            ))
        } else {
            self.answered_at.store(now, Ordering::Relaxed);
            Speaker::Target
        };

        let next = turn.spoken(speaker);
        if next != turn {
            self.turn.store(next as u8, Ordering::Relaxed);
        }
    }

    /// All that it has moved: it changes with each byte and each datagram.
    #[must_use]
    pub fn moved(&self) -> u64 {
        let all = [
            &self.client_to_target,
            &self.target_to_client,
            &self.datagrams_in,
            &self.datagrams_out,
        ];
        all.iter().fold(0, |sum, count| {
            sum.wrapping_add(count.load(Ordering::Relaxed))
        })
    }

    /// The traffic of a datagram tunnel in both directions.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        let count = |datagrams: &AtomicU64, bytes: &AtomicU64| {
            datagrams
                .load(Ordering::Relaxed)
                .max(bytes.load(Ordering::Relaxed) / CAPSULE_BYTES)
        };

        let asked = count(&self.datagrams_in, &self.client_to_target);
        let answered = count(&self.datagrams_out, &self.target_to_client);
        Traffic {
            asked,
            answered,
            turn: self.turn(),
        }
    }

    fn turn(&self) -> Turn {
        match self.turn.load(Ordering::Relaxed) {
            0 => Turn::Asked,
            1 => Turn::Answered,
            2 => Turn::AskedAnew,
            _ => Turn::AskedAgain,
        }
    }

    /// Counts bytes to the client.
    pub fn to_client(&self, bytes: u64) {
        self.target_to_client.fetch_add(bytes, Ordering::Relaxed);
    }
}
