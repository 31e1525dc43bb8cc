//! `hermes-lab socks`: Hermes beside dante, sing-box and microsocks, as proxies of SOCKS5 and, where it is spoken, SOCKS6.
//!
//! - `client`: handshakes by hand, one message a write. `systems`: the proxies, one process each.
//! - `measure`: new connections, a thousand at once, bulk, processor time, memory.
//! - `trips`: round trips, counted over links that take so long that nothing else counts.
//! - `goals`: what was promised, and the paper's formulas. `plot`: the picture.

pub(crate) mod client;
mod goals;
mod measure;
mod plot;
mod systems;
mod trips;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::geteuid;

use crate::options::Options;
use crate::origin;
use crate::peers::{Name, Programs};
use crate::pki::Pki;
use crate::progress::Progress;
use crate::report::{Sheet, draw_bars};
use measure::{Measuring, SocksCounts};
use systems::{RunningSocks, SocksPrograms, SocksSystem};

/// Options of the command.
#[derive(Debug, clap::Args)]
pub struct SocksArguments {
    /// Only these systems.
    #[arg(long, value_delimiter = ',', default_values_t = SocksSystem::ALL)]
    systems: Vec<SocksSystem>,
    /// sing-box 1.14.1; found by `PATH` where it is not named.
    #[arg(long, env = "HERMES_SING_BOX", default_value = "sing-box")]
    sing_box: PathBuf,
    #[command(flatten)]
    options: Options,
}

const LONG: SocksCounts = SocksCounts {
    new: 2000,
    at_once: 1000,
    flows: 8,
    bulk: Duration::from_secs(3),
};

const SHORT: SocksCounts = SocksCounts {
    new: 200,
    at_once: 1000,
    flows: 8,
    bulk: Duration::from_millis(500),
};

/// Runs the command.
///
/// # Errors
/// When a program is missing, a measurement fails or the results cannot be written.
pub fn run(arguments: &SocksArguments) -> Result<()> {
    let options = &arguments.options;
    let sheet = options.measured(|sheet| measure_all(arguments, sheet))?;
    if let Some(folder) = &options.svg {
        let systems = SocksSystem::ALL.map(SocksSystem::name);
        draw_bars(&sheet, &systems, &plot::PANELS, &folder.join("socks.svg"))?;
    }
    sheet.publish(options, goals::HEAD, goals::of)
}

fn measure_all(arguments: &SocksArguments, sheet: &mut Sheet) -> Result<()> {
    let options = &arguments.options;
    let built = Programs::provide(&[Name::Hermes], options.output.hermes.as_deref())?;
    let programs = SocksPrograms {
        hermes: built.hermes,
        sing_box: arguments.sing_box.clone(),
    };
    // Each connection of a burst has two descriptors here.
    let _ = hermes_net::os::raise_open_files();
    let counts = if options.rounds.short { SHORT } else { LONG };
    let folder = tempfile::Builder::new().prefix("hermes-lab").tempdir()?;
    Pki::create(folder.path())?;
    let (server, addresses) = origin::start(folder.path())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;

    let mut random = fastrand::Rng::with_seed(options.rounds.seed);
    let steps = options.rounds.repeats as usize * arguments.systems.len();
    let mut progress = Progress::new(steps);
    for round in 1..=options.rounds.repeats {
        let mut order = arguments.systems.clone();
        random.shuffle(&mut order);
        for system in order {
            progress.step(&format!("round {round}: {system}"));
            // One at a time, and anew for each round: memory is that of a fresh process.
            let measured =
                RunningSocks::start(system, &programs, folder.path()).and_then(|running| {
                    let measuring = Measuring {
                        running: &running,
                        origin: addresses.tcp,
                        counts,
                        sheet,
                    };
                    runtime.block_on(measuring.all())
                });
            if let Err(error) = measured.with_context(|| system.to_string()) {
                sheet.failures.push(format!("{error:#}"));
            }
        }
    }
    progress.end();
    drop(server);

    if !geteuid().is_root() {
        sheet
            .failures
            .push("round trips need root, and were not counted".to_owned());
        return Ok(());
    }
    trips::count(&arguments.systems, &programs, folder.path(), sheet)
}
