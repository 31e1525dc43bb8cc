//! Options that the commands share which measure and show.

use std::path::PathBuf;
use std::time::Instant;

use crate::report::Run;

/// How much is measured, on what, and where the results go.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Fewer and shorter measurements: more scatter.
    #[arg(long)]
    pub short: bool,
    /// Rounds; every figure is the median of this many.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub repeats: u32,
    /// Seed of the order in each round.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Write the results to this file. What it has from earlier runs stays in it, and in the report.
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// Write pictures to this folder.
    #[arg(long)]
    pub svg: Option<PathBuf>,
    /// Write a page of documentation to this file; it shows the pictures if they are in the same folder.
    #[arg(long)]
    pub markdown: Option<PathBuf>,
    /// Measure nothing: show what the file of `--json` has.
    #[arg(long, requires = "json")]
    pub show: bool,
    /// Measure this build of Hermes instead of building one.
    #[arg(long)]
    pub hermes: Option<PathBuf>,
}

/// Options whose values are files: of no interest to a reader of the figures.
const FILES: [&str; 5] = ["--json", "--svg", "--markdown", "--hermes", "--peers"];

impl Options {
    /// How it was measured, since `begin`.
    pub fn run(&self, begin: Instant) -> Run {
        let command = spoken(std::env::args().skip(1));
        let machine = machine();
        Run {
            command,
            seed: self.seed,
            machine,
            seconds: begin.elapsed().as_secs_f64(),
        }
    }

    /// The file from which results are loaded, if there are any.
    pub fn earlier(&self) -> Option<&PathBuf> {
        self.json.as_ref().filter(|file| self.show || file.exists())
    }

    /// The file that results are written to, if there are new ones.
    pub fn later(&self) -> Option<&PathBuf> {
        self.json.as_ref().filter(|_| !self.show)
    }
}

/// The arguments, without those that name files.
pub(crate) fn spoken(arguments: impl Iterator<Item = String>) -> String {
    let mut words = Vec::new();
    let mut arguments = arguments;
    while let Some(word) = arguments.next() {
        match word.split_once('=') {
            Some((option, _)) if FILES.contains(&option) => {}
            None if FILES.contains(&word.as_str()) => drop(arguments.next()),
            _ => words.push(word),
        }
    }

    words.join(" ")
}

/// Processors and kernel, for later readers of the figures.
pub(crate) fn machine() -> String {
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{processors} processors, Linux {}", kernel.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_told_without_its_files() {
        let words = [
            "overhead",
            "--short",
            "--json",
            "a/b.json",
            "--only",
            "udp",
            "--svg=x/y",
        ];
        assert_eq!(
            spoken(words.map(str::to_owned).into_iter()),
            "overhead --short --only udp"
        );
    }
}
