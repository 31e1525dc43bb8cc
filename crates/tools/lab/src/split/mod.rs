//! `hermes-lab split`: connections that are split on their way, beside none and beside forwarders, in namespaces.
//!
//! - `network`: a client, a router and a server. `systems`: the process on the router.
//! - `measure`: connecting, a first answer, further answers, downloads, refusals, memory, bursts.
//! - `goals`: what was promised.

mod goals;
mod measure;
mod network;
mod plot;
mod systems;

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use rustix::process::geteuid;

use crate::options::Options;
use crate::peers::{Name, Programs};
use crate::progress::Progress;
use crate::report::{Sheet, draw_bars};
use measure::{SplitCounts, SplitFigure};
use network::{SplitNetwork, SplitPath};
use systems::{SplitPrograms, SplitSystem};

/// Options of the command.
#[derive(Debug, clap::Args)]
pub struct SplitArguments {
    /// Only these systems. Default: all whose programs are installed.
    #[arg(long, value_delimiter = ',')]
    systems: Vec<SplitSystem>,
    /// Envoy; found by `PATH` where it is not named.
    #[arg(long, env = "HERMES_ENVOY", default_value = "envoy")]
    envoy: PathBuf,
    #[command(flatten)]
    options: Options,
}

const LONG: SplitCounts = SplitCounts {
    connections: 1000,
    answers: 5000,
    downloads: 100,
    large: 10,
    is_long: true,
    lossy: 5,
    idle: 200,
    beside: 10_000,
    bursts: 100,
};

const SHORT: SplitCounts = SplitCounts {
    connections: 200,
    answers: 1000,
    downloads: 10,
    large: 1,
    is_long: false,
    lossy: 1,
    idle: 100,
    beside: 100,
    bursts: 5,
};

/// Open files of a forwarder that are no sockets of its connections, of which each has two.
const OTHER_FILES: u64 = 200;

/// Runs the command.
///
/// # Errors
/// When it is not root's, a program is missing, a measurement fails or the results cannot be written.
pub fn run(arguments: &SplitArguments) -> Result<()> {
    let options = &arguments.options;
    let sheet = options.measured(|sheet| {
        ensure!(geteuid().is_root(), "networks of its own need root");
        measure_all(arguments, sheet)
    })?;
    if let Some(folder) = &options.svg {
        let systems = SplitSystem::ALL.map(SplitSystem::name);
        draw_bars(&sheet, &systems, &plot::PANELS, &folder.join("split.svg"))?;
    }
    sheet.publish(options, goals::HEAD, goals::of)
}

fn measure_all(arguments: &SplitArguments, sheet: &mut Sheet) -> Result<()> {
    let options = &arguments.options;
    let built = Programs::provide(&[Name::Hermes], options.output.hermes.as_deref())?;
    let programs = SplitPrograms {
        hermes: built.hermes,
        envoy: arguments.envoy.clone(),
    };
    let systems = match arguments.systems.is_empty() {
        false => arguments.systems.clone(),
        true => installed(&programs),
    };
    let mut counts = if options.rounds.short { SHORT } else { LONG };
    let open = hermes_net::os::raise_open_files().unwrap_or_default();
    let most = usize::try_from(open.saturating_sub(OTHER_FILES) / 2)?;
    if most < counts.beside {
        eprintln!(
            "hermes-lab: {} connections need two open files each, and {open} are allowed: {most} at most are measured",
            counts.beside
        );
        counts.beside = most;
    }

    let mut random = fastrand::Rng::with_seed(options.rounds.seed);
    let mut progress = Progress::new(options.rounds.repeats as usize * systems.len());
    for round in 1..=options.rounds.repeats {
        let mut order = systems.clone();
        random.shuffle(&mut order);
        for system in order {
            progress.step(&format!("round {round}: {system}"));
            let seed = random.u64(..);
            for path in [SplitPath::Cables, SplitPath::LossyAndLong { seed }] {
                // Networks and processes are new in each round: none has the memory or the neighbours of another one.
                let measured = SplitNetwork::lay(system, &programs, path)
                    .and_then(|mut network| measure::all(&mut network, path, counts));
                match measured.with_context(|| system.to_string()) {
                    Ok(all) => add(sheet, system, all),
                    Err(error) => sheet.failures.push(format!("{error:#}")),
                }
            }
        }
    }
    progress.end();
    Ok(())
}

fn add(sheet: &mut Sheet, system: SplitSystem, figures: Vec<SplitFigure>) {
    for one in figures {
        sheet.add(one.case, system.name(), one.figure, one.value);
    }
}

/// The systems that can be measured here; the others are named.
fn installed(programs: &SplitPrograms) -> Vec<SplitSystem> {
    let (there, missing): (Vec<_>, Vec<_>) = SplitSystem::ALL
        .into_iter()
        .partition(|system| system.is_installed(programs));
    for system in missing {
        eprintln!("hermes-lab: {system} is not installed, and not measured");
    }
    there
}
