//! The time of a start, and the memory of a proxy before its first exchange.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::{Bench, Measured};
use crate::peers::{Name, System};
use crate::report::Figure;

/// Between two looks whether it answers.
const STEP: Duration = Duration::from_micros(500);
/// How long a start may take.
const LIMIT: Duration = Duration::from_secs(20);
/// Until memory is looked at.
const REST: Duration = Duration::from_secs(1);

/// Of a pair of its own: time to the first answer through both; memory of one proxy; size of its program.
pub async fn run(bench: &Bench<'_>) -> Result<Measured> {
    let begin = Instant::now();
    let system = System::launch(bench.system.name, bench.around)?;
    let entry = system
        .entry(bench.case.kind, bench.case.link)
        .context("no such way")?;

    while let Err(error) = bench.client.once(entry).await {
        if begin.elapsed() > LIMIT {
            bail!(error.context("it does not start"));
        }
        tokio::time::sleep(STEP).await;
    }

    let time = begin.elapsed().as_secs_f64() * 1e3;
    tokio::time::sleep(REST).await;
    // Pages that a start touches count, also those that the two processes share.
    let memory = system.resident() as f64 / system.processes.len() as f64;
    let mut measured = vec![(Figure::less("start", "ms"), time)];
    measured.push((Figure::less("memory", "MB"), memory / 1e6));

    if let Some(process) = system
        .processes
        .first()
        .filter(|_| system.name != Name::Null)
    {
        measured.push((
            Figure::less("program", "MB"),
            process.program_size() as f64 / 1e6,
        ));
    }

    Ok(measured)
}
