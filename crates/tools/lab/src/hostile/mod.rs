//! `hermes-lab hostile`: what attacks cost a node with its defaults, and a bystander on it.
//!
//! The attacks are those of the step `hostile` of `./test`, which asserts what this measures.

mod bystander;
mod forged_handshakes;
mod garbled_hellos;
mod measure;
mod place;
mod repeated_hellos;
mod report;

use std::io::Write;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use hermes_harness::attacks::{self, Attack};
use hermes_harness::program;

use crate::options::OutputOptions;
use crate::peers::{Name, Programs};
use crate::progress::Progress;
use crate::report::Run;

use report::AttackCosts;

/// Options of the command.
#[derive(Debug, clap::Args)]
pub struct HostileArguments {
    /// Only these attacks; all by default.
    #[arg(long, value_delimiter = ',')]
    attacks: Vec<String>,
    /// Times that each attack is run; every figure is the median.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeats: u32,
    /// List the attacks.
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    output: OutputOptions,
}

/// Runs the command.
///
/// # Errors
/// When Hermes cannot be built, an attack is unknown, a promise is broken or the results cannot be written.
pub fn run(arguments: &HostileArguments) -> Result<()> {
    let mut out = std::io::stdout().lock();
    if arguments.list {
        for attack in all() {
            writeln!(
                out,
                "{:20} {:9} {}",
                attack.name,
                attack.by.to_string(),
                attack.summary
            )?;
        }
        return Ok(());
    }

    let mut chosen = chosen(&arguments.attacks)?;
    let begin = Instant::now();
    let programs = Programs::provide(&[Name::Hermes], arguments.output.hermes.as_deref())?;
    program::choose(programs.hermes);
    let namespace = place::leave()?;
    if namespace.is_none() {
        for attack in place::without_devices(&mut chosen) {
            writeln!(out, "not run, it needs root: {}", attack.name)?;
        }
    }
    let mut outcomes = measure_all(&chosen, arguments.repeats)?;
    outcomes.run = Some(Run::since(begin, 0));

    arguments.output.publish(&outcomes)?;
    let broken = outcomes.broken();
    ensure!(broken.is_empty(), "{}", broken.join("\n"));
    Ok(())
}

/// The attacks of the harness, and those that speak with the machines of our protocols.
fn all() -> impl Iterator<Item = &'static Attack> {
    attacks::ALL.iter().chain([
        &garbled_hellos::GARBLED,
        &repeated_hellos::REPEATED,
        &forged_handshakes::STRANGERS,
    ])
}

fn chosen(names: &[String]) -> Result<Vec<&'static Attack>> {
    let find = |name: &String| {
        let known = all().find(|attack| attack.name == name);
        known.with_context(|| format!("there is no attack `{name}`; --list names them"))
    };

    if names.is_empty() {
        return Ok(all().collect());
    }
    names.iter().map(find).collect()
}

fn measure_all(chosen: &[&'static Attack], repeats: u32) -> Result<AttackCosts> {
    let mut outcomes = AttackCosts::default();
    let mut progress = Progress::new(chosen.len() * repeats as usize);
    for round in 1..=repeats {
        for attack in chosen {
            progress.step(&format!("round {round}: {}", attack.name));
            let outcome = measure::one(attack).with_context(|| attack.name)?;
            outcomes.add(attack, outcome);
        }
    }

    progress.end();
    Ok(outcomes)
}
