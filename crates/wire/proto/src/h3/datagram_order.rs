//! The order of datagrams that come in [groups](super::datagram_group): a group that QUIC sends again comes behind later ones.
//!
//! Datagrams leave in the order of their numbers, and wait for missing ones within a bound of time, number and bytes. What is missing then
//! is given up.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;

#[cfg(test)]
mod tests;

/// Datagrams that wait for earlier ones, at most.
#[doc(alias = "bound")]
pub const WAITING: usize = 2048;

/// Bytes of datagrams that wait for earlier ones, at most: as many as a sender of ours has on their way.
#[doc(alias = "bound")]
pub const WAITING_BYTES: usize = 1024 * 1024;

/// Orders the datagrams of one session. It reads no clock.
///
/// After each call, the datagrams of [`poll_datagram`](Self::poll_datagram) may leave, and [`handle_time`](Self::handle_time) is to be called
/// at [`due`](Self::due).
#[derive(Debug, Default)]
pub struct DatagramOrder {
    /// How long datagrams wait for a missing one; `None` while none waits.
    within: Option<Duration>,
    /// The number that leaves next.
    next: u64,
    waiting: BTreeMap<u64, Bytes>,
    waiting_bytes: usize,
    /// Waiting datagrams as they came, and some that have left since.
    arrivals: VecDeque<Arrival>,
    ordered: VecDeque<Bytes>,
}

/// A datagram came ahead of another.
#[derive(Debug, Clone, Copy)]
struct Arrival {
    number: u64,
    at: Instant,
}

impl DatagramOrder {
    /// Has datagrams wait for missing ones from now on, for so long. Before, they leave as they come.
    pub fn wait(&mut self, within: Duration) {
        self.within = Some(within);
    }

    /// Takes a datagram. One that comes too late, or again, is dropped: false.
    pub fn handle_datagram(&mut self, number: u64, payload: Bytes, now: Instant) -> bool {
        if self.within.is_none() {
            self.next = self.next.max(number.saturating_add(1));
            self.ordered.push_back(payload);
            return true;
        }
        if number < self.next || self.waiting.contains_key(&number) {
            return false;
        }

        self.waiting_bytes += payload.len();
        self.waiting.insert(number, payload);
        self.release();
        if self.waiting.contains_key(&number) {
            self.arrivals.push_back(Arrival { number, at: now });
        }
        while self.waiting.len() > WAITING || self.waiting_bytes > WAITING_BYTES {
            self.give_up();
        }
        self.forget_arrivals();
        true
    }

    /// When [`Self::handle_time`] is to be called; `None` if nothing waits.
    pub fn due(&self) -> Option<Instant> {
        let first = self.arrivals.front()?;
        first.at.checked_add(self.within?)
    }

    /// Gives up the datagrams for which others have waited long enough.
    pub fn handle_time(&mut self, now: Instant) {
        while self.due().is_some_and(|due| now >= due) {
            let Some(Arrival { number, .. }) = self.arrivals.pop_front() else {
                return;
            };
            while self.waiting.contains_key(&number) {
                self.give_up();
            }
            self.forget_arrivals();
        }
    }

    /// Nothing more comes: gives up all that is missing.
    pub fn end(&mut self) {
        while !self.waiting.is_empty() {
            self.give_up();
        }
        self.arrivals.clear();
    }

    /// The next datagram in order.
    pub fn poll_datagram(&mut self) -> Option<Bytes> {
        self.ordered.pop_front()
    }

    /// Gives up all that is missing before the first that waits.
    fn give_up(&mut self) {
        if let Some((first, _)) = self.waiting.first_key_value() {
            self.next = *first;
        }
        self.release();
    }

    /// Has datagrams leave up to the first that is missing.
    fn release(&mut self) {
        while let Some(payload) = self.waiting.remove(&self.next) {
            self.waiting_bytes -= payload.len();
            self.ordered.push_back(payload);
            self.next = self.next.saturating_add(1);
        }
    }

    /// Forgets the arrivals of datagrams that have left.
    fn forget_arrivals(&mut self) {
        while let Some(first) = self.arrivals.front()
            && first.number < self.next
        {
            self.arrivals.pop_front();
        }
        // Behind one that waits for long there may be many that have left.
        if self.arrivals.len() > 2 * WAITING {
            let next = self.next;
            self.arrivals.retain(|arrival| arrival.number >= next);
        }
    }
}
