//! The measurements of one proxy.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use super::running::RunningDecider;
use crate::report::median;
use crate::traffic::{Client, Entry};

/// Exchanges before the first that counts.
const WARM_UP: usize = 50;

/// Clients that ask at once while processor time is taken: enough to keep the proxy busy.
const CLIENTS: usize = 16;

/// How much is measured.
struct Amount {
    /// Exchanges by a client that keeps its connection.
    kept: usize,
    /// Exchanges and tunnels by new clients.
    new: usize,
    /// How long clients ask at once.
    time: Duration,
}

const LONG: Amount = Amount {
    kept: 4000,
    new: 500,
    time: Duration::from_secs(2),
};
const SHORT: Amount = Amount {
    kept: 1000,
    new: 150,
    time: Duration::from_millis(700),
};

/// The figures of one round, in microseconds.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct DecisionCost {
    /// Time of an exchange on a kept connection.
    pub kept: f64,
    /// Time of an exchange with its connection.
    pub new: f64,
    /// Time until a tunnel is open, with its connection.
    pub tunnel: f64,
    /// Processor time of an exchange on a kept connection, of all processes of the system.
    pub processor: f64,
}

/// Measures a system once.
///
/// # Errors
/// When an exchange fails: all are allowed.
pub async fn all(system: &RunningDecider, client: &Client, short: bool) -> Result<DecisionCost> {
    let amount = if short { SHORT } else { LONG };
    let entry = &system.entry;

    Ok(DecisionCost {
        kept: kept(client, entry, amount.kept).await?,
        new: new(client, entry, amount.new).await?,
        tunnel: tunnels(client, entry, amount.new).await?,
        processor: processor(system, client, amount.time).await?,
    })
}

async fn kept(client: &Client, entry: &Entry, count: usize) -> Result<f64> {
    let mut session = client.open(entry).await?;
    let mut times = Vec::with_capacity(count);
    for _ in 0..WARM_UP + count {
        let begin = Instant::now();
        session.exchange().await?;
        times.push(micros(begin));
    }
    Ok(median(&times[WARM_UP..]))
}

async fn new(client: &Client, entry: &Entry, count: usize) -> Result<f64> {
    let mut times = Vec::with_capacity(count);
    for _ in 0..WARM_UP + count {
        let begin = Instant::now();
        client.once(entry).await?;
        times.push(micros(begin));
    }
    Ok(median(&times[WARM_UP..]))
}

async fn tunnels(client: &Client, entry: &Entry, count: usize) -> Result<f64> {
    let mut times = Vec::with_capacity(count);
    for _ in 0..WARM_UP + count {
        let begin = Instant::now();
        let tunnel = client.tunnel(entry).await?;
        times.push(micros(begin));
        drop(tunnel);
    }
    Ok(median(&times[WARM_UP..]))
}

/// Processor time of an exchange while many clients ask at once.
async fn processor(system: &RunningDecider, client: &Client, time: Duration) -> Result<f64> {
    let before = system.processor_time();
    let end = Instant::now() + time;
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        clients.spawn(ask_until(client.clone(), system.entry.clone(), end));
    }

    let mut done = 0;
    while let Some(asked) = clients.join_next().await {
        done += asked??;
    }
    ensure!(done > 0, "no exchange was done");
    let used = system.processor_time().saturating_sub(before);

    Ok(used.as_secs_f64() * 1e6 / f64::from(done))
}

async fn ask_until(client: Client, entry: Entry, end: Instant) -> Result<u32> {
    let mut session = client.open(&entry).await?;
    let mut done = 0;
    while Instant::now() < end {
        session.exchange().await?;
        done += 1;
    }
    Ok(done)
}

fn micros(begin: Instant) -> f64 {
    begin.elapsed().as_secs_f64() * 1e6
}
