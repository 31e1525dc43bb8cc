//! The shortest round trip of late: that without a queue.

use std::time::{Duration, Instant};

/// A round trip counts for so long; then it is measured again with half a window (MinRTTFilterLen).
const FILTER: Duration = Duration::from_secs(10);

/// The shortest round trip.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ShortestRoundTrip {
    /// It, and when it was measured.
    shortest: Option<(Duration, Instant)>,
    /// The shortest of a measurement that runs.
    next: Option<Duration>,
}

impl ShortestRoundTrip {
    pub(super) fn get(&self) -> Option<Duration> {
        self.shortest.map(|(shortest, _)| shortest)
    }

    /// A packet was acknowledged after this time.
    pub(super) fn handle(&mut self, now: Instant, sample: Duration) {
        self.next = Some(self.next.map_or(sample, |next| next.min(sample)));
        if self.get().is_none_or(|shortest| sample <= shortest) {
            self.shortest = Some((sample, now));
        }
    }

    /// Whether it was measured so long ago that the path may be another one.
    pub(super) fn is_old(&self, now: Instant) -> bool {
        self.shortest
            .is_some_and(|(_, at)| now.saturating_duration_since(at) > FILTER)
    }

    pub(super) fn begin_measurement(&mut self) {
        self.next = None;
    }

    /// The samples since the last measurement take the place of the older ones.
    pub(super) fn measured(&mut self, now: Instant) {
        if let Some(next) = self.next.take() {
            self.shortest = Some((next, now));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_became_longer_is_known_after_a_measurement() {
        let begin = Instant::now();
        let millis = Duration::from_millis;
        let mut round_trip = ShortestRoundTrip::default();
        round_trip.handle(begin, millis(20));
        round_trip.handle(begin + FILTER, millis(50));
        assert_eq!(round_trip.get(), Some(millis(20)));
        assert!(!round_trip.is_old(begin + FILTER));

        let late = begin + FILTER + millis(1);
        assert!(round_trip.is_old(late));
        round_trip.begin_measurement();
        round_trip.handle(late, millis(60));
        round_trip.handle(late, millis(40));
        round_trip.measured(late);
        assert_eq!(round_trip.get(), Some(millis(40)));
        assert!(!round_trip.is_old(late));
    }
}
