//! State files, readable by the node's user alone and replaced as a whole: there is always a complete one, the old or the new.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

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
    let new = beside(path);

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

    std::fs::rename(&new, path)?;
    // The name is on the disk only when its folder is.
    File::open(folder)?.sync_all()
}

/// The file that is written first. Its name begins with a dot, so that it is no other file of the folder: `a.new` may be one.
fn beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".new");
    path.with_file_name(name)
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
    #[test]
    fn it_leaves_files_alone_that_have_a_name_like_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let [other, file] = ["red.new", "red.web"].map(|name| folder.path().join(name));
        replace_file(&other, "another").unwrap();
        replace_file(&file, "one").unwrap();
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "another");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
