//! The measurements. Each experiment runs one case on one system and gives figures; rounds and order are the caller's.

mod bench;
mod bulk;
mod burst;
mod case;
mod datagrams;
mod instructions;
mod latency;
mod saturation;
mod start;
mod tunnels;

pub use bench::{Bench, Measured};
pub use case::{Case, Experiment};

use anyhow::Result;

/// Runs a case.
///
/// # Errors
/// When exchanges fail whose failure is no figure of the experiment.
pub async fn run(bench: &Bench<'_>) -> Result<Measured> {
    match bench.case.experiment {
        Experiment::Latency => latency::run(bench).await,
        Experiment::Burst => burst::run(bench).await,
        Experiment::Saturation => saturation::run(bench).await,
        Experiment::Bulk => bulk::run(bench).await,
        Experiment::Datagrams => datagrams::run(bench).await,
        Experiment::Tunnels => tunnels::run(bench).await,
        Experiment::Start => start::run(bench).await,
        Experiment::Instructions => instructions::run(bench).await,
    }
}
