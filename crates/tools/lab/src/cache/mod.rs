//! `hermes-lab cache`: caches beside each other, by the rules of RFC 9111 and the cost of a hit.
//!
//! - `case`: the cases of `cases.txt`. `played`: the origin and the client of a case, and its verdict.
//! - `systems`: the caches. `trace`: requests for many objects, and for one. `page`: the results.

mod case;
mod page;
mod played;
mod systems;
mod trace;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use crate::options::OutputOptions;
use crate::peers::{Name, Programs};
use crate::report::load;
use case::CacheCase;
use played::CaseOrigin;
pub use systems::CacheSystem;
use systems::RunningCache;
use trace::{TraceCounts, TraceFigures};

/// Options of the command.
#[derive(Debug, clap::Args)]
pub struct CacheArguments {
    /// Only these caches. Default: all that are installed.
    #[arg(long, value_delimiter = ',')]
    systems: Vec<CacheSystem>,
    /// The cases of RFC 9111 alone: half a minute. What the file of `--json` has of earlier runs stays in it, and in the page.
    #[arg(long)]
    cases: bool,
    /// The costs of hits alone; so do they.
    #[arg(long, conflicts_with = "cases")]
    hits: bool,
    /// Fewer requests.
    #[arg(long)]
    short: bool,
    /// Seed of the requests.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: OutputOptions,
}

/// All results.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct CacheResults {
    systems: Vec<String>,
    cases: Vec<CacheVerdict>,
    trace: BTreeMap<String, TraceFigures>,
}

/// How the caches did in a case.
#[derive(Debug, Serialize, Deserialize)]
struct CacheVerdict {
    section: String,
    level: String,
    claim: String,
    /// By system: why it failed, if it did.
    failures: BTreeMap<String, Option<String>>,
}

/// Runs the command.
///
/// # Errors
/// When a program is missing or fails, or the results cannot be written.
pub fn run(arguments: &CacheArguments) -> Result<()> {
    let built = Programs::provide(&[Name::Hermes], arguments.output.hermes.as_deref())?;
    let hermes = built.hermes;
    let systems = match arguments.systems.is_empty() {
        false => arguments.systems.clone(),
        true => CacheSystem::installed(&hermes),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let earlier = arguments
        .output
        .json
        .as_deref()
        .filter(|file| file.is_file());
    let mut results: CacheResults = earlier.map(load).transpose()?.unwrap_or_default();
    results.systems = systems
        .iter()
        .map(|system| system.name().to_owned())
        .collect();
    if !arguments.hits {
        results.cases = runtime.block_on(play_all(&systems, &hermes))?;
    }
    if !arguments.cases {
        let counts = TraceCounts::new(arguments.short, arguments.seed);
        for system in &systems {
            let measured = runtime.block_on(trace::measure(*system, &hermes, counts));
            let measured = measured.with_context(|| system.name())?;
            results.trace.insert(system.name().to_owned(), measured);
        }
    }
    arguments.output.publish(&results)
}

/// Plays all cases through each cache, those of one cache at once.
async fn play_all(systems: &[CacheSystem], hermes: &Path) -> Result<Vec<CacheVerdict>> {
    let cases = case::cases()?;
    let mut verdicts: Vec<_> = cases
        .iter()
        .map(|case| CacheVerdict {
            section: case.section.clone(),
            level: case.level.clone(),
            claim: case.claim.clone(),
            failures: BTreeMap::new(),
        })
        .collect();
    for system in systems {
        let failures = play(*system, hermes, &cases).await;
        let failures = failures.with_context(|| system.name())?;
        for (number, failure) in failures {
            let name = system.name().to_owned();
            verdicts[number].failures.insert(name, failure);
        }
    }
    Ok(verdicts)
}

async fn play(
    system: CacheSystem,
    hermes: &Path,
    cases: &[CacheCase],
) -> Result<Vec<(usize, Option<String>)>> {
    let origin = CaseOrigin::default();
    let address = origin.listen().await?;
    let folder = tempfile::Builder::new().prefix("hermes-lab").tempdir()?;
    open_to_all(folder.path())?;
    let cache = RunningCache::start(system, hermes, folder.path(), address).await?;

    let mut playing = JoinSet::new();
    for (number, case) in cases.iter().cloned().enumerate() {
        let origin = origin.clone();
        let address = cache.address;
        playing.spawn(async move {
            let failure = origin.play(&case, number, address).await;
            // An answer that never comes is a failure of the cache, too.
            (
                number,
                failure.unwrap_or_else(|error| Some(format!("{error:#}"))),
            )
        });
    }
    Ok(playing.join_all().await)
}

/// Varnish and Squid go on as users of their own.
fn open_to_all(folder: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder, mode).with_context(|| folder.display().to_string())
}
