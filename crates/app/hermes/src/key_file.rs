//! Files of private keys and other secrets: read, or made where there is none.

use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use aws_lc_rs::rand;
use hermes_noise::PrivateKey;
use serde_json::json;

use crate::failure::Failure;
use crate::output::Output;

/// The file of a key may be read by its owner alone.
const MODE: u32 = 0o600;

/// The key in a file; without a file, a new key, which is written there.
///
/// # Errors
/// In words, with the name of the file, when it cannot be read or made, or has no key.
pub fn read_or_make(file: &Path) -> Result<PrivateKey, String> {
    let generate = || {
        let key = PrivateKey::generate().map_err(|error| error.to_string())?;
        Ok(key.to_text())
    };
    make(file, generate)?;
    read(file)
}

/// Makes a file of a secret of 64 hexadecimal digits, unless it is there.
///
/// # Errors
/// In words, with the name of the file, when it cannot be made.
pub fn make_secret(file: &Path) -> Result<(), String> {
    let generate = || {
        let mut secret = [0; 32];
        rand::fill(&mut secret).map_err(|_| "the system has no random numbers".to_owned())?;
        Ok(secret.map(|byte| format!("{byte:02x}")).concat())
    };
    make(file, generate)
}

fn make(file: &Path, generate: impl FnOnce() -> Result<String, String>) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let mut options = std::fs::OpenOptions::new();
    let created = options.write(true).create_new(true).mode(MODE).open(file);
    let mut created = match created {
        Ok(created) => created,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        Err(error) => return Err(failed(&error)),
    };
    let text = generate().map_err(|error| failed(&error))?;
    writeln!(created, "{text}").map_err(|error| failed(&error))
}

/// The key in a file.
///
/// # Errors
/// As of [`read_or_make`].
pub fn read(file: &Path) -> Result<PrivateKey, String> {
    let text = hermes_config::secret(file)?;
    text.parse()
        .map_err(|error| format!("{}: {error}", file.display()))
}

/// Prints the public key of a file, which gets a new key where there is none.
///
/// # Errors
/// The key can neither be read nor made.
pub fn print_public(file: &Path, output: Output) -> Result<(), Failure> {
    let public = read_or_make(file).map_err(Failure::failed)?.public();
    if output.json {
        output.value(&json!({ "public_key": public.to_string() }));
    } else {
        output.line(public);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_is_made_once_and_no_one_else_may_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("own.key");
        let made = read_or_make(&file).unwrap();
        assert_eq!(read_or_make(&file).unwrap(), made);
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, MODE);
        std::fs::write(&file, "no key").unwrap();
        assert!(read_or_make(&file).is_err());
    }
}
