//! What is written down of connections when an operator asks for it: qlog files and TLS secrets.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use quinn::{QlogConfig, QlogStream};
use rustls::KeyLog;

use crate::appended::AppendedFile;

/// Mode of the files: they tell who spoke to whom, or decrypt it.
const FILE_MODE: u32 = 0o600;
/// Mode of the folder, where it is made here.
const FOLDER_MODE: u32 = 0o700;

/// qlog files of one process; later connections are not recorded. Each costs time for every packet.
#[doc(alias = "bound")]
const QLOG_FILES: usize = 1000;

/// Writes down connections. Nothing is written unless a path was given, and nothing is made before there is something to write.
/// Clones write to the same files.
#[derive(Debug, Clone, Default)]
pub struct Record {
    qlog: Option<Arc<QlogFolder>>,
    keys: Option<Arc<KeyFile>>,
}

#[derive(Debug)]
struct QlogFolder {
    path: PathBuf,
    files: AtomicUsize,
}

/// TLS secrets in the form that Wireshark reads (draft-ietf-tls-keylogfile).
#[derive(Debug)]
struct KeyFile {
    path: PathBuf,
    opened: Mutex<Opened>,
}

#[derive(Debug)]
enum Opened {
    /// There was nothing to write.
    NotYet,
    File(AppendedFile),
    /// It cannot be opened, which was said.
    Failed,
}

impl Record {
    /// Writes qlog (one `.sqlog` file for each connection) into the folder `qlog`, which is made if it is missing, and TLS secrets
    /// to the end of the file `keys`. Files are for their owner only (mode 0600).
    #[must_use]
    pub fn new(qlog: Option<&Path>, keys: Option<&Path>) -> Self {
        let qlog = qlog.map(|path| QlogFolder {
            path: path.to_owned(),
            files: AtomicUsize::new(0),
        });
        let keys = keys.map(|path| KeyFile {
            path: path.to_owned(),
            opened: Mutex::new(Opened::NotYet),
        });

        Self {
            qlog: qlog.map(Arc::new),
            keys: keys.map(Arc::new),
        }
    }

    /// Looks whether the file of secrets was moved, and begins a new one then; one that could not be opened is tried again.
    pub fn reopen(&self) {
        let Some(keys) = &self.keys else { return };
        let mut opened = keys.opened.lock();
        match &mut *opened {
            Opened::NotYet => {}
            Opened::File(file) => file.follow(),
            Opened::Failed => *opened = Opened::NotYet,
        }
    }

    /// True when connections get a qlog file.
    pub(super) fn writes_qlog(&self) -> bool {
        self.qlog.is_some()
    }

    /// Where the secrets of TLS go.
    pub(super) fn key_log(&self) -> Option<Arc<dyn KeyLog>> {
        self.keys.clone().map(|keys| keys as Arc<dyn KeyLog>)
    }

    /// A file for one connection of ours as `role`; `None` where none is wanted or it cannot be made.
    pub(super) fn qlog(&self, role: &str) -> Option<QlogStream> {
        let folder = self.qlog.as_ref()?;
        let number = folder.files.fetch_add(1, Ordering::Relaxed);
        if number >= QLOG_FILES {
            return None;
        }

        let path = folder
            .path
            .join(format!("{}-{number}-{role}.sqlog", std::process::id()));
        match folder.file(&path) {
            Ok(file) => {
                let mut config = QlogConfig::default();
                config
                    .writer(Box::new(BufWriter::new(file)))
                    .title(Some(format!("hermes {role}")));
                config.into_stream()
            }
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "cannot write qlog");
                None
            }
        }
    }
}

impl QlogFolder {
    fn file(&self, path: &Path) -> io::Result<File> {
        DirBuilder::new()
            .recursive(true)
            .mode(FOLDER_MODE)
            .create(&self.path)?;
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(FILE_MODE)
            .open(path)
    }
}

impl KeyFile {
    fn write(&self, line: &str) -> io::Result<()> {
        let mut opened = self.opened.lock();
        if matches!(*opened, Opened::NotYet) {
            *opened = match AppendedFile::open(&self.path) {
                Ok(file) => Opened::File(file),
                Err(error) => {
                    *opened = Opened::Failed;
                    return Err(error);
                }
            };
        }

        let Opened::File(file) = &mut *opened else {
            return Ok(());
        };
        if file.is_due() {
            file.follow();
        }

        file.write_all(line.as_bytes())
    }
}

impl KeyLog for KeyFile {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let line = format!("{label} {} {}\n", Hex(client_random), Hex(secret));
        if let Err(error) = self.write(&line) {
            tracing::warn!(%error, "cannot write TLS secrets");
        }
    }
}

struct Hex<'a>(&'a [u8]);

impl std::fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_of_secrets_that_was_moved_is_begun_anew() {
        let folder = tempfile::tempdir().unwrap();
        let (path, old) = (folder.path().join("keys"), folder.path().join("keys.1"));
        let record = Record::new(None, Some(&path));
        record.reopen();
        assert!(!path.exists(), "nothing was written");
        let log = record.key_log().unwrap();
        log.log("A", &[1], &[2]);
        fs::rename(&path, &old).unwrap();
        record.reopen();
        log.log("B", &[3], &[4]);
        assert_eq!(fs::read_to_string(&old).unwrap(), "A 01 02\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "B 03 04\n");
    }

    #[test]
    fn a_file_of_secrets_that_could_not_be_opened_is_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("inner/keys");
        let record = Record::new(None, Some(&path));
        let log = record.key_log().unwrap();
        log.log("A", &[1], &[2]);
        fs::create_dir(folder.path().join("inner")).unwrap();
        log.log("B", &[1], &[2]);
        assert!(!path.exists());
        record.reopen();
        log.log("C", &[1], &[2]);
        assert_eq!(fs::read_to_string(&path).unwrap(), "C 01 02\n");
    }
}
