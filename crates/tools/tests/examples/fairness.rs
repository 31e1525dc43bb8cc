//! Measures fairness on one link: the time of a tunnel's megabytes alone and beside 1,000 stalled tunnels, turn by turn in the same
//! processes; then 100,000 short tunnels. Prints figures; asserts only that nothing is lost. Build `hermes` first.
//!
//! Arguments: pairs of turns (15), short tunnels (100,000).

#![allow(clippy::print_stdout, reason = "the figures are what it is for")]

use std::time::{Duration, Instant};

use hermes_tests::crowd::{Crowd, STALLED_BYTES, ticks};

/// What is fetched each time, in bytes.
const BYTES: usize = 20_000_000;

/// Fetches of one turn, of which the median counts.
const FETCHES: usize = 5;

/// Tunnels that stall.
const STALLED: usize = 1_000;

fn main() {
    let number = |at: usize, ordinary| {
        std::env::args()
            .nth(at)
            .map_or(ordinary, |text| text.parse().expect("a number"))
    };
    let (pairs, short): (usize, usize) = (number(1, 15), number(2, 100_000));
    let crowd = Crowd::new();
    // What is reserved once is reserved before the first turn.
    let warm = [alone(&crowd), beside(&crowd)];
    println!(
        "warm: alone {:?}, beside {STALLED} stalled {:?}",
        warm[0].0, warm[1].0
    );
    let turns: Vec<[(Duration, u64); 2]> = (0..pairs)
        .map(|_| [alone(&crowd), beside(&crowd)])
        .collect();
    let time = |at: usize| sorted(turns.iter().map(|turn| turn[at].0.as_secs_f64() * 1e3));
    let spent = |at: usize| turns.iter().map(|turn| turn[at].1).sum::<u64>();
    let ratios = sorted(
        turns
            .iter()
            .map(|turn| turn[1].0.as_secs_f64() / turn[0].0.as_secs_f64()),
    );
    for (what, at) in [("alone", 0), ("beside", 1)] {
        let times = time(at);
        println!(
            "20 MB {what:7} {:.1} ms (median of {pairs} turns; {}), {} ticks",
            times[pairs / 2],
            range(&times),
            spent(at)
        );
    }
    println!(
        "beside / alone {:.3} (median of {pairs} pairs; {}); none of the {STALLED} lost",
        ratios[pairs / 2],
        range(&ratios)
    );
    let began = Instant::now();
    crowd.short_tunnels(short);
    println!(
        "{short} short tunnels {:?}, no reset, {} link(s)",
        began.elapsed(),
        crowd.links()
    );
}

/// The median time of a fetch, and the processor time of both nodes for all of the turn's.
fn alone(crowd: &Crowd) -> (Duration, u64) {
    let both = || ticks(&crowd.entry) + ticks(&crowd.end);
    let before = both();
    let mut times: Vec<Duration> = (0..FETCHES)
        .map(|_| {
            let began = Instant::now();
            crowd.fetch(BYTES);
            began.elapsed()
        })
        .collect();
    times.sort();
    (times[FETCHES / 2], both() - before)
}

/// The same while tunnels stall, which then give all that they have.
fn beside(crowd: &Crowd) -> (Duration, u64) {
    let client = crowd.narrow_client();
    let mut stalled: Vec<_> = (0..STALLED)
        .map(|_| crowd.stalled(&client, STALLED_BYTES))
        .collect();
    let measured = alone(crowd);
    stalled
        .iter_mut()
        .for_each(|tunnel| Crowd::finish(tunnel, STALLED_BYTES));
    drop(stalled);
    crowd.end.idle();
    measured
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Lowest, quartiles and highest.
fn range(values: &[f64]) -> String {
    let at = |part: usize| values[(values.len() - 1) * part / 4];
    format!(
        "{:.2} to {:.2}, quartiles {:.2} and {:.2}",
        at(0),
        at(4),
        at(1),
        at(3)
    )
}
