//! How something was measured.

use std::fmt;
use std::time::Instant;

use serde::{Deserialize, Serialize};

/// One run of the command.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Run {
    /// The arguments, without those that name files.
    pub command: String,
    /// Seed of the order; 0 where there is none.
    pub seed: u64,
    /// Processors and kernel.
    pub machine: String,
    /// Seconds that it took.
    pub seconds: f64,
}

/// Options for files, of no interest to a reader of the figures.
const FILES: [&str; 5] = ["--json", "--svg", "--markdown", "--hermes", "--peers"];

impl Run {
    /// The run of this process, since `begin`.
    pub fn since(begin: Instant, seed: u64) -> Self {
        Self {
            command: spoken(std::env::args().skip(1)),
            seed,
            machine: machine(),
            seconds: begin.elapsed().as_secs_f64(),
        }
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {:.0} s, ", self.command, self.seconds)?;
        if self.seed > 0 {
            write!(f, "seed {}, ", self.seed)?;
        }
        f.write_str(&self.machine)
    }
}

/// The arguments, without those that name files.
fn spoken(arguments: impl Iterator<Item = String>) -> String {
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
fn machine() -> String {
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
