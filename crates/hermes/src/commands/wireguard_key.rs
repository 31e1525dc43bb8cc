//! `hermes wireguard-key FILE`: the public key of this end of WireGuard, made if there is none.

use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::Args;
use hermes_wireguard::PrivateKey;

use crate::failure::Failure;
use crate::output::Output;

/// The file of a key may be read by its owner alone.
const MODE: u32 = 0o600;

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
    let key = key(&command.file).map_err(Failure::failed)?;
    let public = key
        .public()
        .map_err(|error| Failure::failed(error.to_string()))?;
    output.line(public);
    Ok(())
}

/// The key in a file; without one, a new one that is written there.
fn key(file: &Path) -> Result<PrivateKey, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let mut options = std::fs::OpenOptions::new();
    let created = options.write(true).create_new(true).mode(MODE).open(file);
    let mut created = match created {
        Ok(created) => created,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let text = hermes_config::secret(file)?;
            return text.parse().map_err(|error| failed(&error));
        }
        Err(error) => return Err(failed(&error)),
    };

    let key = PrivateKey::generate().map_err(|error| failed(&error))?;
    writeln!(created, "{}", key.to_text()).map_err(|error| failed(&error))?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_is_made_once_and_no_one_else_may_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("wireguard.key");
        let made = key(&file).unwrap();
        assert_eq!(key(&file).unwrap(), made);
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, MODE);
        std::fs::write(&file, "no key").unwrap();
        assert!(key(&file).is_err());
    }
}
