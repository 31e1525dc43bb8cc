//! The decisions about the packets of one direction.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use super::{Loss, Profile, Rate};

/// One direction of a link. Packets are of any type; only their length counts.
#[derive(Debug)]
pub struct Direction<P> {
    profile: Profile,
    start: Instant,
    random: fastrand::Rng,
    /// The state of [`Loss::Bursts`].
    in_burst: bool,
    /// When the last packet that was let in has been sent at the link's rate.
    sent_at: Instant,
    /// The latest departure of a packet that may not be overtaken.
    last_departure: Instant,
    /// Packets on their way, the earliest first; the number keeps the order of those of one instant.
    on_the_way: BinaryHeap<Reverse<OnTheWay<P>>>,
    number: u64,
}

/// What happens to a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It departs at this time.
    Departs(Instant),
    /// It is lost on the way.
    Lost,
    /// It finds no room in the queue.
    NoRoom,
    /// The link is down.
    Down,
}

#[derive(Debug)]
struct OnTheWay<P> {
    departure: Instant,
    number: u64,
    packet: P,
}

impl<P> Direction<P> {
    /// A direction that begins at `start`.
    pub fn new(profile: Profile, seed: u64, start: Instant) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        let on_the_way = BinaryHeap::new();
        Self {
            profile,
            start,
            random,
            in_burst: false,
            sent_at: start,
            last_departure: start,
            on_the_way,
            number: 0,
        }
    }

    /// A packet of `bytes` enters. It is dropped unless it departs.
    pub fn handle_packet(&mut self, packet: P, bytes: usize, now: Instant) -> Fate {
        let since_start = now.saturating_duration_since(self.start);
        if !self.is_its_turn(now) || !self.profile.schedule.is_up(since_start) {
            return Fate::Down;
        }

        // As on a real link: what is lost on the way has taken its time at the sender.
        let Some(sent_at) = self.sent(bytes, now) else {
            return Fate::NoRoom;
        };
        // What still waits when the turn of another link comes is not carried.
        if !self.is_its_turn(sent_at) {
            return Fate::Down;
        }
        if self.loses() {
            return Fate::Lost;
        }

        let departure = self.departure(sent_at);
        self.number += 1;
        self.on_the_way.push(Reverse(OnTheWay {
            departure,
            number: self.number,
            packet,
        }));

        Fate::Departs(departure)
    }

    /// A packet that is due, the earliest first.
    pub fn poll_departure(&mut self, now: Instant) -> Option<P> {
        let due = self
            .next_departure()
            .is_some_and(|departure| departure <= now);
        due.then(|| self.on_the_way.pop())?
            .map(|Reverse(first)| first.packet)
    }

    /// When [`Self::poll_departure`] gives the next packet.
    pub fn next_departure(&self) -> Option<Instant> {
        self.on_the_way.peek().map(|Reverse(first)| first.departure)
    }

    fn is_its_turn(&self, at: Instant) -> bool {
        let since_start = at.saturating_duration_since(self.start);
        let turn = self.profile.turn.as_ref();
        turn.is_none_or(|turn| turn.is_up(since_start))
    }

    /// When the packet has been sent at the link's rate; `None` if there is no room for it.
    fn sent(&mut self, bytes: usize, now: Instant) -> Option<Instant> {
        let Some(Rate {
            bits_per_second,
            queue_bytes,
        }) = self.profile.rate
        else {
            return Some(now);
        };

        let takes = |bytes: usize| {
            Duration::from_secs_f64(bytes as f64 * 8.0 / bits_per_second.max(1) as f64)
        };
        let begins = self.sent_at.max(now);
        if begins > now && begins + takes(bytes) > now + takes(queue_bytes) {
            return None;
        }

        self.sent_at = begins + takes(bytes);
        Some(self.sent_at)
    }

    fn loses(&mut self) -> bool {
        match self.profile.loss {
            Loss::None => false,
            Loss::Random(share) => self.random.f64() < share,
            Loss::Bursts { begin, end } => {
                let turn = if self.in_burst { end } else { begin };
                self.in_burst ^= self.random.f64() < turn;
                self.in_burst
            }
        }
    }

    fn departure(&mut self, sent_at: Instant) -> Instant {
        if self.profile.reorder > 0.0 && self.random.f64() < self.profile.reorder {
            return sent_at;
        }
        let Profile { delay, jitter, .. } = self.profile;
        let varied = (delay + jitter.mul_f64(2.0 * self.random.f64())).saturating_sub(jitter);
        self.last_departure = self.last_departure.max(sent_at + varied);
        self.last_departure
    }
}

impl<P> Ord for OnTheWay<P> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.departure, self.number).cmp(&(other.departure, other.number))
    }
}

impl<P> PartialOrd for OnTheWay<P> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<P> PartialEq for OnTheWay<P> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<P> Eq for OnTheWay<P> {}
