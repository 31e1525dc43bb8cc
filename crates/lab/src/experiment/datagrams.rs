//! The highest rate of datagrams of which at most one in a hundred is lost.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::{Bench, Figure, Measured};
use crate::traffic::datagrams::Sender;

/// Share that may be lost.
const LOSS: f64 = 0.01;
/// The first rate, datagrams a second.
const FIRST: f64 = 10_000.0;
/// Rates grow by this factor until too much is lost; then the interval is halved so often.
const GROWTH: f64 = 1.5;
const HALVINGS: u32 = 4;
/// A rate is tried twice before it counts as too high: anything else on the machine can disturb one trial.
const TRIES: u32 = 2;
/// Below this share of the rate that was asked for, the load generator is at its end.
const SENT: f64 = 0.8;
/// How long each rate is sent.
const LONG: Duration = Duration::from_millis(500);
const SHORT: Duration = Duration::from_millis(200);

/// The rate, and what a datagram costs the proxies there.
pub async fn run(bench: &Bench<'_>) -> Result<Measured> {
    let time = if bench.short { SHORT } else { LONG };
    let mut search = Search { bench, sender: Sender::new(bench.entry, bench.origin.udp).await?, time, cost: None };
    let (mut good, mut bad) = (0.0, FIRST);
    let mut halvings = HALVINGS;
    while let Some(rate) = search.carries(bad).await? {
        good = rate;
        if rate < bad * SENT {
            halvings = 0;
            break;
        }
        bad *= GROWTH;
    }
    ensure!(good > 0.0, "more than 1 % of {FIRST} datagrams a second are lost");
    for _ in 0..halvings {
        let middle = f64::midpoint(good, bad);
        match search.carries(middle).await? {
            Some(rate) => good = rate.max(good),
            None => bad = middle,
        }
    }
    let mut measured = vec![(Figure::more("rate", "1000/s"), good / 1e3)];
    let cost = search.cost.filter(|_| !bench.system.processes.is_empty());
    measured.extend(cost.map(|cost| (Figure::less("proxies' time", "CPU us each"), cost)));
    Ok(measured)
}

struct Search<'a> {
    bench: &'a Bench<'a>,
    sender: Sender,
    time: Duration,
    /// Processor time for each datagram at the highest rate that was carried, in microseconds.
    cost: Option<f64>,
}

impl Search<'_> {
    /// The rate that was in fact sent, if little enough was lost.
    async fn carries(&mut self, rate: f64) -> Result<Option<f64>> {
        let mut best = None;
        for _ in 0..TRIES {
            let before = self.bench.system.processor_time();
            let trial = self.sender.send(rate, self.time).await?;
            let used = self.bench.system.processor_time() - before;
            if trial.loss <= LOSS && best.is_none_or(|best| trial.rate > best) {
                best = Some(trial.rate);
                self.cost = Some(used.as_secs_f64() * 1e6 / trial.received.max(1) as f64);
            }
            if best.is_some_and(|best| best >= rate * SENT) {
                break;
            }
        }
        Ok(best)
    }
}
