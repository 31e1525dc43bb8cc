//! Exchanges that follow each other, one at a time.

use std::time::Instant;

use anyhow::Result;

use super::{Bench, Figure, Measured};
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

/// The median of new exchanges, and that of kept ones.
pub async fn run(bench: &Bench<'_>) -> Result<Measured> {
    let counts = if bench.short { SHORT } else { LONG };
    let mut new = Vec::with_capacity(counts.new);
    for _ in 0..WARM_UP + counts.new {
        let begin = Instant::now();
        bench.client.once(bench.entry).await?;
        new.push(begin.elapsed().as_secs_f64() * 1e6);
    }

    let mut session = bench.client.open(bench.entry).await?;
    let mut kept = Vec::with_capacity(counts.kept);
    for _ in 0..WARM_UP + counts.kept {
        let begin = Instant::now();
        session.exchange().await?;
        kept.push(begin.elapsed().as_secs_f64() * 1e6);
    }

    Ok(vec![
        (Figure::less("new", "us"), median(&new[WARM_UP..])),
        (Figure::less("kept", "us"), median(&kept[WARM_UP..])),
    ])
}
