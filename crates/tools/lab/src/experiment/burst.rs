//! Many clients at once, each with one exchange.

use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::task::JoinSet;

use super::{Bench, Measured};
use crate::report::Figure;

/// Clients of each burst.
const LONG: &[usize] = &[200, 400, 600, 800, 1000];
const SHORT: &[usize] = &[200, 1000];
/// Between two bursts, so that connections that end do not disturb the next one.
const REST: Duration = Duration::from_millis(100);

/// The time until the last client has its answer, for each number of clients; and how many exchanges failed in all.
pub async fn run(bench: &Bench<'_>) -> Result<Measured> {
    // Opens the link between the proxies, which the first burst would pay for otherwise.
    bench.client.once(bench.entry).await?;
    let mut measured = Vec::new();
    let mut failed = 0;

    for clients in if bench.short { SHORT } else { LONG } {
        tokio::time::sleep(REST).await;
        let begin = Instant::now();
        let mut tasks = JoinSet::new();

        // Each client has a task, and all of them are there before the first is polled: the runtime has one thread.
        for _ in 0..*clients {
            let client = bench.client.clone();
            let entry = bench.entry.clone();
            tasks.spawn(async move { client.once(&entry).await });
        }

        let done = tasks.join_all().await;
        let time = begin.elapsed().as_secs_f64() * 1e3;
        failed += done.iter().filter(|done| done.is_err()).count();
        measured.push((Figure::less(format!("{clients} clients"), "ms"), time));
    }

    measured.push((Figure::less("failures", "exchanges"), failed as f64));
    Ok(measured)
}
