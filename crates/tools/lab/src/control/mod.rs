//! `hermes-lab control`: how long changes of an overlay take, and what its control plane costs.
//!
//! - `agents`: fleets of agents without a data plane, each with its own connection; `fleet`, `journal`: these agents.
//! - `controller`, `operator`: the controller, a process of its own, and requests to it. `relay`: a wire that counts.
//! - `goals`: what was promised, and what others have published.

mod agents;
mod controller;
mod fleet;
mod goals;
mod journal;
mod operator;
mod relay;

use std::time::Instant;

use anyhow::Result;
use rustix::process::geteuid;

use crate::options::Options;
use crate::peers::{Name, Programs};
use crate::progress::Progress;
use crate::report::Sheet;
use crate::topology::Namespace;
use agents::{Counts, Ground};

/// Options of the command.
#[derive(Debug, clap::Args)]
pub struct ControlArguments {
    /// Sizes of fleets of agents without a data plane.
    #[arg(long, value_delimiter = ',', default_values_t = [100, 1000, 10_000])]
    agents: Vec<usize>,
    #[command(flatten)]
    options: Options,
}

/// Changes of one node, and of all.
const LONG: Counts = Counts {
    single: 300,
    whole: 5,
};
const SHORT: Counts = Counts {
    single: 50,
    whole: 2,
};

/// Runs the command.
///
/// # Errors
/// When Hermes cannot be built, a measurement fails or the results cannot be written.
pub fn run(arguments: &ControlArguments) -> Result<()> {
    let options = &arguments.options;
    let begin = Instant::now();
    let mut sheet = Sheet::default();
    if !options.show {
        measure(arguments, &mut sheet)?;
        sheet.runs.push(options.run(begin));
    }
    sheet.publish(options, goals::HEAD, goals::of)
}

fn measure(arguments: &ControlArguments, sheet: &mut Sheet) -> Result<()> {
    let options = &arguments.options;
    let programs = Programs::provide(&[Name::Hermes], options.output.hermes.as_deref())?;
    // Without root all agents have one address, of which a controller takes few handshakes at once.
    let network = own_network()?;
    // Each agent has a descriptor, and so has its connection at the controller.
    let _ = hermes_net::os::raise_open_files();
    let ground = Ground {
        program: &programs.hermes,
        has_addresses: network.is_some(),
    };
    let counts = if options.rounds.short { SHORT } else { LONG };

    let mut progress = Progress::new(arguments.agents.len());
    for agents in &arguments.agents {
        progress.step(&format!("{agents} agents"));
        if let Err(error) = agents::measure(&ground, *agents, counts, sheet) {
            sheet.failures.push(format!("{agents} agents: {error:#}"));
        }
    }
    progress.end();
    Ok(())
}

/// A network in which a connection to an address of 127.1.0.0/16 comes from that address; `None` without root.
fn own_network() -> Result<Option<Namespace>> {
    if !geteuid().is_root() {
        return Ok(None);
    }
    let network = Namespace::new()?;
    // Without a source of its own, a route of local addresses answers from the address that was asked.
    network.ip("link set dev lo up\nroute add local 127.1.0.0/16 dev lo\n")?;
    network.enter()?;
    Ok(Some(network))
}
