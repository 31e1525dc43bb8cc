//! Memory of tunnels, or of connections that carry requests, in which nothing happens.

use std::time::Duration;

use anyhow::{Context, Result};

use super::{Bench, Measured};
use crate::peers::System;
use crate::report::Figure;

/// Tunnels, and how long they stay idle.
const LONG: (usize, Duration) = (9000, Duration::from_secs(30));
const SHORT: (usize, Duration) = (1000, Duration::from_secs(3));

/// Exchanges of each: a client of UDP that got one answer is taken to be done soon, and one that asks again is not.
const EXCHANGES: usize = 3;

/// The memory that each adds to both proxies, on a system of its own. Connections that carry requests are idle at the first one only.
pub async fn run(bench: &Bench<'_>) -> Result<Measured> {
    let (count, idle) = if bench.short { SHORT } else { LONG };
    let system = System::start(bench.system.name, bench.around).await?;
    let entry = system
        .entry(bench.case.kind, bench.case.link)
        .context("no such way")?;
    let before = system.memory();
    let mut sessions = Vec::with_capacity(count);

    for number in 0..count {
        let opened = async {
            let mut session = bench.client.open(entry).await?;
            for _ in 0..EXCHANGES {
                session.exchange().await?;
            }
            Ok::<_, anyhow::Error>(session)
        };
        sessions.push(opened.await.with_context(|| format!("tunnel {number}"))?);
    }

    tokio::time::sleep(idle).await;
    let grown = system.memory().saturating_sub(before);
    Ok(vec![(
        Figure::less("memory", "kB each"),
        grown as f64 / count as f64 / 1e3,
    )])
}
