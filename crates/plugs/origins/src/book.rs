//! How well each origin answers, and which one is asked for the next piece.

use std::time::{Duration, Instant};

/// After so many pieces of a transfer another origin than the best is asked for one, so that one that became better is noticed.
const PROBE: u64 = 8;

/// How long an origin is not asked that failed, at first; the time doubles with each failure.
#[doc(alias = "bound")]
pub(crate) const PAUSE: Duration = Duration::from_secs(1);

/// The longest such time.
#[doc(alias = "bound")]
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Bytes from which a piece says something of a rate.
const TELLING: u64 = 16 << 10;

/// Measurements of a function's origins, by their places in its list.
#[derive(Debug)]
pub(crate) struct Book(Vec<OriginRecord>);

/// Measurements of one origin.
#[derive(Debug, Clone, Default)]
pub(crate) struct OriginRecord {
    /// Bytes a second, smoothed; `None`: it has sent nothing yet.
    pub(crate) rate: Option<f64>,
    pub(crate) bytes: u64,
    pub(crate) pieces: u64,
    pub(crate) failures: u64,
    /// Contents of it that were not the ones of a transfer.
    pub(crate) unlike: u64,
    failed_in_a_row: u32,
    asked_again: Option<Instant>,
}

impl Book {
    /// Of so many origins.
    pub(crate) fn new(origins: usize) -> Self {
        Self(vec![OriginRecord::default(); origins])
    }

    /// The origin for the next piece, of those that are not set aside; `None` if all are.
    pub(crate) fn choose(&self, piece: u64, is_aside: &[bool], now: Instant) -> Option<usize> {
        let candidates = || (0..self.0.len()).filter(|index| !is_aside[*index]);
        let rested = |index: &usize| self.0[*index].asked_again.is_none_or(|again| again <= now);
        let best = candidates().filter(rested).max_by(|one, other| {
            let worth = |index: &usize| self.worth(*index);
            // Of equal ones the first: it is the one that the route names.
            worth(one).total_cmp(&worth(other)).then(other.cmp(one))
        });
        let Some(best) = best else {
            // All have failed of late: the one whose pause ends first.
            return candidates().min_by_key(|index| self.0[*index].asked_again);
        };
        // One that no one has asked yet might be the best: the second piece finds out.
        let untried = candidates().find(|index| self.0[*index].is_untried());
        if let Some(untried) = untried.filter(|_| piece > 0) {
            return Some(untried);
        }
        let is_probe = piece % PROBE == PROBE - 1;
        let others = candidates().filter(rested).filter(|index| *index != best);
        let probed = others.min_by_key(|index| self.0[*index].pieces);
        Some(probed.filter(|_| is_probe).unwrap_or(best))
    }

    /// The best rate of another origin that may be asked, in bytes a second.
    pub(crate) fn best_beside(
        &self,
        origin: usize,
        is_aside: &[bool],
        now: Instant,
    ) -> Option<f64> {
        let others = self.0.iter().enumerate().filter(|(index, record)| {
            let rested = record.asked_again.is_none_or(|again| again <= now);
            *index != origin && !is_aside[*index] && rested
        });
        others
            .filter_map(|(_, record)| record.rate)
            .reduce(f64::max)
    }

    /// An origin has sent so many bytes in this time, in which it was waited for.
    pub(crate) fn sent(&mut self, origin: usize, bytes: u64, time: Duration) {
        let record = &mut self.0[origin];
        record.bytes += bytes;
        record.pieces += 1;
        record.failed_in_a_row = 0;
        record.asked_again = None;
        if bytes < TELLING {
            return;
        }
        let rate = bytes as f64 / time.as_secs_f64().max(0.001);
        // Bad news counts at once, good news by half: the rate of some pieces ago says little of now.
        record.rate = Some(
            record
                .rate
                .map_or(rate, |before| rate.min((before + rate) / 2.0)),
        );
    }

    /// An origin fell behind: it has sent so many bytes in this time.
    pub(crate) fn slow(&mut self, origin: usize, bytes: u64, time: Duration) {
        let rate = bytes as f64 / time.as_secs_f64().max(0.001);
        let record = &mut self.0[origin];
        record.bytes += bytes;
        record.pieces += 1;
        // Not smoothed: the next piece must not go there because it was fast before.
        record.rate = Some(rate);
    }

    /// An origin could not be asked, or broke off.
    pub(crate) fn failed(&mut self, origin: usize, now: Instant) {
        let record = &mut self.0[origin];
        record.failures += 1;
        let doubled =
            PAUSE.saturating_mul(1u32.checked_shl(record.failed_in_a_row).unwrap_or(u32::MAX));
        record.failed_in_a_row = (record.failed_in_a_row + 1).min(10);
        record.asked_again = Some(now + doubled.min(LONGEST_PAUSE));
    }

    /// The content of an origin was another one.
    pub(crate) fn unlike(&mut self, origin: usize) {
        self.0[origin].unlike += 1;
    }

    /// How long the origin is not to be asked.
    pub(crate) fn pause(&self, origin: usize, now: Instant) -> Duration {
        let again = self.0[origin].asked_again;
        again.map_or(Duration::ZERO, |again| again.saturating_duration_since(now))
    }

    /// All of it.
    pub(crate) fn records(&self) -> &[OriginRecord] {
        &self.0
    }

    /// An origin that has sent nothing is tried soon, and not before one that does well.
    fn worth(&self, index: usize) -> f64 {
        self.0[index].rate.unwrap_or(0.0)
    }
}

impl OriginRecord {
    fn is_untried(&self) -> bool {
        self.pieces == 0 && self.failures == 0 && self.unlike == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn pieces_go_to_the_best_and_now_and_then_to_another() {
        let now = Instant::now();
        let mut book = Book::new(2);
        assert_eq!(
            book.choose(0, &[false; 2], now),
            Some(0),
            "the first of equal ones"
        );
        book.sent(0, 1 << 20, SECOND);
        assert_eq!(book.choose(1, &[false; 2], now), Some(1), "untried");
        book.sent(1, 4 << 20, SECOND);
        assert_eq!(book.choose(2, &[false; 2], now), Some(1), "the better one");
        assert_eq!(book.choose(7, &[false; 2], now), Some(0), "a probe");
        book.slow(1, 1 << 10, SECOND);
        assert_eq!(book.choose(9, &[false; 2], now), Some(0), "and back");
        assert_eq!(book.choose(9, &[true, false], now), Some(1));
        assert_eq!(book.choose(9, &[true; 2], now), None);
    }

    #[test]
    fn one_that_fails_is_left_alone_for_longer_and_longer() {
        let now = Instant::now();
        let mut book = Book::new(2);
        book.sent(0, 1 << 20, SECOND);
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            book.failed(0, now);
            assert_eq!(book.pause(0, now), SECOND * seconds);
            assert_eq!(book.choose(0, &[false; 2], now), Some(1));
            assert_eq!(book.choose(7, &[false; 2], now), Some(1), "no probe either");
        }
        assert_eq!(book.choose(0, &[false; 2], now + SECOND * 60), Some(0));
        book.failed(1, now);
        assert_eq!(
            book.choose(0, &[false; 2], now),
            Some(1),
            "the pause that ends first"
        );
        assert_eq!(book.best_beside(1, &[false; 2], now), None);
    }
}
