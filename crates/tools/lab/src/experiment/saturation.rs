//! As many exchanges as the machine does.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::task::JoinSet;

use super::{Bench, Measured};
use crate::report::Figure;
use crate::traffic::{Client, Entry, Kind};

/// Clients that always have one exchange open.
const CLIENTS: usize = 64;
/// How long they go on.
const LONG: Duration = Duration::from_secs(2);
const SHORT: Duration = Duration::from_millis(500);

/// Exchanges a second, the cost of each for the proxies, and the failures. A client of HTTP keeps its connection; others are new each time.
pub async fn run(bench: &Bench<'_>) -> Result<Measured> {
    let time = if bench.short { SHORT } else { LONG };
    let mut tasks = JoinSet::new();
    let before = bench.system.processor_time();
    let begin = Instant::now();

    for _ in 0..CLIENTS {
        tasks.spawn(go_on(
            bench.client.clone(),
            bench.entry.clone(),
            begin + time,
        ));
    }

    let counts = tasks.join_all().await;
    let seconds = begin.elapsed().as_secs_f64();
    let done: u32 = counts.iter().map(|count| count.0).sum();
    let cost = bench.cost("proxies' time", before, done.into());
    let failed: u32 = counts.iter().map(|count| count.1).sum();
    ensure!(done > 0, "no exchange was done, {failed} failed");

    let rate = (
        Figure::more("rate", "exchanges/s"),
        f64::from(done) / seconds,
    );
    let failures = (Figure::less("failures", "exchanges"), f64::from(failed));
    Ok([rate].into_iter().chain(cost).chain([failures]).collect())
}

/// Exchanges of one client until `end`: done and failed.
async fn go_on(client: Client, entry: Entry, end: Instant) -> (u32, u32) {
    let mut done = 0;
    let mut failed = 0;
    while Instant::now() < end {
        let ended = if entry.kind == Kind::Http {
            keep(&client, &entry, end, &mut done).await
        } else {
            client.once(&entry).await.inspect(|()| done += 1)
        };
        failed += u32::from(ended.is_err());
    }

    (done, failed)
}

async fn keep(client: &Client, entry: &Entry, end: Instant, done: &mut u32) -> Result<()> {
    let mut session = client.open(entry).await?;
    while Instant::now() < end {
        session.exchange().await?;
        *done += 1;
    }
    Ok(())
}
