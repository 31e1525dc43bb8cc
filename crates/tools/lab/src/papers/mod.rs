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
mod blocking;
mod cases;
mod completion;
mod line;
mod rehoming;
mod sheet;
mod transactions;
mod tunnels;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Result;
use tempfile::TempDir;

use crate::options::Options;
use crate::peers::{Name, Programs};
use crate::process::Process;
use crate::topology::Namespace;
use sheet::{PageHead, PaperGoal, Sheet};

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

/// What an experiment is given.
struct PaperBench<'a> {
    options: &'a Options,
    programs: Programs,
    folder: TempDir,
}

/// What is known of an experiment: the head of its page, and what is made of the figures.
struct Published {
    sheet: Sheet,
    head: PageHead,
    goals: fn(&Sheet) -> Vec<PaperGoal>,
}

/// Runs the command.
///
/// # Errors
/// When a network cannot be laid, a program is missing or does not start, or the results cannot be written.
pub fn run(arguments: &PaperArguments) -> Result<()> {
    let options = &arguments.options;
    let begin = Instant::now();
    let (head, goals) = about(arguments.experiment);
    let mut sheet = match options.show {
        true => Sheet::default(),
        false => measure(arguments.experiment, options)?,
    };
    if !options.show {
        sheet.runs.push(options.run(begin));
    }

    let published = Published { sheet, head, goals };
    published
        .sheet
        .publish(options, published.head, published.goals)
}

fn measure(experiment: PaperExperiment, options: &Options) -> Result<Sheet> {
    let bench = PaperBench {
        options,
        programs: Programs::provide(&[Name::Hermes], options.hermes.as_deref())?,
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

fn about(experiment: PaperExperiment) -> (PageHead, fn(&Sheet) -> Vec<PaperGoal>) {
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

fn no_goals(_: &Sheet) -> Vec<PaperGoal> {
    Vec::new()
}

impl PaperBench<'_> {
    fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Starts a node, in a network or on this machine.
    ///
    /// # Errors
    /// When it cannot be started.
    fn node(&self, namespace: Option<&Namespace>, name: &str, yaml: &str) -> Result<Process> {
        let file = self.write(name, yaml)?;
        let words = ["run".as_ref(), file.as_os_str()];
        let hermes = &self.programs.hermes;
        Process::start_in(namespace, name, self.folder(), hermes, &words)
    }

    /// Writes the file of a node anew.
    ///
    /// # Errors
    /// When it cannot be written.
    fn write(&self, name: &str, yaml: &str) -> Result<PathBuf> {
        let file = self.folder().join(format!("{name}.yaml"));
        let general = format!(
            "version: 1\nnode: {name}\nworkers: 2\nadmin: {{ socket: {name}.sock }}\nlog: {{ level: warn, access: off }}\n"
        );
        std::fs::write(&file, general + yaml)?;
        Ok(file)
    }

    /// Has a node read its file again.
    ///
    /// # Errors
    /// When it does not take the file.
    fn reload(&self, name: &str, yaml: &str) -> Result<()> {
        self.write(name, yaml)?;
        let socket = self.folder().join(format!("{name}.sock"));
        let output = std::process::Command::new(&self.programs.hermes)
            .args(["reload", "--admin"])
            .arg(socket)
            .output()?;
        anyhow::ensure!(
            output.status.success(),
            "{name} does not take its file: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }
}
