//! Secrets in files.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Bytes of one secret: keys and tokens have a few thousand.
#[doc(alias = "bound")]
const LONGEST: u64 = 1 << 20;

/// Reads a secret file, without the line end at its end.
///
/// # Errors
/// When it cannot be read, is empty or not text, or when others may read it; then the error names the command
/// that mends it. No error contains the secret.
pub fn secret(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let failed = |error: std::io::Error| format!("cannot read {shown}: {error}");
    let file = File::open(path).map_err(failed)?;
    private(&file, path)?;
    let mut text = String::new();
    file.take(LONGEST + 1)
        .read_to_string(&mut text)
        .map_err(failed)?;

    if text.len() as u64 > LONGEST {
        return Err(format!("{shown} is larger than {} MiB", LONGEST >> 20));
    }
    // Editors on Windows begin a file with a byte order mark, which is not part of its content.
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let text = text.trim_end_matches(['\n', '\r']);
    if text.is_empty() {
        Err(format!("{shown} is empty"))
    } else {
        Ok(text.to_owned())
    }
}

/// Checks the open file, not its name, so that it cannot be exchanged in between.
#[cfg(unix)]
fn private(file: &File, path: &Path) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt;

    let shown = path.display();
    let metadata = file
        .metadata()
        .map_err(|error| format!("cannot read {shown}: {error}"))?;
    let mode = metadata.mode() & 0o777;
    let (others, remedy) = bits_of_others(metadata.uid());

    if mode & others == 0 {
        return Ok(());
    }
    Err(format!(
        "{shown} is a secret that others may use (mode {mode:04o}); run: chmod {remedy} '{shown}'"
    ))
}

/// The permission bits that a secret of this owner must not have, and the mode that mends it: nothing for a group where someone owns
/// it who may change that; where root does, its group may read it, as Debian's `ssl-cert` and the volumes of Kubernetes have it.
#[cfg(unix)]
fn bits_of_others(owner: u32) -> (u32, &'static str) {
    const ROOT: u32 = 0;
    match owner {
        ROOT => (0o037, "640"),
        _ => (0o077, "600"),
    }
}

#[cfg(not(unix))]
fn private(_: &File, _: &Path) -> Result<(), String> {
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::{bits_of_others, secret};

    #[test]
    fn a_private_file_is_read_without_its_line_end() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        write(&file, "abc\r\n").unwrap();
        set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        assert_eq!(secret(&file).unwrap(), "abc");
        // As editors of Windows write it.
        write(&file, "\u{feff}abc\r\n").unwrap();
        assert_eq!(secret(&file).unwrap(), "abc");
    }

    #[test]
    fn a_file_that_others_may_read_is_refused_with_the_command_that_mends_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        write(&file, "abc").unwrap();

        for mode in [0o660, 0o604, 0o620] {
            set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            let error = secret(&file).unwrap_err();
            assert!(
                error.contains("chmod 6") && !error.contains("abc"),
                "{error}"
            );
        }
    }

    #[test]
    fn only_where_root_owns_it_a_group_may_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        write(&file, "abc").unwrap();
        let is_root = std::fs::metadata(&file).unwrap().uid() == 0;

        for mode in [0o640, 0o440] {
            set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            assert_eq!(secret(&file).is_ok(), is_root, "{mode:o}");
        }
        assert_eq!(bits_of_others(0).0 & 0o640, 0);
        assert_ne!(bits_of_others(1000).0 & 0o640, 0);
    }

    #[test]
    fn empty_and_missing_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        assert!(secret(&file).unwrap_err().contains("cannot read"));
        write(&file, "\n").unwrap();
        set_permissions(&file, Permissions::from_mode(0o400)).unwrap();
        assert!(secret(&file).unwrap_err().contains("is empty"));
    }
}
