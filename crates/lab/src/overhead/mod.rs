//! `hermes-lab overhead`: what a pair of proxies costs, measured on several systems in one run.

mod plan;

use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::experiment::{Bench, Case, Experiment};
use crate::origin;
use crate::peers::{Name, Programs, Surroundings, System};
use crate::pki::Pki;
use crate::process::Process;
use crate::progress::Progress;
use crate::report::{self, Results, Run};
use crate::traffic::{Client, Link};

/// Options of the command.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Only these kinds and experiments, e.g. `http,udp,latency`.
    #[arg(long, value_delimiter = ',')]
    only: Vec<plan::Part>,
    /// Only these systems.
    #[arg(long, value_delimiter = ',', default_values_t = Name::ALL)]
    systems: Vec<Name>,
    /// Only these links between the two proxies, also where they are not the usual ones.
    #[arg(long, value_delimiter = ',')]
    links: Vec<Link>,
    /// Fewer and shorter measurements: more scatter.
    #[arg(long)]
    short: bool,
    /// Rounds; every figure is the median of so many.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeats: u32,
    /// Seed of the order in each round.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the results to this file. Cases that it has from earlier runs stay in it, and in the report.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Write a picture for each experiment to this folder.
    #[arg(long)]
    svg: Option<PathBuf>,
    /// Write a page of documentation to this file; it shows the pictures if they are in the same folder.
    #[arg(long)]
    markdown: Option<PathBuf>,
    /// Measure nothing: show what the file of `--json` has.
    #[arg(long, requires = "json")]
    show: bool,
    /// Measure this build of Hermes instead of building one.
    #[arg(long)]
    hermes: Option<PathBuf>,
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
pub fn run(arguments: &Arguments) -> Result<()> {
    let mut results = if arguments.show { Results::default() } else { measure_all(arguments)? };
    if let Some(file) = arguments.json.as_ref().filter(|file| arguments.show || file.exists()) {
        results = results.after(report::load(file)?);
    }
    if let Some(file) = arguments.json.as_ref().filter(|_| !arguments.show) {
        report::save(&results, file)?;
    }
    if let Some(folder) = &arguments.svg {
        report::svg::save(&results, folder)?;
    }
    if let Some(file) = &arguments.markdown {
        std::fs::write(file, report::page(&results, arguments.svg.is_some()))
            .with_context(|| file.display().to_string())?;
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}\n{}", report::print(&results), report::summary_line(&results)).context("standard output")
}

/// Options whose values are files: of no interest to whoever reads the figures.
const FILES: [&str; 4] = ["--json", "--svg", "--markdown", "--hermes"];

/// The arguments, without those that name files.
fn spoken(arguments: impl Iterator<Item = String>) -> String {
    let (mut words, mut arguments) = (Vec::new(), arguments);
    while let Some(word) = arguments.next() {
        match word.split_once('=') {
            Some((option, _)) if FILES.contains(&option) => {}
            None if FILES.contains(&word.as_str()) => drop(arguments.next()),
            _ => words.push(word),
        }
    }
    words.join(" ")
}

/// Provides the programs, measures, and says how it was done.
fn measure_all(arguments: &Arguments) -> Result<Results> {
    let programs = Programs::provide(&arguments.systems, arguments.hermes.as_deref())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let begin = Instant::now();
    let mut results = runtime.block_on(measure(arguments, programs))?;
    results.runs.push(Run {
        command: spoken(std::env::args().skip(1)),
        seed: arguments.seed,
        machine: machine(),
        seconds: begin.elapsed().as_secs_f64(),
    });
    Ok(results)
}

async fn measure(arguments: &Arguments, programs: Programs) -> Result<Results> {
    let folder = tempfile::Builder::new().prefix("hermes-lab").tempdir()?;
    let pki = Pki::create(folder.path())?;
    let client = Client::new(pki.client()?)?;
    let (origin_process, origin) = origin::start(folder.path())?;
    let around = Surroundings { origin, pki, folder: folder.path().to_owned(), programs, client };
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

async fn rounds(arguments: &Arguments, around: &Surroundings, systems: &[System]) -> Results {
    let cases = plan::cases(&arguments.only, &arguments.links);
    let mut results = Results::default();
    let mut random = fastrand::Rng::with_seed(arguments.seed);
    let mut progress = Progress::new(arguments.repeats as usize * cases.len() * systems.len());
    for round in 1..=arguments.repeats {
        for case in &cases {
            let mut order: Vec<_> = systems.iter().collect();
            random.shuffle(&mut order);
            for system in order {
                progress.step(&format!("round {round}: {} on {}", plan::spoken(*case), system.name));
                if let Err(error) = measure_one(*case, system, around, arguments.short, &mut results).await {
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
    let Some(entry) = system.entry(case.kind, case.link).filter(|_| case.experiment.suits(system.name)) else {
        return Ok(());
    };
    let bench = Bench { case, client: &around.client, system, entry, origin: &around.origin, around, short };
    for (figure, value) in Experiment::run(case.experiment, &bench).await? {
        results.add(case, system.name, figure, value);
    }
    Ok(())
}

/// Processors and kernel, for whoever reads the figures later.
pub fn machine() -> String {
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{processors} processors, Linux {}", kernel.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_told_without_its_files() {
        let words = ["overhead", "--short", "--json", "a/b.json", "--only", "udp", "--svg=x/y"];
        assert_eq!(spoken(words.map(str::to_owned).into_iter()), "overhead --short --only udp");
    }
}
