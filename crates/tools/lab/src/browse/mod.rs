//! `hermes-lab browse`: a page in Chromium over a slow link that loses packets, directly and through nodes, in namespaces.
//!
//! - `case`: who loads it. `page`: the page and its objects. `browser`: Chromium, which loads it.
//! - `stage`: clients, hops and server. `systems`: the nodes between them. `goals`: the promised figures.

mod addresses;
mod browser;
mod case;
mod goals;
mod page;
mod plot;
mod stage;
mod systems;

use std::path::PathBuf;

use anyhow::{Context, Result};
use rustix::process::geteuid;

use crate::options::Options;
use crate::peers::{Name, Programs};
use crate::progress::Progress;
use crate::report::{Figure, Sheet, draw_bars, median};
use case::{BrowseCase, CASES, ENDED, FIRST, LOAD, SHORT};
use stage::BrowseStage;
use systems::{BrowsePrograms, BrowseSystem};

/// Options of the command.
#[derive(Debug, clap::Args)]
pub struct BrowseArguments {
    /// Only these systems. Default: all.
    #[arg(long, value_delimiter = ',')]
    systems: Vec<BrowseSystem>,
    /// Only cases with these numbers of browsers, as CLIENTSxBROWSERS. Default: all; 1x1 in a short run.
    #[arg(long, value_delimiter = ',')]
    cases: Vec<String>,
    /// Chromium without a window.
    #[arg(
        long,
        env = "HERMES_CHROMIUM_HEADLESS_SHELL",
        default_value = "chromium-headless-shell"
    )]
    chromium: PathBuf,
    #[command(flatten)]
    options: Options,
}

/// Browsers that run at once, of all systems together: more would wait for the processors.
const AT_ONCE: usize = 8;

/// Runs the command.
///
/// # Errors
/// When it is not root's, a program is missing, a measurement fails or the results cannot be written.
pub fn run(arguments: &BrowseArguments) -> Result<()> {
    let options = &arguments.options;
    let mut sheet = options.measured(|sheet| measure_all(arguments, sheet))?;
    let systems = BrowseSystem::ALL.map(BrowseSystem::name);
    sheet.order_systems(&systems);
    if let Some(folder) = &options.svg {
        draw_bars(&sheet, &systems, &plot::PANELS, &folder.join("browse.svg"))?;
    }
    sheet.publish(options, goals::HEAD, goals::of)
}

fn measure_all(arguments: &BrowseArguments, sheet: &mut Sheet) -> Result<()> {
    anyhow::ensure!(geteuid().is_root(), "networks of its own need root");
    let rounds = &arguments.options.rounds;
    let built = Programs::provide(&[Name::Hermes], arguments.options.output.hermes.as_deref())?;
    let programs = BrowsePrograms {
        hermes: built.hermes,
        chromium: arguments.chromium.clone(),
    };
    let systems = match arguments.systems.is_empty() {
        false => arguments.systems.clone(),
        true => BrowseSystem::ALL.to_vec(),
    };
    let cases = chosen(arguments);

    let mut random = fastrand::Rng::with_seed(rounds.seed);
    let mut progress = Progress::new(rounds.repeats as usize * cases.len() * systems.len());
    for round in 1..=rounds.repeats {
        for case in &cases {
            let seed = random.u64(..);
            let mut order = systems.clone();
            random.shuffle(&mut order);
            let together = (AT_ONCE / case.loads()).max(1);
            for some in order.chunks(together) {
                for system in some {
                    progress.step(&format!("round {round}: {}: {system}", case.name));
                }
                if let Err(error) = measure(case, some, &programs, seed, sheet) {
                    sheet.failures.push(format!("{}: {error:#}", case.name));
                }
            }
        }
    }
    progress.end();
    Ok(())
}

fn chosen(arguments: &BrowseArguments) -> Vec<BrowseCase> {
    if arguments.options.rounds.short {
        return vec![SHORT];
    }
    let wanted = &arguments.cases;
    let is_wanted = |case: &BrowseCase| wanted.is_empty() || wanted.contains(&case.counts());
    CASES.into_iter().filter(is_wanted).collect()
}

/// Loads the page over some systems at once, each with links of its own.
fn measure(
    case: &BrowseCase,
    systems: &[BrowseSystem],
    programs: &BrowsePrograms,
    seed: u64,
    sheet: &mut Sheet,
) -> Result<()> {
    let mut stages = Vec::new();
    for system in systems {
        let stage = BrowseStage::lay(*system, programs, case, seed);
        stages.push(stage.with_context(|| system.name())?);
    }
    let (cached, others): (Vec<_>, Vec<_>) =
        stages.iter().partition(|stage| stage.system.has_cache());
    // Each client has been there before.
    let loading = cached.iter().map(|stage| stage.open(1));
    for mut loads in loading.collect::<Result<Vec<_>>>()? {
        loads.end()?;
    }

    let all = others.into_iter().chain(cached);
    let loading = all.map(|stage| Ok((stage.system, stage.open(case.browsers)?)));
    for (system, mut loads) in loading.collect::<Result<Vec<_>>>()? {
        add(sheet, case, system, &loads.end()?);
    }
    Ok(())
}

fn add(
    sheet: &mut Sheet,
    case: &BrowseCase,
    system: BrowseSystem,
    loads: &[Option<browser::PageTimes>],
) {
    let limit = case.limit.as_secs_f64();
    let of = |time: fn(&browser::PageTimes) -> f64| {
        let times = loads.iter().map(|load| load.as_ref().map_or(limit, time));
        median(&times.collect::<Vec<_>>())
    };
    let ended = loads.iter().flatten().count() as f64 / loads.len().max(1) as f64;
    let name = system.name();
    sheet.add(
        case.name,
        name,
        Figure::less(LOAD, "s"),
        of(|load| load.whole),
    );
    sheet.add(
        case.name,
        name,
        Figure::less(FIRST, "s"),
        of(|load| load.first),
    );
    sheet.add(case.name, name, Figure::more(ENDED, "%"), ended * 100.0);
}
