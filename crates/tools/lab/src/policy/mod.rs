//! `hermes-lab policy`: what a decision costs, beside OPA, Envoy's RBAC and Envoy with OPA's plugin.
//!
//! Every system is one proxy between the client and the origin. Each was started twice or more: without a decision, which is
//! what its others are compared with, and with rules or a policy that allow what the client does.

mod build;
mod decider;
mod envoy;
mod hermes;
mod measure;
mod report;
mod rules;

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::origin;
use crate::peers::{Programs, Surroundings};
use crate::pki::Pki;
use crate::process::Process;
use crate::progress::Progress;
use crate::report::Run;
use crate::traffic::Client;

use build::MeasuredBuild;
pub use decider::Decider;
use decider::RunningDecider;
use report::Decisions;

/// Options of the command.
#[derive(Debug, clap::Args)]
pub struct PolicyArguments {
    /// Only these systems.
    #[arg(long, value_delimiter = ',', default_values_t = Decider::ALL)]
    systems: Vec<Decider>,
    /// Fewer and shorter measurements: more scatter.
    #[arg(long)]
    short: bool,
    /// Rounds; every figure is the median of this many.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeats: u32,
    /// Seed of the order in each round.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the results to this file.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Write a page of documentation to this file.
    #[arg(long)]
    markdown: Option<PathBuf>,
    /// Measure this build of Hermes instead of building one.
    #[arg(long)]
    hermes: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// When a system cannot be installed or started, or the results cannot be written.
pub fn run(arguments: &PolicyArguments) -> Result<()> {
    let begin = Instant::now();
    let programs = Programs::provide_for_policy(arguments.hermes.as_deref())?;
    let build = MeasuredBuild::of(&programs.hermes)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut decisions = runtime.block_on(measure_all(arguments, programs))?;
    decisions.build = Some(build);
    decisions.run = Some(Run {
        command: crate::options::spoken(std::env::args().skip(1)),
        seed: arguments.seed,
        machine: crate::options::machine(),
        seconds: begin.elapsed().as_secs_f64(),
    });

    if let Some(file) = &arguments.json {
        let text = serde_json::to_string_pretty(&decisions)?;
        fs::write(file, text + "\n").with_context(|| file.display().to_string())?;
    }
    if let Some(file) = &arguments.markdown {
        fs::write(file, decisions.page()).with_context(|| file.display().to_string())?;
    }

    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", decisions.print()).context("standard output")
}

async fn measure_all(arguments: &PolicyArguments, programs: Programs) -> Result<Decisions> {
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
    for decider in &arguments.systems {
        systems.push(RunningDecider::start(*decider, &around).await?);
    }

    let decisions = rounds(arguments, &around, &systems).await?;
    // The proxies first, so that none of them complains about the origin.
    drop(systems);
    drop::<Process>(origin_process);

    Ok(decisions)
}

/// Measures all systems in turn, in another order each round.
async fn rounds(
    arguments: &PolicyArguments,
    around: &Surroundings,
    systems: &[RunningDecider],
) -> Result<Decisions> {
    let mut decisions = Decisions::default();
    let mut random = fastrand::Rng::with_seed(arguments.seed);
    let mut progress = Progress::new(arguments.repeats as usize * systems.len());

    for round in 1..=arguments.repeats {
        let mut order: Vec<_> = systems.iter().collect();
        random.shuffle(&mut order);
        for system in order {
            progress.step(&format!("round {round}: {}", system.decider));
            let measured = measure::all(system, &around.client, arguments.short).await;
            let measured = measured.with_context(|| system.decider.to_string())?;
            decisions.add(system.decider, measured);
        }
    }

    progress.end();
    Ok(decisions)
}
