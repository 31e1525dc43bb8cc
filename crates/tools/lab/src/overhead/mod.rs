//! `hermes-lab overhead`: what a pair of proxies costs, measured on several systems in one run.

mod plan;

use std::io::Write;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::experiment::{Bench, Case, Experiment};
use crate::options::Options;
use crate::origin;
use crate::peers::{Name, Programs, Surroundings, System};
use crate::pki::Pki;
use crate::process::Process;
use crate::progress::Progress;
use crate::report::{self, Results};
use crate::traffic::{Client, Link};

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

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.text())
    }
}

/// Runs the command.
///
/// # Errors
/// When a system cannot be installed or started, or the results cannot be written.
pub fn run(arguments: &OverheadArguments) -> Result<()> {
    let options = &arguments.options;
    let mut results = if options.show {
        Results::default()
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
        report::svg::save(&results, folder)?;
    }
    if let Some(file) = &options.markdown {
        std::fs::write(file, report::page(&results, options.svg.is_some()))
            .with_context(|| file.display().to_string())?;
    }

    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{}\n{}",
        report::print(&results),
        report::summary_line(&results)
    )
    .context("standard output")
}

/// Provides the programs, measures, and says how it was done.
fn measure_all(arguments: &OverheadArguments) -> Result<Results> {
    let programs = Programs::provide(&arguments.systems, arguments.options.hermes.as_deref())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let begin = Instant::now();
    let mut results = runtime.block_on(measure(arguments, programs))?;
    results.runs.push(arguments.options.run(begin));

    Ok(results)
}

async fn measure(arguments: &OverheadArguments, programs: Programs) -> Result<Results> {
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
) -> Results {
    let cases = plan::cases(&arguments.only, &arguments.links);
    let mut results = Results::default();
    let mut random = fastrand::Rng::with_seed(arguments.options.seed);
    let mut progress =
        Progress::new(arguments.options.repeats as usize * cases.len() * systems.len());

    for round in 1..=arguments.options.repeats {
        for case in &cases {
            let mut order: Vec<_> = systems.iter().collect();
            random.shuffle(&mut order);
            for system in order {
                progress.step(&format!(
                    "round {round}: {} on {}",
                    plan::spoken(*case),
                    system.name
                ));
                if let Err(error) =
                    measure_one(*case, system, around, arguments.options.short, &mut results).await
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
    results: &mut Results,
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

    for (figure, value) in Experiment::run(case.experiment, &bench).await? {
        results.add(case, system.name, figure, value);
    }
    Ok(())
}
