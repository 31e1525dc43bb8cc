//! The highest rate of datagrams of which at most one in a hundred is lost.

use std::time::Duration;

use anyhow::Result;

use super::{Bench, Figure, Measured};
use crate::traffic::datagrams::Sender;
use crate::traffic::search::highest;

/// How long each rate is sent.
const LONG: Duration = Duration::from_millis(500);
const SHORT: Duration = Duration::from_millis(200);

/// The rate, and what a datagram costs the proxies there.
pub async fn run(bench: &Bench<'_>) -> Result<Measured> {
    let time = if bench.short { SHORT } else { LONG };
    let mut sender = Sender::new(bench.entry, bench.origin.udp).await?;
    let found = highest(&mut sender, time, || bench.system.processor_time()).await?;
    let mut measured = vec![(Figure::more("rate", "1000/s"), found.rate / 1e3)];

    if !bench.system.processes.is_empty() {
        let used = found.used.1 - found.used.0;
        let cost = used.as_secs_f64() * 1e6 / found.received.max(1) as f64;
        measured.push((Figure::less("proxies' time", "CPU us each"), cost));
    }

    Ok(measured)
}
