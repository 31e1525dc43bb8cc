//! How many instructions a proxy takes for an exchange, outside the kernel: the same on a busy machine.
//!
//! A system of its own runs under valgrind twice, the second time with more exchanges; what these add is their cost, without that of
//! the start.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::{Bench, Measured};
use crate::peers::{Surroundings, System};
use crate::process::Process;
use crate::report::Figure;

/// Exchanges of the first run, enough that buffers have grown, and those that the second has beyond them.
const WARM: usize = 100;
const COUNTED: usize = 400;

/// How long a proxy may take to end: valgrind is slow, and counts are only told at a proper end.
const END_LIMIT: Duration = Duration::from_secs(30);

/// Who makes the exchanges.
#[derive(Clone, Copy)]
enum Clients {
    /// One, all of them.
    Kept,
    /// Each a client of its own.
    New,
}

impl Clients {
    fn name(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::New => "new",
        }
    }
}

/// Of kept exchanges and of new ones: the instructions of each proxy.
pub async fn run(bench: &Bench<'_>) -> Result<Measured> {
    let counted = Surroundings {
        programs: bench.around.programs.counted(&bench.around.folder)?,
        ..bench.around.clone()
    };

    let mut measured = Measured::new();
    for clients in [Clients::Kept, Clients::New] {
        // The difference of two runs is free of the start, of the first exchanges and of the end.
        let few = count(bench, &counted, clients, WARM).await?;
        let many = count(bench, &counted, clients, WARM + COUNTED).await?;

        for ((proxy, few), (_, many)) in few.into_iter().zip(many) {
            let name = format!("{}: {proxy}", clients.name());
            let each = many.saturating_sub(few) as f64 / COUNTED as f64;
            measured.push((Figure::less(name, "instructions each"), each));
        }
    }

    Ok(measured)
}

/// The instructions of each proxy from its start to its end, with so many exchanges between.
async fn count(
    bench: &Bench<'_>,
    counted: &Surroundings,
    clients: Clients,
    exchanges: usize,
) -> Result<Vec<(String, u64)>> {
    let system = System::start(bench.system.name, counted).await?;
    let entry = system
        .entry(bench.case.kind, bench.case.link)
        .context("no such way")?;

    match clients {
        Clients::Kept => {
            let mut session = bench.client.open(entry).await?;
            for _ in 0..exchanges {
                session.exchange().await?;
            }
        }
        Clients::New => {
            for _ in 0..exchanges {
                bench.client.once(entry).await?;
            }
        }
    }

    system.processes.into_iter().map(counted_by).collect()
}

/// Ends a proxy: its name, and the instructions of all its processes.
fn counted_by(mut process: Process) -> Result<(String, u64)> {
    process.end(END_LIMIT);

    let log = process.log();
    let instructions = sum(&log);
    ensure!(
        instructions > 0,
        "{} has counted nothing:\n{log}",
        process.name()
    );
    Ok((process.name().to_owned(), instructions))
}

/// The sum of what valgrind says for each process, as `==1== I refs: 1,234`.
fn sum(log: &str) -> u64 {
    let numbers = log.lines().filter_map(|line| {
        let (_, number) = line.split_once("refs:")?;
        number.trim().replace(',', "").parse::<u64>().ok()
    });
    numbers.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_processes_took_is_one_sum() {
        let log =
            "ready\n==7== \n==7== I refs:        1,234,567\n==8== I   refs:      33\nrefs: none\n";
        assert_eq!(sum(log), 1_234_600);
    }
}
