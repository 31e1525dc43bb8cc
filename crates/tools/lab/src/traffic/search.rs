//! The highest rate of datagrams of which at most one in a hundred is lost.

use std::time::Duration;

use anyhow::{Context, Result};

use super::datagrams::Sender;

/// Share that may be lost.
const LOSS: f64 = 0.01;
/// The first rate, datagrams a second; a system that cannot carry it is tried with lower ones.
const FIRST: f64 = 10_000.0;
/// Rates grow by this factor until too much is lost; then the interval is halved this often.
const GROWTH: f64 = 1.5;
const HALVINGS: u32 = 4;
/// A rate is tried this often before it counts as too high: anything else on the machine can disturb a trial.
const TRIES: u32 = 4;
/// Below this share of the rate that was asked for, the load generator is at its end.
const SENT: f64 = 0.8;

/// The highest rate, and the trial that showed it.
#[derive(Debug, Clone, Copy)]
pub struct Highest<U> {
    /// Datagrams a second.
    pub rate: f64,
    /// Datagrams that came.
    pub received: u64,
    /// Processor time before the trial, and after it.
    pub used: (U, U),
}

/// Looks for it; each rate is sent for some time, and `usage` is asked before and after.
///
/// # Errors
/// When even the first rate is too high, or the sender fails.
pub async fn highest<U>(
    sender: &mut Sender,
    time: Duration,
    usage: impl Fn() -> U,
) -> Result<Highest<U>> {
    let mut search = Search {
        sender,
        time,
        usage,
        found: None,
    };

    let mut bad = FIRST;
    let mut halvings = HALVINGS;
    while let Some(rate) = search.carries(bad).await? {
        // The generator is at its end, not the system: halving would measure the generator.
        if rate < bad * SENT {
            halvings = 0;
            break;
        }
        bad *= GROWTH;
    }

    for _ in 0..halvings {
        let good = search.found.as_ref().map_or(0.0, |found| found.rate);
        let middle = f64::midpoint(good, bad);
        if search.carries(middle).await?.is_none() {
            bad = middle;
        }
    }

    search.found.context("more than 1 % is lost at any rate")
}

struct Search<'a, U, F: Fn() -> U> {
    sender: &'a mut Sender,
    time: Duration,
    usage: F,
    found: Option<Highest<U>>,
}

impl<U, F: Fn() -> U> Search<'_, U, F> {
    /// The rate that was in fact sent, if little enough was lost.
    async fn carries(&mut self, rate: f64) -> Result<Option<f64>> {
        let mut best = None;
        for _ in 0..TRIES {
            let before = (self.usage)();
            let trial = self.sender.send(rate, self.time).await?;
            if trial.loss <= LOSS && best.is_none_or(|best| trial.rate > best) {
                best = Some(trial.rate);
                if self
                    .found
                    .as_ref()
                    .is_none_or(|found| trial.rate > found.rate)
                {
                    let used = (before, (self.usage)());
                    self.found = Some(Highest {
                        rate: trial.rate,
                        received: trial.received,
                        used,
                    });
                }
            }

            if best.is_some_and(|best| best >= rate * SENT) {
                break;
            }
        }

        Ok(best)
    }
}
