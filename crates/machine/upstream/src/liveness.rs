//! Whether a QUIC connection has fallen silent: a machine that is shown the counts of the connection from time to time.
//!
//! An ack-eliciting packet is acknowledged within a round trip and 25 ms (RFC 9000, 13.2.1), and
//! without an acknowledgement the sender probes, less and less often (RFC 9002, 6.2). Only
//! acknowledgements count: if one direction alone is blocked, the peer's own packets still arrive.
//! A connection without sent packets tells nothing, and does not count as silent.

use std::time::Duration;

use hermes_net::quic::PathStats;
use tokio::time::Instant;

/// Without an acknowledgement for this long, a connection counts as silent. On paths below 100 ms
/// two or three probes were lost then, of two packets each; and another connection can be open
/// within two seconds of the last acknowledgement.
#[doc(alias = "bound")]
pub(crate) const SILENCE: Duration = Duration::from_secs(1);

/// Round trips that must fit into it, so that as many probes were sent on a long path.
const ROUND_TRIPS: u32 = 8;

/// Longest silence that is tolerated, however long the path seems to be: its measure grows under
/// overload.
#[doc(alias = "bound")]
const LONGEST: Duration = Duration::from_secs(6);

/// Time without an acknowledgement after which a connection that carries something is probed,
/// because someone may be waiting for an answer or for datagrams. Two small packets each way, two
/// or three times a second, on each link in use.
#[doc(alias = "bound")]
const QUIET: Duration = Duration::from_millis(400);

/// Looks in a row at which something was acknowledged, before a connection that was silent is so no more.
const RECOVERED: u32 = 2;

/// Observations of one connection.
#[derive(Debug)]
pub(crate) struct Liveness {
    seen: PathStats,
    /// When something was acknowledged last.
    heard_at: Instant,
    /// Since when something waits to be acknowledged, as far as was seen.
    waiting: Option<Instant>,
    silent: bool,
    heard: u32,
}

impl Liveness {
    /// A connection that works.
    pub(crate) fn new(stats: PathStats, now: Instant) -> Self {
        Self {
            seen: stats,
            heard_at: now,
            waiting: None,
            silent: false,
            heard: 0,
        }
    }

    /// Whether it is silent, by its counts as they are now.
    pub(crate) fn handle(&mut self, stats: PathStats, now: Instant) -> bool {
        let bound = (stats.rtt * ROUND_TRIPS).clamp(SILENCE, LONGEST);
        if stats.acknowledged != self.seen.acknowledged {
            // Packets sent just before may still be on their way: if they are lost, probes will be
            // sent for them.
            (self.seen, self.heard_at, self.waiting) = (stats, now, None);
            self.heard += 1;
            self.silent &= self.heard < RECOVERED;
        } else if stats.sent != self.seen.sent || self.waiting.is_some() {
            let since = *self.waiting.get_or_insert(now);
            if now.duration_since(since) >= bound {
                (self.silent, self.heard) = (true, 0);
            }
        }

        self.silent
    }

    /// The peer's machine says that nothing listens there. Unless something is acknowledged again, it is silent from now on.
    pub(crate) fn refused(&mut self, now: Instant) {
        (self.silent, self.heard) = (true, 0);
        self.waiting.get_or_insert(now);
    }

    /// Whether it should be probed, if someone is waiting for something to come on it; the probe is taken to be sent now.
    pub(crate) fn wants_probe(&mut self, now: Instant) -> bool {
        let wants = self.waiting.is_none() && now.duration_since(self.heard_at) >= QUIET;
        if wants {
            self.waiting = Some(now);
        }
        wants
    }

    /// How long something has waited to be acknowledged, on a connection that is silent and was not heard of since.
    pub(crate) fn lasts(&self, now: Instant) -> Duration {
        let since = self.waiting.filter(|_| !self.has_heard());
        since.map_or(Duration::ZERO, |since| now.duration_since(since))
    }

    /// When something was acknowledged last.
    pub(crate) fn heard_at(&self) -> Instant {
        self.heard_at
    }

    /// Whether something was acknowledged since it fell silent.
    pub(crate) fn has_heard(&self) -> bool {
        !self.silent || self.heard > 0
    }

    /// Whether something waits to be acknowledged.
    pub(crate) fn is_waiting(&self) -> bool {
        self.silent || self.waiting.is_some()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TICK: Duration = Duration::from_millis(200);

    fn stats(sent: u64, acknowledged: u64, rtt: u64) -> PathStats {
        PathStats {
            sent,
            acknowledged,
            rtt: Duration::from_millis(rtt),
        }
    }

    /// Looks at `counts`, one after each tick; returns after how long it was silent first.
    fn first(counts: impl IntoIterator<Item = PathStats>) -> Option<Duration> {
        let (mut liveness, began) = (
            Liveness::new(PathStats::default(), Instant::now()),
            Instant::now(),
        );
        let mut looks = counts.into_iter().enumerate();
        looks.find_map(|(tick, stats)| {
            let passed = TICK * tick as u32;
            liveness.handle(stats, began + passed).then_some(passed)
        })
    }

    #[test]
    fn what_is_sent_and_never_acknowledged_is_noticed_in_time() {
        let noticed = first((1..100).map(|tick| stats(tick, 0, 20))).unwrap();
        assert!(
            noticed >= SILENCE && noticed < SILENCE + TICK,
            "{noticed:?}"
        );
        let noticed = first(std::iter::repeat_n(stats(1, 0, 20), 100)).unwrap();
        assert!(
            noticed < SILENCE + TICK,
            "one packet is enough: {noticed:?}"
        );
    }

    #[test]
    fn an_idle_connection_is_not_silent_nor_is_one_that_only_sends_what_is_acknowledged() {
        assert_eq!(first(std::iter::repeat_n(PathStats::default(), 1000)), None);
        assert_eq!(
            first((0..1000).map(|tick| stats(tick * 100, tick, 20))),
            None
        );
    }

    #[test]
    fn a_long_path_has_time_for_its_probes() {
        let noticed = |rtt| first((1..100).map(|tick| stats(tick, 0, rtt))).unwrap();
        assert!(noticed(600) >= Duration::from_millis(4800));
        assert!(noticed(60_000) < LONGEST + TICK);
    }

    #[test]
    fn a_quiet_connection_is_probed_once_and_again_when_it_has_answered() {
        let now = Instant::now();
        let mut liveness = Liveness::new(stats(5, 5, 20), now);
        assert!(
            !liveness.wants_probe(now)
                && liveness.wants_probe(now + QUIET)
                && !liveness.wants_probe(now + QUIET * 2)
        );
        assert!(!liveness.handle(stats(6, 6, 20), now + QUIET * 2));
        assert!(!liveness.wants_probe(now + QUIET * 2) && liveness.wants_probe(now + QUIET * 3));
        assert!(!liveness.handle(stats(7, 6, 20), now + QUIET * 4));
        assert!(
            liveness.handle(stats(8, 6, 20), now + QUIET * 3 + SILENCE),
            "counted from the probe"
        );
    }

    #[test]
    fn a_connection_whose_peer_is_gone_is_silent_at_once_and_a_forged_word_costs_a_moment() {
        let (mut liveness, now) = (
            Liveness::new(stats(5, 5, 20), Instant::now()),
            Instant::now(),
        );
        liveness.refused(now);
        assert!(liveness.handle(stats(6, 5, 20), now) && !liveness.has_heard());
        assert!(liveness.handle(stats(6, 6, 20), now) && liveness.has_heard());
        assert!(!liveness.handle(stats(7, 7, 20), now));
    }

    #[test]
    fn a_single_acknowledgement_does_not_bring_it_back() {
        let (mut liveness, now) = (
            Liveness::new(PathStats::default(), Instant::now()),
            Instant::now(),
        );
        assert!(!liveness.handle(stats(1, 0, 20), now));
        assert!(liveness.handle(stats(2, 0, 20), now + SILENCE));
        assert!(liveness.handle(stats(3, 1, 20), now + SILENCE));
        assert!(liveness.is_waiting());
        assert!(!liveness.handle(stats(4, 2, 20), now + SILENCE));
    }

    proptest! {
        /// For any timing: a connection without a gap between acknowledgements as long as the bound
        /// is not silent; and it is silent once a packet was sent and a gap is longer than the
        /// bound and two looks.
        #[test]
        fn silence_is_a_gap_in_the_acknowledgements(looks in prop::collection::vec((0u64..3, any::<bool>(), 1u64..400), 1..200)) {
            let (mut liveness, mut now) = (Liveness::new(PathStats::default(), Instant::now()), Instant::now());
            let (mut sent, mut acknowledged) = (0, 0);
            let (mut heard, mut asked, mut recovering) = (now, None::<Instant>, false);
            for (more, answered, pause) in looks {
                now += Duration::from_millis(pause);
                sent += more;
                if answered {
                    acknowledged += 1;
                    (heard, asked) = (now, None);
                } else if more > 0 {
                    asked.get_or_insert(now);
                }
                let silent = liveness.handle(stats(sent, acknowledged, 20), now);
                let gap = now.duration_since(heard);
                if gap < SILENCE && !recovering {
                    prop_assert!(!silent, "{gap:?}");
                }
                if asked.is_some_and(|asked| now.duration_since(asked) >= SILENCE) {
                    prop_assert!(silent);
                }
                recovering = silent;
            }
        }
    }
}
