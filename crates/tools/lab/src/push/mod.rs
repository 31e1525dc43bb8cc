//! `hermes-lab push`: the relay beside NATS, as brokers of small messages, large ones, and many subscribers who wait; and the experiments of the
//! paper.
//!
//! - `client`: connections by hand, of which one thread serves any number. `scanner`: counts messages in their bytes.
//! - `flow`: messages without a pause. `lane`: a direction between two programs, with or without a broker.
//! - `systems`: the brokers, one process each. `measure`: latency, rates, fan-out, memory. `paper`: pings, calls, scale, the wide area.
//! - `goals`: the bounds that were promised. `plot`: the picture.

mod client;
mod flow;
mod goals;
mod lane;
mod measure;
mod paper;
mod plot;
mod scanner;
mod side;
mod systems;
mod words;

use std::fmt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::options::Options;
use crate::peers::{Name, Programs};
use crate::progress::Progress;
use crate::report::{Sheet, draw_bars};
use measure::{PushCounts, PushMeasuring};
use systems::{PushSystem, RunningBroker};

/// Options of the command.
#[derive(Debug, clap::Args)]
pub struct PushArguments {
    /// Only these systems.
    #[arg(long, value_delimiter = ',', default_values_t = PushSystem::USUAL)]
    systems: Vec<PushSystem>,
    /// Only these parts.
    #[arg(long, value_delimiter = ',', default_values_t = PushPart::ALL)]
    parts: Vec<PushPart>,
    #[command(flatten)]
    options: Options,
}

/// A part of the measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum PushPart {
    /// Latency, rates and memory of the brokers.
    Brokers,
    /// The experiments of the paper.
    Paper,
}

impl PushPart {
    const ALL: [Self; 2] = [Self::Brokers, Self::Paper];
}

impl fmt::Display for PushPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Brokers => "brokers",
            Self::Paper => "paper",
        })
    }
}

const LONG: PushCounts = PushCounts {
    pings: [5000, 500, 100],
    stream: Duration::from_secs(3),
    idle: [2000, 19_000],
};

const SHORT: PushCounts = PushCounts {
    pings: [500, 50, 10],
    stream: Duration::from_millis(500),
    idle: [200, 2000],
};

/// Runs the command.
///
/// # Errors
/// When a program is missing, a measurement fails or the results cannot be written.
pub fn run(arguments: &PushArguments) -> Result<()> {
    let options = &arguments.options;
    let mut sheet = options.measured(|sheet| measure_all(arguments, sheet))?;
    sheet.order_systems(&plot::SYSTEMS);
    if let Some(folder) = &options.svg {
        for (file, panels) in plot::PICTURES {
            draw_bars(&sheet, &plot::SYSTEMS, panels, &folder.join(file))?;
        }
    }
    sheet.publish(options, goals::HEAD, goals::of)
}

fn measure_all(arguments: &PushArguments, sheet: &mut Sheet) -> Result<()> {
    let options = &arguments.options;
    let built = Programs::provide(&[Name::Hermes], options.output.hermes.as_deref())?;
    // Each subscriber has a descriptor here.
    let _ = hermes_net::os::raise_open_files();
    let counts = if options.rounds.short { SHORT } else { LONG };

    let mut random = fastrand::Rng::with_seed(options.rounds.seed);
    let has = |part| arguments.parts.contains(&part);
    let in_a_round = match has(PushPart::Brokers) {
        true => arguments.systems.len() + usize::from(has(PushPart::Paper)),
        false => 1,
    };
    let mut progress = Progress::new(options.rounds.repeats as usize * in_a_round);
    for round in 1..=options.rounds.repeats {
        let mut order = match has(PushPart::Brokers) {
            true => arguments.systems.clone(),
            false => Vec::new(),
        };
        random.shuffle(&mut order);
        for system in order {
            progress.step(&format!("round {round}: {system}"));
            let measured = measure_broker(system, &built.hermes, counts, sheet);
            if let Err(error) = measured.with_context(|| system.to_string()) {
                sheet.failures.push(format!("{error:#}"));
            }
        }
        if has(PushPart::Paper) {
            progress.step(&format!("round {round}: the paper"));
            let counts = match options.rounds.short {
                true => paper::SHORT,
                false => paper::LONG,
            };
            let seed = options.rounds.seed + u64::from(round);
            let usual = PushSystem::USUAL;
            let mut brokers = arguments.systems.clone();
            brokers.retain(|system| usual.contains(system));
            let measured = paper::measure(&brokers, &built.hermes, counts, seed, sheet);
            if let Err(error) = measured.context("the paper") {
                sheet.failures.push(format!("{error:#}"));
            }
        }
    }
    progress.end();
    Ok(())
}

/// One broker at a time, and anew for each round: memory is that of a fresh process.
fn measure_broker(
    system: PushSystem,
    hermes: &Path,
    counts: PushCounts,
    sheet: &mut Sheet,
) -> Result<()> {
    let folder = tempfile::Builder::new().prefix("hermes-lab").tempdir()?;
    let running = RunningBroker::start(system, hermes, folder.path())?;
    let measuring = PushMeasuring {
        running: &running,
        counts,
        sheet,
    };
    measuring.all()
}
