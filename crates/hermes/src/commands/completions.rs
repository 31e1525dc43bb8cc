//! `hermes completions SHELL`: what the shell needs to complete `hermes`.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::failure::Failure;
use crate::output::Output;

/// Arguments of `hermes completions`.
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell.
    shell: Shell,
}

/// Prints the script.
pub fn run(completions: &Completions, output: Output) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(completions.shell, &mut Cli::command(), "hermes", &mut script);
    output.raw(&String::from_utf8_lossy(&script));
    Ok(())
}
