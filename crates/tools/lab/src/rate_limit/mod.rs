//! `hermes-lab rate-limit`: clients that share an origin which bounds its rate, alone and behind proxies that pace them.
//!
//! - `limited`: the origin, which counts whom it refuses. `clients`: their requests, and how those who are alone ask again.
//! - `systems`: the process between. `goals`: what was promised.

mod clients;
mod goals;
mod limited;
mod plot;
mod systems;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::options::Options;
use crate::peers::{Name, Programs};
use crate::progress::Progress;
use crate::report::{Figure, Sheet, draw_bars};
use clients::Asking;
use limited::{Limit, LimitedOrigin, Telling};
use systems::{PacePrograms, PaceSystem, RunningPace};

/// Options of the command.
#[derive(Debug, clap::Args)]
pub struct RateLimitArguments {
    /// Only these systems. Default: all whose programs are installed.
    #[arg(long, value_delimiter = ',')]
    systems: Vec<PaceSystem>,
    /// Envoy; found by `PATH` where it is not named.
    #[arg(long, env = "HERMES_ENVOY", default_value = "envoy")]
    envoy: PathBuf,
    #[command(flatten)]
    options: Options,
}

/// Clients at once, what the origin tells, and the case.
const CASES: [(usize, Telling, &str); 5] = [
    (10, Telling::Fields, "10 clients, RateLimit fields"),
    (50, Telling::Fields, "50 clients, RateLimit fields"),
    (100, Telling::Fields, "100 clients, RateLimit fields"),
    (100, Telling::RetryAfter, "100 clients, Retry-After"),
    (100, Telling::Nothing, "100 clients, only 429"),
];

/// 40 in a minute, a minute in six seconds.
const LONG: PaceCounts = PaceCounts {
    limit: Limit {
        quota: 40,
        window: Duration::from_secs(6),
    },
    each: 4,
};

/// 40 in a minute, a minute in a second and a half.
const SHORT: PaceCounts = PaceCounts {
    limit: Limit {
        quota: 40,
        window: Duration::from_millis(1500),
    },
    each: 1,
};

/// How much is measured.
#[derive(Debug, Clone, Copy)]
struct PaceCounts {
    limit: Limit,
    /// Requests of each client.
    each: usize,
}

const REFUSED: &str = "refused by the origin";
const DONE: &str = "all done, of the best schedule";
const FIRST: &str = "first client done, of the last";

/// Runs the command.
///
/// # Errors
/// When a program is missing, a measurement fails or the results cannot be written.
pub fn run(arguments: &RateLimitArguments) -> Result<()> {
    let options = &arguments.options;
    let sheet = options.measured(|sheet| measure_all(arguments, sheet))?;
    if let Some(folder) = &options.svg {
        let systems = PaceSystem::ALL.map(PaceSystem::name);
        let file = folder.join("rate-limit.svg");
        draw_bars(&sheet, &systems, &plot::PANELS, &file)?;
    }
    sheet.publish(options, goals::HEAD, goals::of)
}

fn measure_all(arguments: &RateLimitArguments, sheet: &mut Sheet) -> Result<()> {
    let options = &arguments.options;
    let built = Programs::provide(&[Name::Hermes], options.output.hermes.as_deref())?;
    let programs = PacePrograms {
        hermes: built.hermes,
        envoy: arguments.envoy.clone(),
    };
    let systems = match arguments.systems.is_empty() {
        false => arguments.systems.clone(),
        true => PaceSystem::installed(&programs),
    };
    let counts = if options.rounds.short { SHORT } else { LONG };
    let cases: Vec<_> = CASES
        .into_iter()
        .filter(|(clients, ..)| !options.rounds.short || *clients == 100)
        .collect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;

    let mut random = fastrand::Rng::with_seed(options.rounds.seed);
    let steps = options.rounds.repeats as usize * systems.len() * cases.len();
    let mut progress = Progress::new(steps);
    for round in 1..=options.rounds.repeats {
        let mut order = systems.clone();
        random.shuffle(&mut order);
        for (clients, telling, case) in &cases {
            for system in &order {
                progress.step(&format!("round {round}: {case}: {system}"));
                let asking = Asking {
                    clients: *clients,
                    each: counts.each,
                    limit: counts.limit,
                    seed: random.u64(..),
                };
                let measured = runtime.block_on(measure(*system, &programs, asking, *telling));
                match measured.with_context(|| format!("{case}: {system}")) {
                    Ok(measured) => measured.add(sheet, case, *system),
                    Err(error) => sheet.failures.push(format!("{error:#}")),
                }
            }
        }
    }
    progress.end();
    Ok(())
}

/// One system, once.
struct MeasuredPace {
    refused: usize,
    /// Until all are done, of the best schedule.
    done: f64,
    /// Until the first client is done, of the time until all are.
    first: f64,
}

impl MeasuredPace {
    fn add(&self, sheet: &mut Sheet, case: &str, system: PaceSystem) {
        let name = system.name();
        sheet.add(case, name, Figure::less(REFUSED, ""), self.refused as f64);
        sheet.add(case, name, Figure::less(DONE, "times"), self.done);
        sheet.add(case, name, Figure::more(FIRST, "times"), self.first);
    }
}

async fn measure(
    system: PaceSystem,
    programs: &PacePrograms,
    asking: Asking,
    telling: Telling,
) -> Result<MeasuredPace> {
    let origin = LimitedOrigin::start(asking.limit, telling).await?;
    let folder = tempfile::Builder::new().prefix("hermes-lab").tempdir()?;
    // A process of its own for each: it knows nothing of an origin.
    let running = RunningPace::start(system, programs, folder.path(), origin.address).await?;
    let times = asking.run(&running.way, origin.address).await?;
    let last = times.iter().max().copied().unwrap_or_default();
    let first = times.iter().min().copied().unwrap_or_default();
    let best = asking
        .limit
        .best((asking.clients * asking.each) as u64, telling);
    Ok(MeasuredPace {
        refused: origin.refused(),
        done: last.as_secs_f64() / best.as_secs_f64(),
        first: first.as_secs_f64() / last.as_secs_f64(),
    })
}
