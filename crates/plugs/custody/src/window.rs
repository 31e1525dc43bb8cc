//! How much may be on its way: a window by delay, remembered over outages.
//!
//! The receiver measures how long answers take that were at hand, less the shortest of late: that is the queue that it causes.
//! Below `TARGET` the window grows, above it shrinks, as LEDBAT does (RFC 6817) but faster. A loss alone says little where links
//! come and go; it shrinks the window a little, at most once a round trip. An outage changes nothing: the link is what it was.

use std::time::{Duration, Instant};

/// The most that one answer carries, in bytes: a datagram less its header, its tag and the fields of DATA.
pub const PIECE: u64 = 1370;

/// The delay that our own traffic may cause: a queue that keeps a link of 10 Mbit/s busy takes 30 kB.
#[doc(alias = "bound")]
const TARGET: Duration = Duration::from_millis(25);

/// The share of [`TARGET`] from which on the link has as much as it carries: more than the least window makes wait at 10 Mbit/s.
const FILLED: f64 = 0.75;

/// Bytes that may always be on their way: what a link of 10 Mbit/s carries while a busy machine does something else.
#[doc(alias = "bound")]
const LEAST: u64 = 12 * PIECE;

/// Bytes that may be on their way before anything is known.
#[doc(alias = "bound")]
const FIRST: u64 = 24 * PIECE;

/// Bytes that may be on their way at most: 300 Mbit/s over 100 ms.
#[doc(alias = "bound")]
const MOST: u64 = 4 * 1024 * 1024;

/// How long the shortest delay counts: routes change.
#[doc(alias = "bound")]
const BASE_AGE: Duration = Duration::from_secs(30);

/// The window of one path.
#[derive(Debug, Clone)]
pub struct Window {
    bytes: f64,
    /// Until there was a queue for the first time, it doubles in each round trip.
    starting: bool,
    smoothed: Option<Duration>,
    base: Base,
    /// When a loss shrank it last.
    shrunk: Option<Instant>,
}

/// The shortest delay, of this period and of the one before.
#[derive(Debug, Clone, Copy, Default)]
struct Base {
    begun: Option<Instant>,
    now: Option<Duration>,
    before: Option<Duration>,
}

impl Default for Window {
    fn default() -> Self {
        Self {
            bytes: FIRST as f64,
            starting: true,
            smoothed: None,
            base: Base::default(),
            shrunk: None,
        }
    }
}

impl Window {
    /// Bytes that may be on their way.
    pub fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// The time of a round trip; 100 ms until that is known.
    pub fn round_trip(&self) -> Duration {
        self.smoothed.unwrap_or(Duration::from_millis(100))
    }

    /// The time of a round trip, once that was measured.
    pub fn measured(&self) -> Option<Duration> {
        self.smoothed.or(self.base.now)
    }

    /// A question was answered after so long, without bytes: that is the path without the queue that we cause. The bytes that come first are
    /// those that were waited for, and when the next ones come these are queued before them.
    pub fn answered(&mut self, took: Duration, now: Instant) {
        self.base.sample(took, now);
    }

    /// Bytes came, so long after they were asked for, if they were at hand then.
    pub fn arrived(&mut self, bytes: u64, took: Option<Duration>, now: Instant) {
        // An answer that waited for its bytes says nothing about the path.
        let Some(took) = took else { return };
        // An eighth of each sample (RFC 6298, 2.3).
        self.smoothed = Some(match self.smoothed {
            Some(smoothed) => (smoothed * 7 + took) / 8,
            None => took,
        });

        let base = self.base.sample(took, now);
        let delay = took.saturating_sub(base).as_secs_f64() / TARGET.as_secs_f64();
        if delay > FILLED {
            self.starting = false;
        }

        // Bytes that come within a round trip are the window: the share of them that is added is what it grows by then.
        let share = if self.starting {
            1.0
        } else if delay < 1.0 {
            (1.0 - delay) / 8.0
        } else {
            -((delay - 1.0).min(1.0) / 4.0)
        };
        self.bytes += share * bytes as f64;
        self.bound();
    }

    /// Something was lost, although the link is up.
    pub fn lost(&mut self, now: Instant) {
        let pause = self.round_trip();
        if self.shrunk.is_some_and(|shrunk| now < shrunk + pause) {
            return;
        }
        self.shrunk = Some(now);
        self.starting = false;
        self.bytes *= 0.9;
        self.bound();
    }

    fn bound(&mut self) {
        self.bytes = self.bytes.clamp(LEAST as f64, MOST as f64);
    }
}

impl Base {
    fn sample(&mut self, took: Duration, now: Instant) -> Duration {
        if self.begun.is_none_or(|begun| now > begun + BASE_AGE) {
            self.begun = Some(now);
            self.before = self.now.take();
        }

        let least = self.now.map_or(took, |known| known.min(took));
        self.now = Some(least);
        self.before.map_or(least, |before| before.min(least))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A link of so many bytes a second and a delay, whose queue is as long as it needs to be: the window after some round trips.
    fn settle(rate: f64, delay: Duration) -> (f64, Duration) {
        let mut window = Window::default();
        let mut now = Instant::now();
        let mut queue = 0.0;
        // The first answer of all finds the queue empty.
        window.arrived(PIECE, Some(delay), now);
        for _ in 0..400 {
            let on_its_way = window.bytes;
            let pipe = rate * delay.as_secs_f64();
            queue = (on_its_way - pipe).max(0.0);
            let took = delay + Duration::from_secs_f64(queue / rate);
            now += took;
            window.arrived(window.bytes(), Some(took), now);
        }
        (window.bytes, Duration::from_secs_f64(queue / rate))
    }

    #[test]
    fn a_link_is_kept_busy_with_a_short_queue() {
        for (rate, delay) in [(1.25e6, 1), (1.25e6, 50), (12.5e6, 20), (125e3, 10)] {
            let delay = Duration::from_millis(delay);
            let (window, queue) = settle(rate, delay);
            assert!(window >= rate * delay.as_secs_f64() * 0.95, "{window}");
            let most = TARGET * 3 / 2 + Duration::from_secs_f64(LEAST as f64 / rate);
            assert!(queue <= most, "{queue:?} at {rate}");
        }
    }

    #[test]
    fn a_loss_shrinks_it_a_little_and_once_a_round_trip() {
        let mut window = Window::default();
        let now = Instant::now();
        let before = window.bytes();
        window.lost(now);
        window.lost(now);
        assert_eq!(window.bytes(), before * 9 / 10);
        for second in 1..100 {
            window.lost(now + Duration::from_secs(second));
        }
        assert_eq!(window.bytes(), LEAST);
    }

    #[test]
    fn answers_that_waited_for_their_bytes_say_nothing() {
        let mut window = Window::default();
        let before = window.bytes();
        window.arrived(PIECE, None, Instant::now());
        assert_eq!(window.bytes(), before);
    }
}
