//! `hermes-lab overhead`: what a pair of proxies costs, measured on several systems in one run.

mod figures;
mod page;
mod pictures;
mod plan;
mod table;
mod targets;
mod verdict;

use std::time::Instant;

use anyhow::Result;

use crate::experiment::{self, Bench, Case};
use crate::options::{Options, show};
use crate::origin;
use crate::peers::{Name, Programs, Surroundings, System};
use crate::pki::Pki;
use crate::process::Process;
use crate::progress::Progress;
use crate::report;
use crate::traffic::{Client, Link};
use figures::CaseResults;

/// Options of the command.
#[derive(Debug, clap::Args)]
pub struct OverheadArguments {
    /// Only these kinds and experiments, e.g. `http,udp,latency`.
    #[arg(long, value_delimiter = ',')]
    only: Vec<plan::OverheadPart>,
    /// Only these systems.
    #[arg(long, value_delimiter = ',', default_values_t = Name::ALL)]
    systems: Vec<Name>,
    /// Only these links between the two proxies, also where they are not the usual ones.
    #[arg(long, value_delimiter = ',')]
    links: Vec<Link>,
    #[command(flatten)]
    options: Options,
}

/// Runs the command.
///
/// # Errors
/// When a system cannot be installed or started, or the results cannot be written.
pub fn run(arguments: &OverheadArguments) -> Result<()> {
    let options = &arguments.options;
    let mut results = if options.show {
        CaseResults::default()
    } else {
        measure_all(arguments)?
    };

    if let Some(file) = options.earlier() {
        results = results.after(report::load(file)?);
    }
    if let Some(file) = options.later() {
        report::save(&results, file)?;
    }

    if let Some(folder) = &options.svg {
        pictures::save(&results, folder)?;
    }
    options
        .output
        .publish_page(|| page::page(&results, options.svg.is_some()))?;

    show(&format!(
        "{}\n{}",
        table::print(&results),
        table::summary_line(&results)
    ))
}

/// Provides the programs, measures, and says how it was done.
fn measure_all(arguments: &OverheadArguments) -> Result<CaseResults> {
    let programs = Programs::provide(
        &arguments.systems,
        arguments.options.output.hermes.as_deref(),
    )?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let begin = Instant::now();
    let mut results = runtime.block_on(measure(arguments, programs))?;
    results.runs.push(arguments.options.run(begin));

    Ok(results)
}

async fn measure(arguments: &OverheadArguments, programs: Programs) -> Result<CaseResults> {
    let folder = tempfile::Builder::new().prefix("hermes-lab").tempdir()?;
    let pki = Pki::create(folder.path())?;
    let client = Client::new(pki.client()?)?;
    let (origin_process, origin) = origin::start(folder.path())?;

    let around = Surroundings {
        origin,
        pki,
        folder: folder.path().to_owned(),
        programs,
        client,
    };

    let mut systems = Vec::new();
    for name in &arguments.systems {
        systems.push(System::start(*name, &around).await?);
    }

    let results = rounds(arguments, &around, &systems).await;
    // The proxies first, so that none of them complains about the origin.
    drop(systems);
    drop::<Process>(origin_process);

    Ok(results)
}

async fn rounds(
    arguments: &OverheadArguments,
    around: &Surroundings,
    systems: &[System],
) -> CaseResults {
    let cases = plan::cases(&arguments.only, &arguments.links);
    let mut results = CaseResults::default();
    let mut random = fastrand::Rng::with_seed(arguments.options.rounds.seed);
    let mut progress =
        Progress::new(arguments.options.rounds.repeats as usize * cases.len() * systems.len());

    for round in 1..=arguments.options.rounds.repeats {
        for case in &cases {
            let mut order: Vec<_> = systems.iter().collect();
            random.shuffle(&mut order);
            for system in order {
                progress.step(&format!(
                    "round {round}: {} on {}",
                    plan::spoken(*case),
                    system.name
                ));
                if let Err(error) = measure_one(
                    *case,
                    system,
                    around,
                    arguments.options.rounds.short,
                    &mut results,
                )
                .await
                {
                    results.failures.push(format!(
                        "round {round}: {} on {}: {error:#}",
                        plan::spoken(*case),
                        system.name
                    ));
                }
            }
        }
    }

    progress.end();
    results
}

async fn measure_one(
    case: Case,
    system: &System,
    around: &Surroundings,
    short: bool,
    results: &mut CaseResults,
) -> Result<()> {
    let Some(entry) = system
        .entry(case.kind, case.link)
        .filter(|_| case.experiment.suits(system.name))
    else {
        return Ok(());
    };

    let bench = Bench {
        case,
        client: &around.client,
        system,
        entry,
        origin: &around.origin,
        around,
        short,
    };

    for (figure, value) in experiment::run(&bench).await? {
        results.add(case, system.name, figure, value);
    }
    Ok(())
}
