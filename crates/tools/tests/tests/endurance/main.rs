//! What is left running: processes that die and come back under load, and memory that stays flat whatever comes and goes.

#![allow(
    clippy::unwrap_used,
    reason = "a test stops at the first surprise, in its helpers too"
)]

use std::path::PathBuf;
use std::process::Command;

use hermes_tests::program;

mod chain;
mod churn;
mod custody;
mod kills;
mod links;
mod other_links;
mod overlay;
mod visits;
mod work;

/// The program of the far node: another build of it, where `HERMES_OTHER` names one.
fn other_program() -> Command {
    let path = std::env::var_os("HERMES_OTHER").map_or_else(program::path, PathBuf::from);
    let mut command = Command::new(path);
    command.envs(links::AT_ONCE);
    command
}

/// The number in this variable, or `ordinary`.
fn asked(variable: &str, ordinary: usize) -> usize {
    std::env::var(variable)
        .ok()
        .map_or(ordinary, |text| text.parse().unwrap())
}
