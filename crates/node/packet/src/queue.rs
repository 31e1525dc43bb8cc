//! Datagrams of one UDP client that wait for their tunnel.

use std::collections::VecDeque;
use std::time::Duration;

use hermes_net::memory::{Charge, OwnerAccount, Purpose};
use tokio::time::Instant;

/// Bounds of a queue.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Bytes of payload.
    pub bytes: usize,
    /// Age at which a datagram is of no use any more.
    pub age: Duration,
}

impl Bounds {
    /// Nothing is queued.
    pub const NOTHING: Self = Self {
        bytes: 0,
        age: Duration::ZERO,
    };
}

/// Bounds of a queue, and the owner that is charged for it.
#[derive(Debug, Clone)]
pub struct ChargedBounds {
    /// The bounds.
    pub bounds: Bounds,
    /// The account.
    pub account: OwnerAccount,
}

/// Datagrams that may wait, of any size: empty ones cost no bytes.
#[doc(alias = "bound")]
const MAX_DATAGRAMS: usize = 16 * 1024;

/// Bytes of memory that a queue may take without a charge: a few datagrams, less than its session takes itself.
#[doc(alias = "bound")]
const UNCHARGED: usize = 4096;

/// Bytes of memory that an empty queue keeps, charged or not: a burst of fifty small datagrams needs no allocation each time.
#[doc(alias = "bound")]
const RETAINED: usize = 12 * 1024;

/// Where a datagram lies in the buffer, its length, and when it came.
type QueueEntry = (usize, usize, Instant);

/// Datagrams in the order they came. The oldest go first when there is no more room: in real-time traffic the newest are worth
/// most.
#[derive(Debug)]
pub struct Queue {
    bounds: Bounds,
    buffer: Vec<u8>,
    waiting: VecDeque<QueueEntry>,
    bytes: usize,
    /// The number of the first waiting datagram: how many came before it.
    first: u64,
    /// The charge for its memory above [`UNCHARGED`], if it has an owner.
    charge: Option<Charge>,
}

impl Queue {
    /// An empty queue that no one is charged for.
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            buffer: Vec::new(),
            waiting: VecDeque::new(),
            bytes: 0,
            first: 0,
            charge: None,
        }
    }

    /// An empty queue whose memory is charged to an owner. Without room for more, the oldest
    /// datagrams are dropped.
    pub fn charged(charged: &ChargedBounds) -> Self {
        let charge = charged.account.empty_charge(Purpose::Datagrams);
        Self {
            charge: Some(charge),
            ..Self::new(charged.bounds)
        }
    }

    /// An empty queue with the same bounds, charged to the same owner.
    #[must_use]
    pub fn another(&self) -> Self {
        let charge = self.charge.as_ref();
        Self {
            charge: charge.map(|charge| charge.account().empty_charge(Purpose::Datagrams)),
            ..Self::new(self.bounds)
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

        // At twice the bound, at least half of the buffer is free: each byte is moved about once.
        if self.buffer.len() + datagram.len() > 2 * self.bounds.bytes {
            self.compact();
        }
        if !self.has_room(datagram.len()) && !self.grow(datagram.len()) {
            dropped += self.drop_for(datagram.len());
            if !self.has_room(datagram.len()) {
                return dropped + 1;
            }
        }

        self.waiting
            .push_back((self.buffer.len(), datagram.len(), now));
        self.buffer.extend_from_slice(datagram);
        self.bytes += datagram.len();

        dropped
    }

    /// Drops datagrams that are too old; returns their number.
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

    /// Gives back the memory of an empty queue that has grown beyond 12 KiB.
    pub fn release(&mut self) {
        if self.is_empty() && self.retains() {
            self.buffer = Vec::new();
            self.waiting = VecDeque::new();
            if let Some(charge) = &mut self.charge {
                charge.shrink(charge.bytes());
            }
        }
    }

    /// Whether it takes memory that [`release`](Self::release) would give back.
    pub fn retains(&self) -> bool {
        memory(self.buffer.capacity(), self.waiting.capacity()) > RETAINED
    }

    /// The number of the first waiting datagram; the others follow it.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Drops the datagrams with numbers below `end`.
    pub fn forget(&mut self, end: u64) {
        while self.first < end && !self.is_empty() {
            self.drop_oldest();
        }
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The queued datagrams, in order.
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
        if self.waiting.is_empty() {
            self.buffer.clear();
        }
        1
    }

    /// Whether a datagram of this length can be added without more memory.
    fn has_room(&self, length: usize) -> bool {
        self.buffer.capacity() - self.buffer.len() >= length
            && self.waiting.len() < self.waiting.capacity()
    }

    /// Makes room for a datagram by compacting, or by more memory; false if the owner may not have that.
    fn grow(&mut self, length: usize) -> bool {
        if self.gone() >= self.buffer.len() / 2 {
            self.compact();
        }

        let needed = self.buffer.len() + length;
        let mut bytes = self.buffer.capacity();
        if needed > bytes {
            bytes = needed.max((2 * bytes).min(2 * self.bounds.bytes));
        }
        let mut entries = self.waiting.capacity();
        if self.waiting.len() == entries {
            entries = (2 * entries).max(4);
        }

        if let Some(charge) = &mut self.charge {
            // Before the memory is taken, which the owner may not have.
            let charged = memory(bytes, entries).saturating_sub(UNCHARGED);
            if charge.grow(charged.saturating_sub(charge.bytes())).is_err() {
                return false;
            }
        }
        self.buffer.reserve_exact(bytes - self.buffer.len());
        self.waiting.reserve_exact(entries - self.waiting.len());
        true
    }

    /// Drops the oldest datagrams to make room for one of this length, a quarter of the memory at once, as the rest is moved each time.
    /// Returns how many were dropped.
    fn drop_for(&mut self, length: usize) -> usize {
        let capacity = self.buffer.capacity();
        let wanted = length.max(capacity / 4);
        let mut dropped = 0;
        while !self.is_empty()
            && (capacity - self.buffer.len() + self.gone() < wanted
                || self.waiting.len() == self.waiting.capacity())
        {
            dropped += self.drop_oldest();
        }

        self.compact();
        dropped
    }

    /// Bytes at the front of the buffer that belong to removed datagrams.
    fn gone(&self) -> usize {
        let first = self.waiting.front();
        first.map_or(self.buffer.len(), |(start, _, _)| *start)
    }

    /// Moves the queued datagrams to the front of the buffer.
    fn compact(&mut self) {
        let start = self.gone();
        self.buffer.drain(..start);
        for (at, _, _) in &mut self.waiting {
            *at -= start;
        }
    }
}

/// The memory of a buffer and of its entries, in bytes.
fn memory(bytes: usize, entries: usize) -> usize {
    bytes + entries * size_of::<QueueEntry>()
}

#[cfg(test)]
mod tests {
    use hermes_net::memory::{Memory, OWNER_FLOOR, Owner};

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

    /// Of an owner that has its floor and no more.
    fn poor() -> (&'static Memory, Queue) {
        let memory: &'static Memory = Box::leak(Box::new(Memory::new(2 * OWNER_FLOOR, 0)));
        let bounds = Bounds {
            bytes: 1 << 20,
            age: Duration::from_secs(5),
        };
        let account = memory.owner(Owner::Local);
        (memory, Queue::charged(&ChargedBounds { bounds, account }))
    }

    #[tokio::test(start_paused = true)]
    async fn the_newest_wait_where_the_owner_may_have_no_more_memory() {
        let (memory, mut queue) = poor();
        let mut dropped = 0;
        for number in 0..1000u32 {
            dropped += queue.push(&number.to_be_bytes().repeat(250), Instant::now());
            assert!(memory.charged() <= OWNER_FLOOR, "{}", memory.charged());
        }

        let numbers: Vec<_> = queue
            .iter()
            .map(|datagram| datagram[..4].to_vec())
            .collect();
        assert_eq!(numbers.len() + dropped, 1000);
        assert!(numbers.len() >= 20, "{}", numbers.len());
        assert!(numbers.is_sorted() && numbers.last().unwrap()[..] == 999u32.to_be_bytes());

        queue.clear();
        queue.release();
        assert_eq!(memory.charged(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn empty_datagrams_cost_their_owner_too() {
        let (memory, mut queue) = poor();
        for _ in 0..MAX_DATAGRAMS {
            queue.push(b"", Instant::now());
        }
        assert!(memory.charged() > OWNER_FLOOR / 2 && memory.charged() <= OWNER_FLOOR);
        assert!(!queue.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn few_datagrams_are_not_charged() {
        let (memory, mut queue) = poor();
        for _ in 0..3 {
            queue.push(&[7; 900], Instant::now());
        }
        assert_eq!((memory.charged(), queue.iter().count()), (0, 3));
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
