//! Datagrams of one UDP client that wait for their tunnel.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// Bounds on what waits.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Bytes of payload.
    pub bytes: usize,
    /// Age at which a datagram is of no use any more.
    pub age: Duration,
}

impl Bounds {
    /// Nothing waits.
    pub const NOTHING: Self = Self {
        bytes: 0,
        age: Duration::ZERO,
    };
}

/// Datagrams that may wait, whatever their size: empty ones cost no bytes.
#[doc(alias = "bound")]
const MAX_DATAGRAMS: usize = 16 * 1024;

/// Datagrams in the order they came. The oldest go first when there is no more room: in real-time traffic the newest are worth
/// most.
#[derive(Debug)]
pub struct Queue {
    bounds: Bounds,
    buffer: Vec<u8>,
    /// Where each datagram lies in the buffer, and when it came.
    waiting: VecDeque<(usize, usize, Instant)>,
    bytes: usize,
    /// How many went before the first that waits: its number.
    first: u64,
}

impl Queue {
    /// An empty queue.
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            buffer: Vec::new(),
            waiting: VecDeque::new(),
            bytes: 0,
            first: 0,
        }
    }

    /// Its bounds.
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// Sets other bounds; returns how many datagrams were outside them and had to go.
    pub fn set_bounds(&mut self, bounds: Bounds) -> usize {
        self.bounds = bounds;
        let mut dropped = 0;
        while self.bytes > bounds.bytes {
            dropped += self.drop_oldest();
        }
        dropped
    }

    /// Adds a datagram; returns how many had to go for it (itself included, if it is larger than the bound).
    pub fn push(&mut self, datagram: &[u8], now: Instant) -> usize {
        if datagram.len() > self.bounds.bytes {
            return 1;
        }
        let mut dropped = 0;
        while self.bytes + datagram.len() > self.bounds.bytes || self.waiting.len() >= MAX_DATAGRAMS
        {
            dropped += self.drop_oldest();
        }

        if self.buffer.len() + datagram.len() > 2 * self.bounds.bytes {
            self.compact();
        }
        self.waiting
            .push_back((self.buffer.len(), datagram.len(), now));
        self.buffer.extend_from_slice(datagram);
        self.bytes += datagram.len();

        dropped
    }

    /// Drops what is too old; returns how many that were.
    pub fn expire(&mut self, now: Instant) -> usize {
        let mut dropped = 0;
        while self
            .waiting
            .front()
            .is_some_and(|(_, _, came)| now.duration_since(*came) > self.bounds.age)
        {
            dropped += self.drop_oldest();
        }

        dropped
    }

    /// Drops everything; returns how many that were.
    pub fn clear(&mut self) -> usize {
        let dropped = self.waiting.len();
        self.first += dropped as u64;
        self.waiting.clear();
        self.buffer.clear();
        self.bytes = 0;
        dropped
    }

    /// The number of the first that waits; those behind it follow.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Forgets those with numbers below `end`.
    pub fn forget(&mut self, end: u64) {
        while self.first < end && !self.is_empty() {
            self.drop_oldest();
        }
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// What waits, in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.waiting
            .iter()
            .filter_map(|&(start, length, _)| self.buffer.get(start..start + length))
    }

    fn drop_oldest(&mut self) -> usize {
        let Some((_, length, _)) = self.waiting.pop_front() else {
            return 0;
        };
        self.bytes -= length;
        self.first += 1;
        1
    }

    /// Moves what waits to the front of the buffer.
    fn compact(&mut self) {
        let start = self
            .waiting
            .front()
            .map_or(self.buffer.len(), |(start, _, _)| *start);
        self.buffer.drain(..start);
        for (at, _, _) in &mut self.waiting {
            *at -= start;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(bytes: usize) -> Queue {
        Queue::new(Bounds {
            bytes,
            age: Duration::from_secs(5),
        })
    }

    #[tokio::test(start_paused = true)]
    async fn keeps_order_and_drops_the_oldest_first() {
        let mut queue = queue(10);
        let now = Instant::now();
        assert_eq!(queue.push(b"aaaa", now), 0);
        assert_eq!(queue.push(b"bbbb", now), 0);
        assert_eq!(queue.push(b"cccc", now), 1);
        assert_eq!(queue.iter().collect::<Vec<_>>(), [b"bbbb", b"cccc"]);
    }

    #[tokio::test(start_paused = true)]
    async fn drops_what_is_too_old() {
        let mut queue = queue(10);
        queue.push(b"old", Instant::now());
        tokio::time::advance(Duration::from_secs(6)).await;
        assert_eq!(queue.expire(Instant::now()), 1);
        queue.push(b"new", Instant::now());
        assert_eq!(queue.iter().collect::<Vec<_>>(), [b"new"]);
    }

    #[tokio::test(start_paused = true)]
    async fn refuses_what_can_never_fit() {
        let mut queue = queue(4);
        assert_eq!(queue.push(b"12345", Instant::now()), 1);
        assert!(queue.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn its_buffer_stays_within_twice_the_bound() {
        let mut queue = queue(100);
        for round in 0..1000u32 {
            queue.push(&round.to_be_bytes().repeat(4), Instant::now());
            assert!(queue.buffer.len() <= 200);
        }
        assert_eq!(
            queue.iter().last(),
            Some(&999u32.to_be_bytes().repeat(4)[..])
        );
    }
}
