//! The files of a tap: so many of such a size, the oldest goes first.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The beginning of the names of files, and their end.
const PREFIX: &str = "hermes-";
const SUFFIX: &str = ".pcapng";

/// The bounds of the files of a tap.
#[derive(Debug, Clone)]
pub(super) struct Rotation {
    /// Their folder.
    pub(super) folder: PathBuf,
    /// Bytes of one.
    pub(super) size: u64,
    /// Files that are kept.
    pub(super) files: usize,
}

impl Rotation {
    /// Makes the next file; the oldest ones go, so that with it there are not too many. Files of earlier runs count, too.
    pub(super) fn next(&self, number: u64) -> io::Result<File> {
        let mut known = self.known()?;
        known.sort();
        let surplus = (known.len() + 1).saturating_sub(self.files);
        for old in known.into_iter().take(surplus) {
            std::fs::remove_file(old)?;
        }

        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let milliseconds = since.map_or(0, |since| since.as_millis());
        let name = format!("{PREFIX}{milliseconds:014}-{number:06}{SUFFIX}");
        // No one else is to read what passes, and nothing that lies there is written to.
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(self.folder.join(name))
    }

    fn known(&self) -> io::Result<Vec<PathBuf>> {
        let is_ours = |path: &Path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with(PREFIX) && name.ends_with(SUFFIX))
        };
        let mut known = Vec::new();
        for entry in std::fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if is_ours(&path) {
                known.push(path);
            }
        }
        Ok(known)
    }
}
