//! Whether the sent bytes of a connection are acknowledged: asked before sending bytes that would
//! be lost otherwise.
//!
//! Without senders this costs nothing, and no timer. A peer acknowledges within a round trip and 25
//! ms (RFC 9000, 13.2.1); while it does not, QUIC probes it (RFC 9002, 6.2), so that its answer is
//! heard as soon as it is there again.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hermes_net::quic::PathStats;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::Instant;

/// How often to look.
pub(crate) const LOOK: Duration = Duration::from_millis(20);

/// Looks that are no farther from each other are those of a steady sender.
const SOON: Duration = Duration::from_millis(50);

/// Round trips without an acknowledgement that are too long, within these bounds: holding bytes
/// back without need makes them late, not holding them back loses them.
const ROUND_TRIPS: u32 = 3;
const BOUNDS: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(1);

/// Whether something comes back on a connection: as its liveness monitor says, and as its acknowledgements show.
#[derive(Debug, Default)]
pub(crate) struct Reception {
    /// The monitor's word.
    silent: AtomicBool,
    /// Something comes back again, or never will.
    returned: Notify,
    hearing: Mutex<Hearing>,
}

impl Reception {
    /// Whether nothing comes back, as the monitor said last.
    pub(crate) fn is_silent(&self) -> bool {
        self.silent.load(Ordering::Relaxed)
    }

    /// Sets the monitor's word.
    pub(crate) fn set_silent(&self, silent: bool) {
        self.silent.store(silent, Ordering::Relaxed);
        if !silent {
            self.returned.notify_waiters();
        }
    }

    /// Whether bytes sent now may be lost.
    pub(crate) fn holds_back(&self, now: Instant, stats: impl FnOnce() -> PathStats) -> bool {
        self.is_silent() || self.hearing.lock().look(now, stats)
    }

    /// Resolves when the monitor's word changes to the better.
    pub(crate) fn returned(&self) -> Notified<'_> {
        self.returned.notified()
    }
}

/// Observations of a connection.
#[derive(Debug, Default)]
pub(crate) struct Hearing {
    seen: PathStats,
    looked: Option<Instant>,
    /// Since when something waits to be acknowledged, as far as was seen.
    waiting: Option<Instant>,
    quiet: bool,
}

impl Hearing {
    /// Whether sent bytes wait for too long.
    pub(crate) fn look(&mut self, now: Instant, stats: impl FnOnce() -> PathStats) -> bool {
        if self
            .looked
            .is_some_and(|last| now.duration_since(last) < LOOK)
        {
            return self.quiet;
        }

        // The bytes sent since the last look were most likely sent right after it.
        let last = self
            .looked
            .replace(now)
            .filter(|last| now.duration_since(*last) <= SOON);
        let stats = stats();
        if stats.acknowledged != self.seen.acknowledged {
            (self.seen, self.waiting) = (stats, None);
        } else if stats.sent != self.seen.sent {
            self.waiting.get_or_insert(last.unwrap_or(now));
        }

        let bound = (stats.rtt * ROUND_TRIPS).clamp(*BOUNDS.start(), *BOUNDS.end());
        self.quiet = self
            .waiting
            .is_some_and(|since| now.duration_since(since) >= bound);
        self.quiet
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(sent: u64, acknowledged: u64) -> PathStats {
        PathStats {
            sent,
            acknowledged,
            rtt: Duration::from_millis(20),
        }
    }

    /// Looks at `counts`, 30 ms after each other, and says when it was quiet.
    fn quiet(counts: impl IntoIterator<Item = PathStats>) -> Vec<bool> {
        let (mut hearing, began) = (Hearing::default(), Instant::now());
        let looks = counts.into_iter().enumerate();
        looks
            .map(|(look, stats)| {
                hearing.look(began + Duration::from_millis(30) * look as u32, || stats)
            })
            .collect()
    }

    #[test]
    fn what_is_acknowledged_is_sent_on_however_rarely_something_is_sent() {
        assert!(!quiet((1..100).map(|sent| stats(sent, sent))).contains(&true));
        assert!(
            !quiet(std::iter::repeat_n(stats(1, 1), 100)).contains(&true),
            "nothing was sent since"
        );
    }

    #[test]
    fn what_is_not_acknowledged_in_time_is_held_back_until_something_is() {
        let dead = (1..20).map(|sent| stats(sent, 1));
        let looks = quiet(dead.chain([stats(20, 2)]));
        assert_eq!(
            looks.iter().position(|quiet| *quiet),
            Some(4),
            "100 ms after what was not acknowledged"
        );
        assert!(looks[4..19].iter().all(|quiet| *quiet) && !looks[19]);
    }

    #[test]
    fn it_is_not_looked_for_each_datagram() {
        let (mut hearing, now) = (Hearing::default(), Instant::now());
        assert!(!hearing.look(now, || stats(1, 1)));
        assert!(!hearing.look(now + LOOK / 2, || unreachable!()));
    }
}
