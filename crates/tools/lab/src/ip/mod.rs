//! `hermes-lab ip`: IP packets through a tunnel, beside VPNs in user space and a bound, in networks of namespaces.
//!
//! All systems run at once, each in a network of its own, and are measured by turns, in another order each round. It needs root.
//!
//! Hermes sends each packet by itself, over HTTP/2 and HTTP/3, or super-packets between ends that agreed on them, to one to four nodes.

pub mod copier;
mod hermes;
mod measure;
mod network;
pub(crate) mod ping;
mod report;
mod system;
mod wireguard;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::options::{OutputOptions, RoundOptions};
use crate::peers::{Name, Programs};
use crate::pki::Pki;
use crate::progress::Progress;
use crate::report::Run;
use crate::traffic::Client;
use report::IpResults;
use system::RunningIp;

pub use system::IpSystem;

/// Options of the command.
#[derive(Debug, clap::Args)]
pub struct IpArguments {
    /// Only these systems.
    #[arg(long, value_delimiter = ',', default_values_t = IpSystem::ALL)]
    systems: Vec<IpSystem>,
    /// What each cable carries in each direction, in Mbit/s, such as 1000. Without it, what the machine can.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    /// The folder where `./test install` has built the peers; without it they are installed.
    #[arg(long, env = "HERMES_PEERS")]
    peers: Option<PathBuf>,
    #[command(flatten)]
    rounds: RoundOptions,
    #[command(flatten)]
    output: OutputOptions,
}

/// Runs the command.
///
/// # Errors
/// When a system cannot be installed or started, or the results cannot be written. Those of all other systems are shown and written before.
pub fn run(arguments: &IpArguments) -> Result<()> {
    let begin = Instant::now();
    let mut results = measure_all(arguments)?;
    results.run = Some(Run::since(begin, arguments.rounds.seed));

    arguments.output.publish(&results)?;
    let failed = results.failures.len();
    ensure!(failed == 0, "{failed} measurements failed; see above");
    Ok(())
}

/// The programs of these systems.
fn programs(arguments: &IpArguments) -> Result<Programs> {
    let systems = &arguments.systems;
    let mut wanted = Vec::new();
    if systems.iter().any(|system| system.has_hermes()) {
        wanted.push(Name::Hermes);
    }
    let is_peer = |system: &IpSystem| {
        use IpSystem::{Boringtun, ConnectIpGo, HermesWireguard, WireguardGo};
        matches!(
            system,
            WireguardGo | Boringtun | HermesWireguard | ConnectIpGo
        )
    };
    let peers = arguments.peers.as_ref();
    if peers.is_none() && systems.iter().any(is_peer) {
        // All peers are installed at once.
        wanted.push(Name::Envoy);
    }

    let mut programs = Programs::provide(&wanted, arguments.output.hermes.as_deref())?;
    if let Some(folder) = peers {
        programs.built(folder);
    }
    Ok(programs)
}

fn measure_all(arguments: &IpArguments) -> Result<IpResults> {
    let programs = programs(arguments)?;
    let folder = tempfile::Builder::new().prefix("hermes-lab").tempdir()?;
    let client = Client::new(Pki::create(folder.path())?.client()?)?;

    let mut running = Vec::new();
    for system in &arguments.systems {
        let started = RunningIp::start(*system, &programs, folder.path(), arguments.rate);
        running.push(started.with_context(|| system.to_string())?);
    }

    let mut results = IpResults::default();
    let mut random = fastrand::Rng::with_seed(arguments.rounds.seed);
    let mut progress = Progress::new(arguments.rounds.repeats as usize * running.len());
    for round in 1..=arguments.rounds.repeats {
        let mut order: Vec<_> = running.iter().collect();
        random.shuffle(&mut order);
        for system in order {
            let what = format!("round {round}: {}", system.system);
            progress.step(&what);
            let measure = || measure::all(system, &client, arguments.rounds.short);
            let measured = match measure() {
                // A run that a peer breaks off is repeated, as it gives no figure; one that Hermes breaks off has failed.
                Err(_) if !system.system.has_hermes() => measure(),
                measured => measured,
            };
            match measured {
                Ok(measured) => results.systems.add(system.system, measured),
                Err(error) => results.failures.push(format!("{what}: {error:#}")),
            }
        }
    }

    progress.end();
    Ok(results)
}
