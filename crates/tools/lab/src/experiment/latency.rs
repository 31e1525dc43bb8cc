//! Exchanges that follow each other, one at a time.

use std::time::Instant;

use anyhow::Result;

use super::{Bench, Measured};
use crate::report::Figure;
use crate::report::median;

/// Exchanges before the first that counts.
const WARM_UP: usize = 20;

/// Exchanges by new clients and by a kept one.
struct Counts {
    new: usize,
    kept: usize,
}

const LONG: Counts = Counts {
    new: 300,
    kept: 2000,
};
const SHORT: Counts = Counts {
    new: 100,
    kept: 500,
};

/// The medians of new exchanges and of kept ones, and their cost for the proxies.
pub async fn run(bench: &Bench<'_>) -> Result<Measured> {
    let counts = if bench.short { SHORT } else { LONG };
    let mut measured = new(bench, counts.new).await?;
    measured.append(&mut kept(bench, counts.kept).await?);
    Ok(measured)
}

/// Each by a new client.
async fn new(bench: &Bench<'_>, count: usize) -> Result<Measured> {
    for _ in 0..WARM_UP {
        bench.client.once(bench.entry).await?;
    }

    let before = bench.system.processor_time();
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let begin = Instant::now();
        bench.client.once(bench.entry).await?;
        times.push(begin.elapsed().as_secs_f64() * 1e6);
    }

    let cost = bench.cost("new: proxies' time", before, count as u64);
    let time = (Figure::less("new", "us"), median(&times));
    Ok(std::iter::once(time).chain(cost).collect())
}

/// All by one client.
async fn kept(bench: &Bench<'_>, count: usize) -> Result<Measured> {
    let mut session = bench.client.open(bench.entry).await?;
    for _ in 0..WARM_UP {
        session.exchange().await?;
    }

    let before = bench.system.processor_time();
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let begin = Instant::now();
        session.exchange().await?;
        times.push(begin.elapsed().as_secs_f64() * 1e6);
    }

    let cost = bench.cost("kept: proxies' time", before, count as u64);
    let time = (Figure::less("kept", "us"), median(&times));
    Ok(std::iter::once(time).chain(cost).collect())
}
