//! A file that lines are added to, and that someone may move away to begin a new one.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often a file that is written to is checked for having been moved: each check is a system
/// call.
#[doc(alias = "bound")]
const LOOK: Duration = Duration::from_secs(1);

/// An append-only file. It is readable by its owner only.
#[derive(Debug)]
pub struct AppendedFile {
    path: PathBuf,
    file: File,
    looked: Instant,
    /// The file could not be opened again, which was reported.
    failing: bool,
}

impl AppendedFile {
    /// Opens the file, or begins it.
    ///
    /// # Errors
    /// The file cannot be opened; the path is named.
    pub fn open(path: &Path) -> io::Result<Self> {
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let file = opened(path).map_err(named)?;
        Ok(Self {
            path: path.to_owned(),
            file,
            looked: Instant::now(),
            failing: false,
        })
    }

    /// Whether it is time to look.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.looked.elapsed() >= LOOK
    }

    /// Checks that the file is still at its path, and otherwise begins a new one there. Call it
    /// between two lines.
    pub fn follow(&mut self) {
        self.looked = Instant::now();
        if self.is_in_place() {
            return;
        }

        match opened(&self.path) {
            Ok(file) => (self.file, self.failing) = (file, false),
            Err(error) if !std::mem::replace(&mut self.failing, true) => {
                let path = self.path.display();
                // Not to the log, which may be this file.
                drop(writeln!(
                    io::stderr(),
                    "{path} was moved, and cannot be opened again: {error}"
                ));
            }
            Err(_) => {}
        }
    }

    fn is_in_place(&self) -> bool {
        let which = |metadata: &Metadata| (metadata.dev(), metadata.ino());
        let own = self.file.metadata();
        let there = std::fs::metadata(&self.path);
        own.is_ok_and(|own| there.is_ok_and(|there| which(&own) == which(&there)))
    }
}

impl Write for AppendedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn opened(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_that_was_moved_is_begun_anew_and_one_that_is_in_place_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let (path, old) = (folder.path().join("log"), folder.path().join("log.1"));
        let mut file = AppendedFile::open(&path).unwrap();
        file.write_all(b"one\n").unwrap();
        file.follow();
        file.write_all(b"two\n").unwrap();
        fs::rename(&path, &old).unwrap();
        file.write_all(b"three\n").unwrap();
        file.follow();
        file.write_all(b"four\n").unwrap();
        assert_eq!(fs::read_to_string(&old).unwrap(), "one\ntwo\nthree\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "four\n");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn without_a_folder_the_lines_go_on_where_they_went() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        fs::create_dir(&inner).unwrap();
        let mut file = AppendedFile::open(&inner.join("log")).unwrap();
        fs::rename(&inner, folder.path().join("moved")).unwrap();
        file.follow();
        file.write_all(b"kept\n").unwrap();
        assert_eq!(
            fs::read_to_string(folder.path().join("moved/log")).unwrap(),
            "kept\n"
        );
    }
}
