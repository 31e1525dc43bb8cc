//! State files, readable by the node's user alone and replaced as a whole: there is always a complete one, the old or the new.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Modes of the folder and the file: their content may be secret.
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// Writes another file and renames it. The folder is made if missing.
///
/// # Errors
/// The file cannot be written; the old one stays.
pub fn replace_file(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    DirBuilder::new()
        .recursive(true)
        .mode(FOLDER_MODE)
        .create(folder)?;
    let new = path.with_extension("new");

    match std::fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }

    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(FILE_MODE)
        .open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;

    std::fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn it_is_for_this_user_only() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("new/state.yaml");
        for text in ["version: 1", "version: 2"] {
            replace_file(&file, text).unwrap();
            assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
        }

        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&file), FILE_MODE);
        assert_eq!(mode(file.parent().unwrap()), FOLDER_MODE);
    }
}
