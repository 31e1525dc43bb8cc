//! The rate at which bytes arrive, by round.
//!
//! A round lasts until a packet is acknowledged that was sent after it began, and so at least a round trip. quinn does not say which
//! packet an acknowledgement is for, only when it was sent, so a rate is measured over a round rather than for each packet (BBRUpdateRate).

use std::collections::VecDeque;
use std::time::Instant;

/// Rounds for which a rate counts: more than a cycle of phases, as only probes find the whole rate.
const ROUNDS: u64 = 12;

/// The rate of delivery.
#[derive(Debug, Clone)]
pub(super) struct DeliveryRate {
    /// Bytes acknowledged since the beginning.
    delivered: u64,
    /// When the latest packet that arrived was sent.
    newest: Option<Instant>,
    round: Round,
    /// Rounds whose rate counted.
    counted: u64,
    /// Falling rates in bytes per second of the last [`ROUNDS`], with the number of the round.
    rates: VecDeque<(u64, f64)>,
}

#[derive(Debug, Clone)]
struct Round {
    begin: Instant,
    /// Bytes delivered before.
    delivered: u64,
    /// The application had nothing to send in it.
    is_limited: bool,
}

/// A round that has ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct EndedRound {
    /// The application had nothing to send in it: the path may carry more.
    pub(super) is_limited: bool,
}

impl DeliveryRate {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            delivered: 0,
            newest: None,
            round: Round {
                begin: now,
                delivered: 0,
                is_limited: false,
            },
            counted: 0,
            rates: VecDeque::new(),
        }
    }

    /// The most bytes per second of the last rounds.
    pub(super) fn rate(&self) -> Option<f64> {
        self.rates.front().map(|(_, rate)| *rate)
    }

    pub(super) fn handle_ack(&mut self, sent: Instant, bytes: u64) {
        self.delivered += bytes;
        self.newest = self.newest.max(Some(sent));
    }

    /// A batch of acknowledgements has ended; returns the round that ended with it, if one did.
    pub(super) fn handle_end(&mut self, now: Instant, is_limited: bool) -> Option<EndedRound> {
        self.round.is_limited |= is_limited;
        if self.newest.is_none_or(|sent| sent < self.round.begin) {
            return None;
        }

        let next = Round {
            begin: now,
            delivered: self.delivered,
            is_limited: false,
        };
        let round = std::mem::replace(&mut self.round, next);
        let time = now.saturating_duration_since(round.begin);
        if !time.is_zero() {
            let bytes = (self.delivered - round.delivered) as f64;
            self.handle_rate(bytes / time.as_secs_f64(), round.is_limited);
        }
        Some(EndedRound {
            is_limited: round.is_limited,
        })
    }

    /// A rate that the application bounded says nothing about the path, unless it is higher than what is known.
    fn handle_rate(&mut self, rate: f64, is_limited: bool) {
        if is_limited && self.rate().is_some_and(|known| rate < known) {
            return;
        }

        self.counted += 1;
        while self.rates.back().is_some_and(|(_, other)| *other <= rate) {
            self.rates.pop_back();
        }
        self.rates.push_back((self.counted, rate));
        let oldest = self.counted.saturating_sub(ROUNDS);
        while self
            .rates
            .front()
            .is_some_and(|(round, _)| *round <= oldest)
        {
            self.rates.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const TRIP: Duration = Duration::from_millis(100);

    /// A round in which so many bytes arrive.
    fn round(delivery: &mut DeliveryRate, now: &mut Instant, bytes: u64, is_limited: bool) {
        let sent = *now;
        *now += TRIP;
        delivery.handle_ack(sent, bytes);
        assert!(delivery.handle_end(*now, is_limited).is_some());
    }

    #[test]
    fn the_best_rate_counts_until_enough_rounds_were_slower() {
        let mut now = Instant::now();
        let mut delivery = DeliveryRate::new(now);
        round(&mut delivery, &mut now, 5000, false);
        for _ in 1..ROUNDS {
            round(&mut delivery, &mut now, 1000, false);
            assert_eq!(delivery.rate(), Some(50_000.0));
        }
        round(&mut delivery, &mut now, 1000, false);
        assert_eq!(delivery.rate(), Some(10_000.0));
    }

    #[test]
    fn an_application_that_sends_little_says_nothing_of_the_path() {
        let mut now = Instant::now();
        let mut delivery = DeliveryRate::new(now);
        round(&mut delivery, &mut now, 5000, false);
        for _ in 0..10 * ROUNDS {
            round(&mut delivery, &mut now, 10, true);
        }
        assert_eq!(delivery.rate(), Some(50_000.0));
        round(&mut delivery, &mut now, 6000, true);
        assert_eq!(delivery.rate(), Some(60_000.0));
    }

    #[test]
    fn a_round_ends_with_a_packet_that_was_sent_in_it() {
        let begin = Instant::now();
        let mut delivery = DeliveryRate::new(begin + TRIP);
        delivery.handle_ack(begin, 1000);
        assert!(delivery.handle_end(begin + TRIP, false).is_none());
        delivery.handle_ack(begin + TRIP, 1000);
        let ended = delivery.handle_end(begin + 2 * TRIP, true);
        assert!(ended.is_some_and(|round| round.is_limited));
    }
}
