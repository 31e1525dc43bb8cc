//! Chains of nodes whose links come and go, in virtual time: every byte arrives, and as soon as the links allow.

#![expect(
    clippy::unwrap_used,
    reason = "the functions around the tests are tests, too"
)]

mod bound;
mod chain;

use std::time::Duration;

use bound::{Schedule, bound};
use chain::{Chain, Network};

/// A megabyte and five, in bytes.
const SIZES: [usize; 2] = [1 << 20, 5 << 20];

/// 10 Mbit/s.
const RATE: f64 = 1.25e6;

/// What a transfer may take beyond the bound: 5 %.
const MARGIN: f64 = 1.05;

fn network(schedule: Schedule) -> Network {
    Network {
        links: 3,
        rate: RATE,
        delay: Duration::from_micros(200),
        queue: 100_000,
        loss: 0.0,
        schedule,
    }
}

/// Runs the transfers of all sizes, and compares each with its bound. The client comes at a moment that `seed` chooses.
fn within_the_bound(schedule: impl Fn(u64) -> Schedule, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        for size in SIZES {
            let network = network(schedule(seed));
            let begin = Duration::from_millis(seed * 377 % 1000);
            let least = bound(&network.schedule, network.links, RATE, size, begin);
            let mut chain = Chain::new(&network, seed, size);
            let took = chain.transfer(begin).unwrap_or_else(|| {
                panic!(
                    "seed {seed}, {size} bytes: not whole after {:?}",
                    chain.elapsed()
                )
            });
            let share = took.as_secs_f64() / least.as_secs_f64();
            assert!(
                share <= MARGIN,
                "seed {seed}, {size} bytes: {took:?} of {least:?}"
            );
        }
    }
}

#[test]
fn in_turn_from_the_client_on() {
    within_the_bound(|_| Schedule::cyclic(3), 0..20);
}

#[test]
fn in_turn_from_the_server_on() {
    within_the_bound(|_| Schedule::reverse(3), 0..20);
}

#[test]
fn at_random() {
    within_the_bound(|seed| Schedule::random(3, seed), 0..20);
}

#[test]
fn in_permutations() {
    within_the_bound(|seed| Schedule::permutations(3, seed), 0..20);
}

/// What waits at a link when its turn ends is lost: it is to be little, in the first turn as in those after it.
#[test]
fn the_queue_at_a_link_is_short_from_the_first_bytes_on() {
    const SHORT: Duration = Duration::from_millis(50);
    for schedule in [Schedule::cyclic(3), Schedule::up(3)] {
        let mut chain = Chain::new(&network(schedule), 7, SIZES[0]);
        chain.transfer(Duration::ZERO).unwrap();
        let longest = chain.longest_queue;
        assert!(longest <= SHORT, "{longest:?}");
    }
}

#[test]
fn a_link_that_is_always_up_is_kept_busy_with_a_delay_and_with_losses() {
    for (delay, loss, allowed) in [
        (1, 0.0, 1.15),
        (50, 0.0, 1.4),
        (1, 0.01, 1.3),
        (20, 0.02, 1.8),
    ] {
        let network = Network {
            delay: Duration::from_millis(delay),
            loss,
            ..network(Schedule::up(3))
        };
        let size = SIZES[1];
        let mut chain = Chain::new(&network, 7, size);
        let took = chain.transfer(Duration::ZERO).unwrap().as_secs_f64();
        let least = size as f64 / RATE;
        assert!(
            took <= least * allowed,
            "{took} of {least} s with {delay} ms and a loss of {loss}"
        );
    }
}
