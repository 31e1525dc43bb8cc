//! Where the files of a configuration are read from.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Reads the files of a configuration: those of the machine, or of a caller that has them elsewhere.
pub trait FileReader {
    /// The content of a file, at most `most` bytes of it.
    ///
    /// # Errors
    /// The file cannot be read.
    fn read(&self, file: &Path, most: u64) -> io::Result<Vec<u8>>;

    /// The canonical name of a file; `None` if it has none.
    fn true_name(&self, file: &Path) -> Option<PathBuf>;
}

/// The files of this machine.
pub(crate) struct SystemFiles;

impl FileReader for SystemFiles {
    fn read(&self, file: &Path, most: u64) -> io::Result<Vec<u8>> {
        // A pipe or a device has no length to ask for first, so the reading itself is bounded.
        let mut bytes = Vec::new();
        File::open(file)?.take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn true_name(&self, file: &Path) -> Option<PathBuf> {
        file.canonicalize().ok()
    }
}

/// No files at all: the document comes from elsewhere.
pub(crate) struct NoFiles;

impl FileReader for NoFiles {
    fn read(&self, _file: &Path, _most: u64) -> io::Result<Vec<u8>> {
        let reason = "this document comes from elsewhere, and includes no files of this machine";
        Err(io::Error::new(io::ErrorKind::PermissionDenied, reason))
    }

    fn true_name(&self, _file: &Path) -> Option<PathBuf> {
        None
    }
}

/// A name that does not depend on where the process runs; the name itself on a machine without folders.
pub(crate) fn absolute(file: &Path) -> PathBuf {
    std::path::absolute(file).unwrap_or_else(|_| file.to_owned())
}
