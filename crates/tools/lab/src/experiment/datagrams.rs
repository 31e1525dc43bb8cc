//! The highest rate of datagrams of which at most one in a hundred is lost.

use std::time::Duration;

use anyhow::Result;

use super::{Bench, Measured};
use crate::report::Figure;
use crate::traffic::datagrams::Sender;
use crate::traffic::search::highest;

/// Flows that send by turns, beside one.
const FLOWS: usize = 8;
/// How long each rate is sent.
const LONG: Duration = Duration::from_millis(500);
const SHORT: Duration = Duration::from_millis(200);

/// The rate of one flow and of several that send by turns, and the cost of a datagram for the proxies.
pub async fn run(bench: &Bench<'_>) -> Result<Measured> {
    let mut measured = flows(bench, 1, ["rate", "proxies' time"]).await?;
    let several = ["8 flows: rate", "8 flows: proxies' time"];
    measured.append(&mut flows(bench, FLOWS, several).await?);
    Ok(measured)
}

/// The rate of so many flows and its cost, by these names.
async fn flows(bench: &Bench<'_>, count: usize, [rate, cost]: [&str; 2]) -> Result<Measured> {
    let time = if bench.short { SHORT } else { LONG };
    let mut sender = Sender::several(bench.entry.address, bench.origin.udp, count).await?;
    let found = highest(&mut sender, time, || bench.system.processor_time()).await?;
    let mut measured = vec![(Figure::more(rate, "1000/s"), found.rate / 1e3)];

    if !bench.system.processes.is_empty() {
        let used = found.used.1.saturating_sub(found.used.0);
        let each = used.as_secs_f64() * 1e6 / found.received.max(1) as f64;
        measured.push((Figure::less(cost, "CPU us each"), each));
    }
    Ok(measured)
}
