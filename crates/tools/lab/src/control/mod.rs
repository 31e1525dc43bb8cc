//! `hermes-lab control`: how long changes of an overlay take, and what its control plane costs.
//!
//! - `agents`: fleets of agents without a data plane, each with its own connection; `fleet`, `journal`: these agents.
//! - `nodes`: real nodes whose tunnels end, whose exchanges go on, and whose agents take memory; `paced`: these exchanges.
//! - `controller`, `operator`: the controller, a process of its own, and requests to it. `relay`: a wire that counts.
//! - `goals`: what was promised, and what others have published. `plot`: the picture.

mod agents;
mod controller;
mod fleet;
mod goals;
mod journal;
mod nodes;
mod operator;
mod paced;
mod plot;
mod relay;

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use rustix::process::geteuid;

use crate::options::Options;
use crate::peers::{Name, Programs};
use crate::progress::Progress;
use crate::report::Sheet;
use crate::topology::Namespace;
use agents::{ChangeCounts, Ground};
use nodes::RealCounts;

/// Options of the command.
#[derive(Debug, clap::Args)]
pub struct ControlArguments {
    /// Sizes of fleets of agents without a data plane.
    #[arg(long, value_delimiter = ',', default_values_t = [100, 1000, 10_000])]
    agents: Vec<usize>,
    /// Measure no real nodes.
    #[arg(long)]
    agents_only: bool,
    #[command(flatten)]
    options: Options,
}

/// Changes of one node, and of all.
const LONG: ChangeCounts = ChangeCounts {
    single: 300,
    whole: 5,
};
const SHORT: ChangeCounts = ChangeCounts {
    single: 50,
    whole: 2,
};

const REAL_LONG: RealCounts = RealCounts {
    revoked: 30,
    pairs: 10,
    footprints: 5,
    time: Duration::from_secs(5),
};
const REAL_SHORT: RealCounts = RealCounts {
    revoked: 5,
    pairs: 2,
    footprints: 1,
    time: Duration::from_secs(2),
};

/// Runs the command.
///
/// # Errors
/// When Hermes cannot be built, a measurement fails or the results cannot be written.
pub fn run(arguments: &ControlArguments) -> Result<()> {
    let options = &arguments.options;
    let sheet = options.measured(|sheet| measure(arguments, sheet))?;
    if let Some(folder) = &options.svg {
        plot::draw(&sheet, folder)?;
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
    match arguments.agents_only {
        true => Ok(()),
        false => measure_nodes(&programs.hermes, options, sheet),
    }
}

fn measure_nodes(program: &Path, options: &Options, sheet: &mut Sheet) -> Result<()> {
    hermes_harness::program::choose(program.to_owned());
    let counts = if options.rounds.short {
        REAL_SHORT
    } else {
        REAL_LONG
    };
    let mut progress = Progress::new(3);
    let mut step = |name: &str, measure: &dyn Fn(&mut Sheet) -> Result<()>| {
        progress.step(name);
        if let Err(error) = measure(sheet) {
            sheet.failures.push(format!("{name}: {error:#}"));
        }
    };
    step("revoked tunnels", &|sheet| nodes::revoke(counts, sheet));
    step("exchanges under changes", &|sheet| {
        nodes::update(counts, sheet)
    });
    step("memory of the agent", &|sheet| {
        nodes::footprint(program, counts, sheet)
    });
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
