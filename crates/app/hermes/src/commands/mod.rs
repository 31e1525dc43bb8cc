//! Subcommands, one file each.

pub mod cache;
pub mod cert;
pub mod channel;
pub mod check;
pub mod completions;
pub mod config;
pub mod confirm;
pub mod convert;
pub mod custody_key;
pub mod diff;
pub mod echo;
pub mod env;
pub mod exchanges;
pub mod exec;
mod foreign;
pub mod log;
pub mod netcheck;
pub mod overlay;
pub mod passwd;
pub mod plan;
pub mod policy;
pub mod refusals;
pub mod reload;
pub mod rollback;
pub mod run;
pub mod schema;
pub mod sign;
pub mod status;
pub mod top;
pub mod translate;
pub mod why;
pub mod wireguard_key;

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

/// The greeting of `hermes` without arguments.
pub fn welcome(output: Output) -> Result<(), Failure> {
    output.line(WELCOME);
    Ok(())
}

/// Reads a file with this process's environment.
fn load(file: &Path) -> Result<Loaded, Problems> {
    let loaded = crate::plugs::form().load_part(file, &|name| std::env::var(name).ok());
    loaded.map_err(|unsound| foreign::instead(file, crate::plugs::all_mistakes(unsound)))
}
