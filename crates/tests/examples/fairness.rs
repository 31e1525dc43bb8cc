//! Measures fairness on one link: time and processor time of a tunnel's megabytes alone and beside 1,000 stalled tunnels, then
//! 100,000 short tunnels. Prints figures; asserts only that nothing is lost. Build `hermes` first.

#![allow(clippy::print_stdout, reason = "the figures are what it is for")]

use std::time::{Duration, Instant};

use hermes_tests::crowd::{Crowd, STALLED_BYTES, ticks};

/// What is fetched in each round, in bytes.
const BYTES: usize = 20_000_000;

/// Rounds, of which the median counts.
const ROUNDS: usize = 9;

fn main() {
    let short: usize = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(100_000);
    let crowd = Crowd::new();
    crowd.fetch(BYTES);
    let (alone, alone_ticks) = measure(&crowd);
    let client = crowd.narrow_client();
    let mut stalled: Vec<_> = (0..1_000).map(|_| crowd.stalled(&client, STALLED_BYTES)).collect();
    let (beside, beside_ticks) = measure(&crowd);
    stalled.iter_mut().for_each(|tunnel| Crowd::finish(tunnel, STALLED_BYTES));
    drop(stalled);
    crowd.end.idle();
    println!("20 MB alone                 {alone:?}, {alone_ticks} ticks of both nodes for {ROUNDS} rounds");
    println!("20 MB beside 1,000 stalled  {beside:?}, {beside_ticks} ticks; none of the 1,000 lost");
    println!("slower by                   {:.1} %", 100.0 * (beside.as_secs_f64() / alone.as_secs_f64() - 1.0));
    let began = Instant::now();
    crowd.short_tunnels(short);
    println!("{short} short tunnels        {:?}, no reset, {} link(s)", began.elapsed(), crowd.links());
}

/// The median time of a round, and the processor time of all.
fn measure(crowd: &Crowd) -> (Duration, u64) {
    let both = || ticks(&crowd.entry) + ticks(&crowd.end);
    let before = both();
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let began = Instant::now();
            crowd.fetch(BYTES);
            began.elapsed()
        })
        .collect();
    times.sort();
    (times[ROUNDS / 2], both() - before)
}
