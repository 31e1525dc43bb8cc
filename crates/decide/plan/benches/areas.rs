//! All pairs of a thousand areas: `cargo bench -p hermes-plan`.
#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::time::{Duration, Instant};

use hermes_plan::sample::Sample;
use hermes_plan::{Planner, Verdict, WORK, Work};

/// Runs of each sample, of which the median counts.
const RUNS: usize = 5;

/// Figures of one sample.
struct Figures {
    median: Duration,
    steps: u64,
    bridged: usize,
    unbridgeable: usize,
}

fn main() {
    for (name, sample) in [("sparse", Sample::SPARSE), ("dense", Sample::DENSE)] {
        match measured(sample) {
            Some(figures) => println!(
                "{name}: all pairs of {} areas in {:?} ({} steps; {} bridged, {} unbridgeable)",
                sample.areas, figures.median, figures.steps, figures.bridged, figures.unbridgeable
            ),
            None => println!("{name}: more steps than are allowed"),
        }
    }
}

fn measured(sample: Sample) -> Option<Figures> {
    let areas = sample.areas(35);
    let mut times = Vec::new();
    let mut last = None;
    for _ in 0..RUNS {
        let begun = Instant::now();
        let mut work = Work::default();
        let mut bridged = 0;
        let mut unbridgeable = 0;
        let told = Planner::new(&areas).each_pair(&mut work, |_, verdict| match verdict {
            Verdict::Bridged(_) => bridged += 1,
            Verdict::Unbridgeable => unbridgeable += 1,
            _ => {}
        });
        told.ok()?;
        times.push(begun.elapsed());
        last = Some((WORK - work.left(), bridged, unbridgeable));
    }
    times.sort_unstable();
    let (steps, bridged, unbridgeable) = last?;
    Some(Figures {
        median: times[RUNS / 2],
        steps,
        bridged,
        unbridgeable,
    })
}
