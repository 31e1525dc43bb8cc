//! `hermes-lab plan`: how long the planner of areas takes for all pairs of up to a thousand areas.
//!
//! It runs in this process, without a node: a plan is a function of its file. Processor time counts on a machine with other work.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hermes_plan::sample::Sample;
use hermes_plan::{Areas, Planner, Verdict, WORK, Work};

use crate::options::Options;
use crate::process::own_processor_time;
use crate::progress::Progress;
use crate::report::{Figure, PageHead, Sheet, SheetGoal};

/// Options of the command.
#[derive(Debug, clap::Args)]
pub struct PlanArguments {
    /// Areas; 1,000 is the most that a file may have.
    #[arg(long, value_delimiter = ',', default_values_t = [10, 30, 100, 300, 1000], value_parser = clap::value_parser!(u16).range(2..=1000))]
    areas: Vec<u16>,
    #[command(flatten)]
    options: Options,
}

/// The samples. With fewer areas there are fewer places, and everything else stays.
const SAMPLES: [(&str, Sample); 2] = [("sparse", Sample::SPARSE), ("dense", Sample::DENSE)];

/// Seed of the areas, apart from that of the order of rounds: each round plans the same areas.
const SEED: u64 = 35;

const TIME: &str = "processor time";

/// For how long a sample is planned again and again: the kernel counts processor time in steps of milliseconds.
const LEAST: Duration = Duration::from_millis(100);

/// Seconds in which a thousand areas are to be planned.
const GOAL: f64 = 1.0;

const HEAD: PageHead = PageHead {
    title: "Plans of areas",
    command: "plan",
    words: "All pairs of some areas, planned one after the other in one thread, as `hermes plan areas` does. *Sparse*: at most 4 of 200 attributes each, 150 \
            functions at up to 4 places each. *Dense*: at most 5 of 24 attributes, one function for each at up to 5 places. Places, a tenth as many as areas, are \
            joined by a ring with chords. Counts of pairs and steps are the same in each round.",
    notes: match cfg!(debug_assertions) {
        true => {
            "\nThese figures are of an unoptimised build of the planner, several times slower than a released one, \
             [whose figures](../performance.md#plans-of-areas) are apart.\n"
        }
        false => "",
    },
};

/// Runs the command.
///
/// # Errors
/// When a sample takes more steps than are allowed, or the results cannot be written.
pub fn run(arguments: &PlanArguments) -> Result<()> {
    let options = &arguments.options;
    let sheet = options.measured(|sheet| measure_all(arguments, sheet))?;
    sheet.publish(options, HEAD, goals)
}

fn measure_all(arguments: &PlanArguments, sheet: &mut Sheet) -> Result<()> {
    let rounds = &arguments.options.rounds;
    let steps = rounds.repeats as usize * arguments.areas.len() * SAMPLES.len();
    let mut progress = Progress::new(steps);
    for round in 1..=rounds.repeats {
        // Smaller files between larger ones, so that no size has the machine's best minute alone.
        for areas in &arguments.areas {
            for (name, sample) in SAMPLES {
                let case = case(*areas);
                progress.step(&format!("round {round}: {case}, {name}"));
                let sample = Sample {
                    areas: usize::from(*areas),
                    places: usize::from(*areas).div_ceil(10).max(2),
                    at: sample.at,
                    ..sample
                };
                let planned = Planned::measure(sample);
                let planned = planned.with_context(|| format!("{case}, {name}"))?;
                planned.add(&case, name, sheet);
            }
        }
    }
    progress.end();
    Ok(())
}

fn case(areas: u16) -> String {
    format!("{areas} areas")
}

/// All pairs of a sample.
struct Planned {
    /// Seconds, by the clock and of this thread's processor.
    clock: f64,
    processor: f64,
    counts: PlannedCounts,
}

/// The outcome, which is the same each time.
#[derive(Default)]
struct PlannedCounts {
    steps: u64,
    bridged: u32,
    unbridgeable: u32,
}

impl Planned {
    fn measure(sample: Sample) -> Result<Self> {
        let areas = sample.areas(SEED);
        let mut counts = PlannedCounts::default();
        let mut runs = 0.0;
        let used = own_processor_time();
        let begin = Instant::now();
        while begin.elapsed() < LEAST {
            counts = PlannedCounts::of(&areas)?;
            runs += 1.0;
        }
        let processor = own_processor_time().saturating_sub(used);
        Ok(Self {
            clock: begin.elapsed().as_secs_f64() / runs,
            processor: processor.as_secs_f64() / runs,
            counts,
        })
    }

    fn add(&self, case: &str, system: &str, sheet: &mut Sheet) {
        let mut add = |figure, value| sheet.add(case, system, figure, value);
        add(Figure::less(TIME, "ms"), self.processor * 1e3);
        add(Figure::less("by the clock", "ms"), self.clock * 1e3);
        add(Figure::less("search", "steps"), self.counts.steps as f64);
        add(
            Figure::more("bridged", "pairs"),
            f64::from(self.counts.bridged),
        );
        let cannot = f64::from(self.counts.unbridgeable);
        add(Figure::less("cannot be bridged", "pairs"), cannot);
    }
}

impl PlannedCounts {
    fn of(areas: &Areas) -> Result<Self> {
        let mut counts = Self::default();
        let mut work = Work::default();
        Planner::new(areas).each_pair(&mut work, |pair, verdict| match black_box(verdict) {
            Verdict::Bridged(_) => counts.bridged += 1,
            Verdict::Unbridgeable => counts.unbridgeable += 1,
            _ => drop(black_box(pair)),
        })?;
        counts.steps = WORK - work.left();
        Ok(counts)
    }
}

fn goals(sheet: &Sheet) -> Vec<SheetGoal> {
    let goals = SAMPLES.iter().filter_map(|(name, _)| {
        let found = sheet.of(&case(1000), name, TIME)?;
        let value = found.median / 1e3;
        Some(SheetGoal {
            words: format!("1,000 areas, {name}, s, below {GOAL}"),
            value,
            is_reached: value < GOAL,
        })
    });
    goals.collect()
}
