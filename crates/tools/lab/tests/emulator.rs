//! The link emulator against what its specification lets one expect.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::time::{Duration, Instant};

use hermes_lab::emulator::{Direction, Fate, Loss, Profile, Rate, Schedule};
use proptest::prelude::*;

/// How many standard deviations a random figure may be off: once in 15 million trials it is more.
const DEVIATIONS: f64 = 5.0;
const PACKETS: usize = 20_000;
const MILLISECOND: Duration = Duration::from_millis(1);

/// The fates of packets of 1000 bytes that enter one after the other, so far apart.
fn fates(profile: Profile, seed: u64, apart: Duration) -> Vec<(Instant, Fate)> {
    let start = Instant::now();
    let mut direction = Direction::new(profile, seed, start);
    let times = (0..PACKETS).map(|index| start + apart * u32::try_from(index).unwrap());
    times
        .map(|now| (now, direction.handle_packet((), 1000, now)))
        .collect()
}

fn lost(fates: &[(Instant, Fate)]) -> f64 {
    fates.iter().filter(|(_, fate)| *fate == Fate::Lost).count() as f64
}

fn departures(fates: &[(Instant, Fate)]) -> Vec<(Instant, Instant)> {
    let departed = |(entered, fate): &(Instant, Fate)| match fate {
        Fate::Departs(departure) => Some((*entered, *departure)),
        _ => None,
    };
    fates.iter().filter_map(departed).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn random_loss_is_within_the_bounds_of_a_binomial_distribution(share in 0.0..=1.0_f64, seed: u64) {
        let fates = fates(Profile { loss: Loss::Random(share), ..Profile::default() }, seed, MILLISECOND);
        let expected = share * PACKETS as f64;
        let deviation = (expected * (1.0 - share)).sqrt();
        prop_assert!((lost(&fates) - expected).abs() <= DEVIATIONS * deviation + 1.0);
    }

    #[test]
    fn bursts_have_the_mean_length_and_the_share_of_their_chain(
        begin in 0.01..0.2_f64,
        end in 0.1..0.9_f64,
        seed: u64,
    ) {
        let loss = Loss::Bursts { begin, end };
        let fates = fates(Profile { loss, ..Profile::default() }, seed, MILLISECOND);
        let is_lost: Vec<_> = fates.iter().map(|(_, fate)| *fate == Fate::Lost).collect();
        let bursts = is_lost.windows(2).filter(|pair| !pair[0] && pair[1]).count() as f64;
        // Lengths are geometric: mean 1 / end, deviation sqrt(1 - end) / end.
        let mean = lost(&fates) / bursts;
        let deviation = (1.0 - end).sqrt() / end / bursts.sqrt();
        prop_assert!((mean - 1.0 / end).abs() <= DEVIATIONS * deviation + 1.0 / bursts, "{mean} of {bursts}");
        // The share's variance, with correlation 1 - begin - end from packet to packet.
        let (share, correlation) = (loss.share(), 1.0 - begin - end);
        let variance = share * (1.0 - share) * (1.0 + correlation) / (1.0 - correlation) / PACKETS as f64;
        prop_assert!((lost(&fates) / PACKETS as f64 - share).abs() <= DEVIATIONS * variance.sqrt() + 1e-3);
    }

    #[test]
    fn the_delay_stays_within_the_jitter_and_the_order_is_kept(
        delay in 0..100_u32,
        jitter in 0..100_u32,
        seed: u64,
    ) {
        let profile = Profile { delay: MILLISECOND * delay, jitter: MILLISECOND * jitter, ..Profile::default() };
        let departures = departures(&fates(profile, seed, MILLISECOND * 300));
        prop_assert_eq!(departures.len(), PACKETS);
        for (entered, departure) in &departures {
            let took = *departure - *entered;
            prop_assert!(took >= MILLISECOND * delay.saturating_sub(jitter));
            prop_assert!(took <= MILLISECOND * (delay + jitter));
        }
        let mean = departures.iter().map(|(entered, departure)| (*departure - *entered).as_secs_f64()).sum::<f64>();
        if delay >= jitter {
            // Evenly spread: deviation jitter / sqrt(3).
            let deviation = f64::from(jitter) * 1e-3 / 3.0_f64.sqrt() / (PACKETS as f64).sqrt();
            prop_assert!((mean / PACKETS as f64 - f64::from(delay) * 1e-3).abs() <= DEVIATIONS * deviation + 1e-6);
        }
    }

    #[test]
    fn jitter_alone_overtakes_no_one(jitter in 1..100_u32, seed: u64) {
        let departures = departures(&fates(Profile { jitter: MILLISECOND * jitter, ..Profile::default() }, seed, MILLISECOND));
        prop_assert!(departures.windows(2).all(|pair| pair[0].1 <= pair[1].1));
    }

    #[test]
    fn a_full_link_carries_its_rate_and_delays_by_its_queue(megabits in 1..8_u64, queue in 2000..200_000_usize) {
        let rate = Rate { bits_per_second: megabits * 1_000_000, queue_bytes: queue };
        // 8 Mbit/s come in.
        let departures = departures(&fates(Profile { rate: Some(rate), ..Profile::default() }, 1, MILLISECOND));
        let (first, last) = (departures[0].1, departures[departures.len() - 1].1);
        let bits = (departures.len() - 1) as f64 * 8000.0;
        let carried = bits / (last - first).as_secs_f64();
        prop_assert!((carried / rate.bits_per_second as f64 - 1.0).abs() < 0.001, "{carried}");
        let longest = departures.iter().map(|(entered, departure)| *departure - *entered).max().unwrap();
        let full = queue as f64 * 8.0 / rate.bits_per_second as f64;
        prop_assert!(longest.as_secs_f64() <= full + 1e-6);
        prop_assert!(longest.as_secs_f64() >= full - 2.0 * 8000.0 / rate.bits_per_second as f64);
    }

    #[test]
    fn a_share_of_packets_overtakes(reorder in 0.05..0.5_f64, seed: u64) {
        let profile = Profile { delay: MILLISECOND * 10, reorder, ..Profile::default() };
        let departures = departures(&fates(profile, seed, MILLISECOND));
        let early = departures.iter().filter(|(entered, departure)| entered == departure).count() as f64;
        let expected = reorder * PACKETS as f64;
        prop_assert!((early - expected).abs() <= DEVIATIONS * (expected * (1.0 - reorder)).sqrt());
    }

    #[test]
    fn packets_come_out_in_the_order_of_their_departures_and_not_before(seed: u64, reorder in 0.0..0.5_f64) {
        let profile = Profile { delay: MILLISECOND * 5, jitter: MILLISECOND * 3, reorder, ..Profile::default() };
        let start = Instant::now();
        let mut direction = Direction::new(profile, seed, start);
        let mut due = Vec::new();
        for index in 0..200_u32 {
            if let Fate::Departs(departure) = direction.handle_packet(index, 100, start + MILLISECOND * index) {
                due.push((departure, index));
            }
        }
        due.sort_unstable();
        for (departure, packet) in due {
            prop_assert_eq!(direction.next_departure(), Some(departure));
            prop_assert_eq!(direction.poll_departure(departure - Duration::from_nanos(1)), None);
            prop_assert_eq!(direction.poll_departure(departure), Some(packet));
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_fates(seed: u64) {
        let profile = Profile { jitter: MILLISECOND, loss: Loss::Random(0.5), reorder: 0.1, ..Profile::default() };
        let since = |fates: Vec<(Instant, Fate)>| -> Vec<_> {
            let start = fates[0].0;
            fates.into_iter().map(|(_, fate)| match fate {
                Fate::Departs(departure) => Some(departure - start),
                _ => None,
            }).collect()
        };
        let again = since(fates(profile.clone(), seed, MILLISECOND));
        prop_assert_eq!(since(fates(profile, seed, MILLISECOND)), again);
    }
}

#[test]
fn a_link_that_is_down_takes_nothing() {
    let schedule = Schedule {
        offset: Duration::ZERO,
        up: MILLISECOND * 1000,
        down: MILLISECOND * 2000,
    };
    let fates = fates(
        Profile {
            schedule,
            ..Profile::default()
        },
        1,
        MILLISECOND,
    );
    for (index, (_, fate)) in fates.iter().enumerate() {
        assert_eq!(
            *fate == Fate::Down,
            index % 3000 >= 1000,
            "after {index} ms"
        );
    }
}
