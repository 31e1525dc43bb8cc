//! How large the window of a stream has to be: as much as comes within a round trip.
//!
//! A window bounds the bytes of a stream in a round trip: 1 MiB allows 84 Mbit/s at 100 ms. The
//! bytes in flight are measured as in gRPC: those that arrive between a PING and its answer. If
//! they are nearly a window, the window held the sender back, and is doubled. If doubling has no
//! effect, measurements become ever rarer; a connection with little traffic is not measured.

use std::time::{Duration, Instant};

/// Time between two measurements, in which as much as half a window has to come.
#[doc(alias = "bound")]
const PAUSE: Duration = Duration::from_millis(100);

/// The same once several in a row have found the window large enough.
#[doc(alias = "bound")]
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// A round trip within which the smallest window is no bound: 8 Gbit/s.
const SHORT: Duration = Duration::from_millis(1);

/// The action to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finding {
    /// Send a PING; its answer ends the measurement.
    Measure,
    /// The window of each stream should be this many bytes.
    Grow(u32),
}

/// The measured bandwidth and delay of a connection.
#[derive(Debug)]
pub(crate) struct Bandwidth {
    window: u32,
    most: u32,
    measuring: Option<Begun>,
    /// Bytes that had come at the last measurement.
    seen: u64,
    pause: Duration,
    next: Option<Instant>,
}

/// A measurement with a PING on its way.
#[derive(Debug, Clone, Copy)]
struct Begun {
    at: Instant,
    /// Bytes that had come by then.
    arrived: u64,
    /// PINGs that had been answered by then.
    pongs: u64,
}

impl Bandwidth {
    /// A measurement for streams with this window, which may grow to `most` bytes.
    pub(crate) fn new(window: u32, most: u32) -> Self {
        Self {
            window,
            most,
            measuring: None,
            seen: 0,
            pause: PAUSE,
            next: None,
        }
    }

    /// Takes the number of bytes and of answered PINGs so far.
    pub(crate) fn handle(&mut self, arrived: u64, pongs: u64, now: Instant) -> Option<Finding> {
        match self.measuring {
            Some(begun) if begun.pongs == pongs => None,
            Some(begun) => {
                self.measuring = None;
                self.measured(begun, arrived, now)
            }
            None if self.window < self.most => self.begin(arrived, pongs, now),
            None => None,
        }
    }

    fn begin(&mut self, arrived: u64, pongs: u64, now: Instant) -> Option<Finding> {
        let is_due = self.next.is_none_or(|next| now >= next);
        if !is_due || arrived - self.seen < u64::from(self.window / 2) {
            return None;
        }

        self.seen = arrived;
        self.measuring = Some(Begun {
            at: now,
            arrived,
            pongs,
        });
        Some(Finding::Measure)
    }

    fn measured(&mut self, begun: Begun, arrived: u64, now: Instant) -> Option<Finding> {
        let came = arrived - begun.arrived;
        self.seen = arrived;

        // A window that is used up arrives as a whole within a round trip, but for the time that
        // its reader takes to open it again.
        let is_full = came >= u64::from(self.window / 4 * 3);
        if !is_full || now.duration_since(begun.at) < SHORT {
            self.next = Some(now + self.pause);
            self.pause = (2 * self.pause).min(LONGEST_PAUSE);
            return None;
        }

        self.window = self.window.saturating_mul(2).min(self.most);
        self.pause = PAUSE;
        self.next = Some(now + PAUSE);
        Some(Finding::Grow(self.window))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u32 = 1 << 20;

    /// A sender that its window or its line holds back, over a path: by how much the window has grown, and how many PINGs that took.
    fn run(bytes_a_second: u64, delay: Duration, seconds: u64) -> (u32, usize) {
        let mut bandwidth = Bandwidth::new(MIB, 8 * MIB);
        let began = Instant::now();
        let mut window = MIB;
        let mut arrived = 0;
        let mut pongs = 0;
        let mut pings = Vec::new();
        let step = Duration::from_millis(1);

        for millisecond in 0..1_000 * seconds {
            let now = began + step * millisecond as u32;
            let by_window = u128::from(window) * step.as_nanos() / delay.as_nanos();
            arrived += u64::try_from(by_window)
                .unwrap()
                .min(bytes_a_second / 1_000);
            if pings.last().is_some_and(|sent| now == *sent + delay) {
                pongs += 1;
            }
            match bandwidth.handle(arrived, pongs, now) {
                Some(Finding::Measure) => pings.push(now),
                Some(Finding::Grow(grown)) => window = grown,
                None => {}
            }
        }

        (window, pings.len())
    }

    #[test]
    fn a_window_grows_to_what_a_long_path_holds_and_no_further() {
        let delay = Duration::from_millis(100);
        let (window, pings) = run(40_000_000, delay, 10);
        assert!((4 * MIB..=8 * MIB).contains(&window), "{window}");
        assert!(pings < 20, "{pings} PINGs");
        assert_eq!(run(1_000_000_000, delay, 10).0, 8 * MIB, "what may be");
    }

    #[test]
    fn a_window_that_holds_no_one_back_stays_and_is_asked_about_rarely() {
        let (window, pings) = run(100_000_000, Duration::from_millis(5), 100);
        assert_eq!(window, MIB);
        assert!(pings < 20, "{pings} PINGs");
    }

    #[test]
    fn where_little_comes_nothing_is_asked() {
        let mut bandwidth = Bandwidth::new(MIB, 8 * MIB);
        let now = Instant::now();
        for second in 0..1_000 {
            let now = now + Duration::from_secs(second);
            assert_eq!(bandwidth.handle(second * 500, 0, now), None);
        }
    }
}
