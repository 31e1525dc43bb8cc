//! Subcommands, one file each.

pub mod check;
pub mod completions;
pub mod env;
pub mod exchanges;
pub mod exec;
pub mod log;
pub mod reload;
pub mod run;
pub mod schema;
pub mod status;

use std::path::Path;

use hermes_config::{Loaded, Problems};

use crate::failure::Failure;
use crate::output::Output;

const WELCOME: &str = "\
Hermes: any traffic, carried as HTTP, end to end, under one control.

  hermes demo          an overlay of four proxies on this machine, with real traffic; needs no set-up
  hermes check FILE    everything that is wrong with a configuration file
  hermes run FILE      run a node

All commands: hermes --help";

/// What a newcomer sees who says nothing.
pub fn welcome(output: Output) -> Result<(), Failure> {
    output.line(WELCOME);
    Ok(())
}

/// Loads a file with this process's environment.
fn load(file: &Path) -> Result<Loaded, Problems> {
    hermes_config::load(file, &|name| std::env::var(name).ok())
}
