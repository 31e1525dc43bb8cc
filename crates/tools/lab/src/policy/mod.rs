//! `hermes-lab policy`: what a decision costs, beside OPA, Envoy's RBAC and Envoy with OPA's plugin.
//!
//! Every system is one proxy between the client and the origin. Each was started twice or more: without a decision, which is
//! what its others are compared with, and with rules or a policy that allow what the client does.

mod build;
mod decider;
mod envoy;
mod hermes;
mod launch;
mod measure;
mod report;
mod rules;
mod running;

use std::time::Instant;

use anyhow::{Context, Result};

use crate::options::{OutputOptions, RoundOptions};
use crate::origin;
use crate::peers::{Programs, Surroundings};
use crate::pki::Pki;
use crate::process::Process;
use crate::progress::Progress;
use crate::report::Run;
use crate::traffic::Client;

use build::MeasuredBuild;
pub use decider::Decider;
use report::Decisions;
use running::RunningDecider;

/// Options of the command.
#[derive(Debug, clap::Args)]
pub struct PolicyArguments {
    /// Only these systems.
    #[arg(long, value_delimiter = ',', default_values_t = Decider::ALL)]
    systems: Vec<Decider>,
    #[command(flatten)]
    rounds: RoundOptions,
    #[command(flatten)]
    output: OutputOptions,
}

/// Runs the command.
///
/// # Errors
/// When a system cannot be installed or started, or the results cannot be written.
pub fn run(arguments: &PolicyArguments) -> Result<()> {
    let begin = Instant::now();
    let programs = Programs::provide_for_policy(arguments.output.hermes.as_deref())?;
    let build = MeasuredBuild::of(&programs.hermes)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut decisions = runtime.block_on(measure_all(arguments, programs))?;
    decisions.build = Some(build);
    decisions.run = Some(Run::since(begin, arguments.rounds.seed));

    arguments.output.publish(&decisions)
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
    let mut random = fastrand::Rng::with_seed(arguments.rounds.seed);
    let mut progress = Progress::new(arguments.rounds.repeats as usize * systems.len());

    for round in 1..=arguments.rounds.repeats {
        let mut order: Vec<_> = systems.iter().collect();
        random.shuffle(&mut order);
        for system in order {
            progress.step(&format!("round {round}: {}", system.decider));
            let measured = measure::all(system, &around.client, arguments.rounds.short).await;
            let measured = measured.with_context(|| system.decider.to_string())?;
            decisions.systems.add(system.decider, measured);
        }
    }

    progress.end();
    Ok(decisions)
}
