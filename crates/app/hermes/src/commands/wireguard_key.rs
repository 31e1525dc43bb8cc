//! `hermes wireguard-key FILE`: the public key of this end of WireGuard, made if there is none.

use std::path::PathBuf;

use clap::Args;

use crate::failure::Failure;
use crate::key_file;
use crate::output::Output;

/// Arguments of `hermes wireguard-key`.
#[derive(Debug, Args)]
pub struct WireguardKey {
    /// The file that `private_key_file` of a `wireguard` names.
    file: PathBuf,
}

/// Prints the public key, which the peer is told.
///
/// # Errors
/// The key can neither be read nor made.
pub fn run(command: &WireguardKey, output: Output) -> Result<(), Failure> {
    key_file::print_public(&command.file, output)
}
