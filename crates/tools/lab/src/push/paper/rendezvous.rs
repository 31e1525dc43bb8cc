//! The gain of a rendezvous (Fig. 8d), computed: 10 clients and 5 relays at seeded places, and TCP over the distances between them.

use fastrand::Rng;

use crate::report::{Figure, Sheet, median};

/// Clients, of which each sends to each other: 90 pairs.
const CLIENTS: usize = 10;
const RELAYS: usize = 5;

/// The sizes of messages.
const SIZES: [f64; 4] = [1e3, 1e4, 1e5, 1e6];

/// Seconds from one edge of the world to the other and back.
const WIDTH: f64 = 0.200;
/// Seconds of the way to the nearest exchange and back.
const ACCESS: f64 = 0.005;
/// Bytes a second that the slowest link of a way carries: from the first to the second, evenly in the logarithm.
const RATES: [f64; 2] = [0.5e6, 12.5e6];
/// Bytes that TCP sends at first, without an answer (RFC 6928).
const FIRST_WINDOW: f64 = 14_600.0;

/// The case of messages of this size.
pub(crate) fn case(size: usize) -> String {
    format!(
        "a rendezvous for {}, computed (Fig. 8d)",
        super::local::bytes(size)
    )
}

/// The share of pairs to which a rendezvous is worth its time.
pub(crate) const GAINING: &str = "pairs that gain";

/// Adds the figures of this seed.
pub(super) fn compute(seed: u64, sheet: &mut Sheet) {
    let world = RelayWorld::of(&mut Rng::with_seed(seed));
    for size in SIZES {
        let gains = world.gains(size);
        let case = case(size as usize);
        let gaining = gains.iter().filter(|gain| **gain > 0.0).count();
        let share = 100.0 * gaining as f64 / gains.len() as f64;
        sheet.add(&case, "hermes", Figure::more(GAINING, "%"), share);
        let half = median(&gains);
        sheet.add(&case, "hermes", Figure::more("gain, median", "%"), half);
    }
}

/// A way between two places.
#[derive(Debug, Clone, Copy)]
struct Distance {
    /// Seconds there and back.
    rtt: f64,
    /// Bytes a second.
    rate: f64,
}

/// The ways from each client to each relay, and to the nearest rendezvous.
struct RelayWorld {
    relays: Vec<[Distance; RELAYS]>,
    rendezvous: Vec<f64>,
}

impl RelayWorld {
    fn of(random: &mut Rng) -> Self {
        let mut place = || [random.f64(), random.f64()];
        let clients: Vec<_> = (0..CLIENTS).map(|_| place()).collect();
        let relays: [_; RELAYS] = std::array::from_fn(|_| place());
        let mut distance = |one: [f64; 2], other: [f64; 2]| {
            let apart = f64::hypot(one[0] - other[0], one[1] - other[1]);
            let [least, most] = RATES;
            Distance {
                rtt: ACCESS + WIDTH * apart,
                rate: least * (most / least).powf(random.f64()),
            }
        };
        let ways: Vec<[Distance; RELAYS]> = clients
            .iter()
            .map(|client| relays.map(|relay| distance(*client, relay)))
            .collect();
        // A rendezvous stands beside each relay.
        let nearest = |ways: &[Distance; RELAYS]| {
            let times = ways.iter().map(|way| way.rtt);
            times.fold(f64::INFINITY, f64::min)
        };
        Self {
            rendezvous: ways.iter().map(nearest).collect(),
            relays: ways,
        }
    }

    /// For each pair, percent by which throughput grows with a rendezvous.
    fn gains(&self, size: f64) -> Vec<f64> {
        let mut gains = Vec::new();
        for from in 0..CLIENTS {
            for to in (0..CLIENTS).filter(|to| *to != from) {
                let mut times: Vec<f64> = (0..RELAYS)
                    .map(|relay| self.transfer(from, to, relay, size))
                    .collect();
                times.sort_by(f64::total_cmp);
                // The paper's random relay is the one in the middle.
                let random = times[RELAYS / 2];
                // As in the paper, asking takes one round trip.
                let asked = self.rendezvous[from];
                gains.push(100.0 * (random / (times[0] + asked) - 1.0));
            }
        }
        gains
    }

    /// Seconds of a message by a relay, to which its sender connects first and its receiver has.
    fn transfer(&self, from: usize, to: usize, relay: usize, size: f64) -> f64 {
        let there = self.relays[from][relay];
        let on = self.relays[to][relay];
        there.rtt + there.sends(size) + on.sends(size)
    }
}

impl Distance {
    /// Seconds until a message is on the other side, by a connection that has been idle: its window doubles with each round trip.
    fn sends(&self, size: f64) -> f64 {
        let mut window = FIRST_WINDOW;
        let mut left = size;
        let mut rounds = 0.0;
        while left > window && window < self.rate * self.rtt {
            left -= window;
            window *= 2.0;
            rounds += 1.0;
        }
        rounds * self.rtt + left / self.rate + self.rtt / 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_pairs_gain_by_a_rendezvous_for_larger_messages() {
        let world = RelayWorld::of(&mut Rng::with_seed(1));
        let gaining = |size| {
            let gains = world.gains(size);
            assert_eq!(gains.len(), 90);
            gains.iter().filter(|gain| **gain > 0.0).count()
        };
        assert!(gaining(1e3) < gaining(1e6));
    }

    #[test]
    fn a_message_takes_round_trips_while_the_window_grows() {
        let way = Distance {
            rtt: 0.1,
            rate: 1e9,
        };
        assert!((way.sends(10_000.0) - 0.05).abs() < 1e-3);
        assert!((way.sends(40_000.0) - 0.15).abs() < 1e-3);
    }
}
