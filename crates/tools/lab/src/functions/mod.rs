//! `hermes-lab functions`: the experiments of the paper on bridging functions, beside a reverse proxy and no proxy.
//!
//! - `systems`: nginx, and a node with chains of 1 to 4 functions and with one outside.
//! - `rate`: requests in a second by 1 to 16 clients. `network`: the six distances of Table I, and the time of a request.
//! - `goals`: the paper's figures. `plot`: the picture.

mod goals;
mod network;
mod plot;
mod rate;
mod systems;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::geteuid;

use crate::options::Options;
use crate::origin;
use crate::peers::{Name, Programs};
use crate::pki::Pki;
use crate::progress::Progress;
use crate::report::{Figure, Sheet};
use network::{RequestTimes, TABLE_I};
use systems::{FunctionsPlace, FunctionsSystem, RunningFunctions};

/// Options of the command.
#[derive(Debug, clap::Args)]
pub struct FunctionsArguments {
    /// Only these systems.
    #[arg(long, value_delimiter = ',', default_values_t = FunctionsSystem::ALL)]
    systems: Vec<FunctionsSystem>,
    #[command(flatten)]
    options: Options,
}

/// How much is measured.
#[derive(Debug, Clone, Copy)]
struct FunctionsCounts {
    /// The time of a rate.
    rate: Duration,
    /// Requests of each system at each distance.
    requests: usize,
}

const LONG: FunctionsCounts = FunctionsCounts {
    rate: Duration::from_secs(2),
    requests: 120,
};

const SHORT: FunctionsCounts = FunctionsCounts {
    rate: Duration::from_millis(120),
    requests: 4,
};

/// Systems that are measured at distances: longer chains add nothing that a network could show.
const AT_DISTANCES: [FunctionsSystem; 7] = [
    FunctionsSystem::Direct,
    FunctionsSystem::Nginx,
    FunctionsSystem::Hermes,
    FunctionsSystem::Hermes5,
    FunctionsSystem::Hermes6,
    FunctionsSystem::Chain4,
    FunctionsSystem::Outside,
];

/// Runs the command.
///
/// # Errors
/// When a program is missing, a measurement fails or the results cannot be written.
pub fn run(arguments: &FunctionsArguments) -> Result<()> {
    let options = &arguments.options;
    let sheet = options.measured(|sheet| measure_all(arguments, sheet))?;
    if let Some(folder) = &options.svg {
        plot::draw(&sheet, folder)?;
    }
    sheet.publish(options, goals::HEAD, goals::of)
}

fn measure_all(arguments: &FunctionsArguments, sheet: &mut Sheet) -> Result<()> {
    let options = &arguments.options;
    let built = Programs::provide(&[Name::Hermes], options.output.hermes.as_deref())?;
    let counts = if options.rounds.short { SHORT } else { LONG };
    let mut random = fastrand::Rng::with_seed(options.rounds.seed);
    let rounds = options.rounds.repeats as usize;
    let mut progress = Progress::new(rounds * (arguments.systems.len() + TABLE_I.len()));
    for round in 1..=rounds {
        let mut order = arguments.systems.clone();
        random.shuffle(&mut order);
        for system in order {
            progress.step(&format!("round {round}: {system}"));
            let measured = rates(system, &built.hermes, counts, sheet);
            if let Err(error) = measured.with_context(|| system.to_string()) {
                sheet.failures.push(format!("{error:#}"));
            }
        }
        if !geteuid().is_root() {
            continue;
        }
        let mut order = arguments.systems.clone();
        order.retain(|system| AT_DISTANCES.contains(system));
        random.shuffle(&mut order);
        for distances in &TABLE_I {
            progress.step(&format!("round {round}: {}", distances.name));
            let found = network::requests(distances, &order, &built.hermes, counts.requests);
            match found.with_context(|| distances.name) {
                Ok(found) => add_requests(distances.name, &found, sheet),
                Err(error) => sheet.failures.push(format!("{error:#}")),
            }
        }
    }
    progress.end();
    // Their order was shuffled in each round.
    sheet.order_systems(&FunctionsSystem::ALL.map(FunctionsSystem::name));

    match geteuid().is_root() {
        true => goals::add_paper(sheet),
        false => sheet
            .failures
            .push("the networks of Table I need root, and were not measured".to_owned()),
    }
    Ok(())
}

/// The rates of a system that is started for them, with a server of its own.
fn rates(
    system: FunctionsSystem,
    hermes: &Path,
    counts: FunctionsCounts,
    sheet: &mut Sheet,
) -> Result<()> {
    let folder = tempfile::Builder::new().prefix("hermes-lab").tempdir()?;
    Pki::create(folder.path())?;
    let (_server, addresses) = origin::start(folder.path())?;
    let place = FunctionsPlace {
        hermes,
        namespace: None,
        address: addresses.http.ip(),
        server: addresses.http,
        folder: folder.path(),
    };
    let mut running = RunningFunctions::launch(system, place)?;
    running.wait()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(rate::measure(&running, counts.rate, sheet))
}

fn add_requests(case: &str, found: &[RequestTimes], sheet: &mut Sheet) {
    let mut direct = found.iter();
    let direct = direct.find(|one| one.system == FunctionsSystem::Direct);
    for one in found {
        let name = one.system.name();
        sheet.add(case, name, Figure::less("a request", "ms"), one.median);
        sheet.add(case, name, Figure::less("the quickest", "ms"), one.least);
        if let (Some(direct), true) = (direct, one.system != FunctionsSystem::Direct) {
            let longer = Figure::less(goals::LONGER, "ms");
            sheet.add(case, name, longer, one.least - direct.least);
        }
    }
}
