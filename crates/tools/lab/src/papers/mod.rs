//! `hermes-lab papers`: the experiments of the papers that Hermes comes from, as they have them; each writes a page.
//!
//! - `completion`: how long bursts of clients take in the mean, also before an origin that accepts slowly.
//! - `transactions`: first bytes, round trips and jitter over transactions at once and hops, and what QUIC says of itself.
//! - `blocking`: streams that share a link over TCP and over QUIC, while packets are lost.
//! - `rehoming`: how long tunnels take to another ingress and another end, and what is lost.
//! - `tunnels`: tunnels with a device each, on one connection.
//! - `cases`: two cases of policy, beside nginx and beside a direct connection.
//! - `baseline`: QUIC and HTTP/3 without Hermes.

mod baseline;
mod bench;
mod blocking;
mod cases;
mod completion;
mod line;
mod rehoming;
mod transactions;
mod tunnels;

use anyhow::Result;

use crate::options::Options;
use crate::peers::{Name, Programs};
use crate::report::{PageHead, Sheet, SheetGoal};
use bench::PaperBench;

/// Options of the command. All but `completion`, `cases` and `baseline` need root.
#[derive(Debug, clap::Args)]
pub struct PaperArguments {
    /// Which experiment.
    #[arg(value_enum)]
    experiment: PaperExperiment,
    #[command(flatten)]
    options: Options,
}

/// An experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum PaperExperiment {
    /// Mean completion of bursts, with its deviation, before a quick and a slow origin.
    Completion,
    /// First bytes, round trips and jitter over 1 to 256 transactions and 0 to 4 hops.
    Transactions,
    /// Streams over HTTP/2 and HTTP/3 while packets are lost.
    Blocking,
    /// Ingress and end of tunnels for IP change under pings.
    Rehoming,
    /// 1 to 256 tunnels for IP, each with a device, on one connection.
    Tunnels,
    /// A policy on requests beside nginx, and one on a database beside a direct connection.
    Cases,
    /// QUIC and HTTP/3 without a proxy.
    Baseline,
}

/// Runs the command.
///
/// # Errors
/// When a network cannot be laid, a program is missing or does not start, or the results cannot be written.
pub fn run(arguments: &PaperArguments) -> Result<()> {
    let options = &arguments.options;
    let (head, goals) = about(arguments.experiment);
    let sheet = options.measured(|sheet| {
        *sheet = measure(arguments.experiment, options)?;
        Ok(())
    })?;
    sheet.publish(options, head, goals)
}

fn measure(experiment: PaperExperiment, options: &Options) -> Result<Sheet> {
    let bench = PaperBench {
        options,
        programs: Programs::provide(&[Name::Hermes], options.output.hermes.as_deref())?,
        folder: tempfile::Builder::new().prefix("hermes-lab").tempdir()?,
    };
    match experiment {
        PaperExperiment::Completion => completion::measure(&bench),
        PaperExperiment::Transactions => transactions::measure(&bench),
        PaperExperiment::Blocking => blocking::measure(&bench),
        PaperExperiment::Rehoming => rehoming::measure(&bench),
        PaperExperiment::Tunnels => tunnels::measure(&bench),
        PaperExperiment::Cases => cases::measure(&bench),
        PaperExperiment::Baseline => baseline::measure(&bench),
    }
}

fn about(experiment: PaperExperiment) -> (PageHead, fn(&Sheet) -> Vec<SheetGoal>) {
    match experiment {
        PaperExperiment::Completion => (completion::HEAD, completion::goals),
        PaperExperiment::Transactions => (transactions::HEAD, no_goals),
        PaperExperiment::Blocking => (blocking::HEAD, blocking::goals),
        PaperExperiment::Rehoming => (rehoming::HEAD, rehoming::goals),
        PaperExperiment::Tunnels => (tunnels::HEAD, no_goals),
        PaperExperiment::Cases => (cases::HEAD, cases::goals),
        PaperExperiment::Baseline => (baseline::HEAD, no_goals),
    }
}

fn no_goals(_: &Sheet) -> Vec<SheetGoal> {
    Vec::new()
}
