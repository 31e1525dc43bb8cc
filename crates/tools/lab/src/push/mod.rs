//! `hermes-lab push`: the relay beside NATS, as brokers of small messages, large ones, and many subscribers who wait.
//!
//! - `client`: connections by hand, of which one thread serves any number. `scanner`: counts messages in their bytes.
//! - `systems`: the brokers, one process each. `measure`: latency, rates, fan-out, memory.
//! - `goals`: the bounds that were promised. `plot`: the picture.

mod client;
mod goals;
mod measure;
mod plot;
mod scanner;
mod systems;

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
    #[arg(long, value_delimiter = ',', default_values_t = PushSystem::ALL)]
    systems: Vec<PushSystem>,
    #[command(flatten)]
    options: Options,
}

const LONG: PushCounts = PushCounts {
    pings: [5000, 500, 100],
    stream: Duration::from_secs(3),
    large: 1000,
    idle: [2000, 19_000],
};

const SHORT: PushCounts = PushCounts {
    pings: [500, 50, 10],
    stream: Duration::from_millis(500),
    large: 50,
    idle: [200, 2000],
};

/// Runs the command.
///
/// # Errors
/// When a program is missing, a measurement fails or the results cannot be written.
pub fn run(arguments: &PushArguments) -> Result<()> {
    let options = &arguments.options;
    let sheet = options.measured(|sheet| measure_all(arguments, sheet))?;
    if let Some(folder) = &options.svg {
        let systems = PushSystem::ALL.map(PushSystem::name);
        draw_bars(&sheet, &systems, &plot::PANELS, &folder.join("push.svg"))?;
    }
    sheet.publish(options, goals::HEAD, goals::of)
}

fn measure_all(arguments: &PushArguments, sheet: &mut Sheet) -> Result<()> {
    let options = &arguments.options;
    let built = Programs::provide(&[Name::Hermes], options.output.hermes.as_deref())?;
    // Each subscriber has a descriptor here.
    let _ = hermes_net::os::raise_open_files();
    let counts = if options.rounds.short { SHORT } else { LONG };
    let folder = tempfile::Builder::new().prefix("hermes-lab").tempdir()?;

    let mut random = fastrand::Rng::with_seed(options.rounds.seed);
    let steps = options.rounds.repeats as usize * arguments.systems.len();
    let mut progress = Progress::new(steps);
    for round in 1..=options.rounds.repeats {
        let mut order = arguments.systems.clone();
        random.shuffle(&mut order);
        for system in order {
            progress.step(&format!("round {round}: {system}"));
            // One at a time, and anew for each round: memory is that of a fresh process.
            let started = RunningBroker::start(system, &built.hermes, folder.path());
            let measured = started.and_then(|running| {
                let measuring = PushMeasuring {
                    running: &running,
                    counts,
                    sheet,
                };
                measuring.all()
            });
            if let Err(error) = measured.with_context(|| system.to_string()) {
                sheet.failures.push(format!("{error:#}"));
            }
        }
    }
    progress.end();
    Ok(())
}
