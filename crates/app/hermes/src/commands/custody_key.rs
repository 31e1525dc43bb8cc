//! `hermes custody-key FILE`: the public key of a node, made if there is none.

use std::path::PathBuf;

use clap::Args;

use crate::failure::Failure;
use crate::key_file;
use crate::output::Output;

/// Arguments of `hermes custody-key`.
#[derive(Debug, Args)]
pub struct CustodyKey {
    /// The file that `defaults.custody.key_file` names.
    file: PathBuf,
}

/// Prints the public key, which neighbours are told.
///
/// # Errors
/// The key can neither be read nor made.
pub fn run(command: &CustodyKey, output: Output) -> Result<(), Failure> {
    key_file::print_public(&command.file, output)
}
