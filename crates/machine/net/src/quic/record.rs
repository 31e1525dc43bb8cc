//! Recordings of connections, if an operator asks for them: qlog files and TLS secrets.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use quinn::{QlogConfig, QlogStream};
use rustls::KeyLog;

use crate::appended::AppendedFile;
use crate::background::{Background, Sink};

use super::qlog_units::QlogRecords;

/// Mode of the files: they reveal who talked to whom, or decrypt it.
const FILE_MODE: u32 = 0o600;
/// Mode of the folder, where it is made here.
const FOLDER_MODE: u32 = 0o700;

/// qlog files of one process; later connections are not recorded. Each costs time for every packet.
#[doc(alias = "bound")]
const QLOG_FILES: usize = 1000;

/// Bytes of all qlog files of a process: a connection that lives for months, or carries much, writes as long as it lives.
#[doc(alias = "bound")]
const QLOG_BYTES: u64 = 1 << 30;

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
    writer: Writer<QlogPiece>,
}

/// TLS secrets in the form that Wireshark reads (draft-ietf-tls-keylogfile).
#[derive(Debug)]
struct KeyFile {
    path: PathBuf,
    writer: Writer<String>,
}

/// The writing thread, from the first piece on; `None` if it does not start.
type Writer<P> = OnceLock<Option<Background<P>>>;

/// The file of secrets, as its thread has it.
struct KeySink {
    path: PathBuf,
    opened: Opened,
}

enum Opened {
    /// There was nothing to write.
    NotYet,
    File(AppendedFile),
    /// The file cannot be opened, which was reported.
    Failed,
}

/// Bytes of qlog for one file.
struct QlogPiece {
    file: Arc<QlogFile>,
    bytes: Vec<u8>,
}

/// The file of one connection. Its thread opens it.
#[derive(Debug)]
struct QlogFile {
    path: PathBuf,
    /// `None` where it cannot be opened, which was said.
    opened: OnceLock<Option<File>>,
    records: Mutex<QlogRecords>,
}

/// Writes the files of all connections.
struct QlogSink {
    /// Bytes that may still be written.
    left: u64,
}

/// The sink of a connection's recorder.
struct QlogWriter {
    file: Arc<QlogFile>,
    writer: Background<QlogPiece>,
}

/// The near end of a thread that writes; it is started now if need be.
fn started<'a, S: Sink>(
    writer: &'a Writer<S::Piece>,
    name: &str,
    sink: impl FnOnce() -> S,
) -> Option<&'a Background<S::Piece>> {
    let start = || {
        let started = Background::start(name, sink());
        let failed = |error: &io::Error| tracing::warn!(name, %error, "a thread does not start");
        started.inspect_err(failed).ok()
    };
    writer.get_or_init(start).as_ref()
}

impl Record {
    /// Writes qlog (one `.sqlog` file for each connection) into the folder `qlog`, which is made if it is missing, and TLS secrets
    /// to the end of the file `keys`. Files are for their owner only (mode 0600).
    #[must_use]
    pub fn new(qlog: Option<&Path>, keys: Option<&Path>) -> Self {
        let qlog = qlog.map(|path| QlogFolder {
            path: path.to_owned(),
            files: AtomicUsize::new(0),
            writer: OnceLock::new(),
        });
        let keys = keys.map(|path| KeyFile {
            path: path.to_owned(),
            writer: OnceLock::new(),
        });

        Self {
            qlog: qlog.map(Arc::new),
            keys: keys.map(Arc::new),
        }
    }

    /// Looks whether the file of secrets was moved, and begins a new one then; one that could not be opened is tried again.
    pub fn reopen(&self) {
        let keys = self.keys.as_ref();
        if let Some(Some(writer)) = keys.and_then(|keys| keys.writer.get()) {
            writer.follow();
        }
    }

    /// Waits at most `limit` for each kind of file until the recordings so far are written; false
    /// if they are not.
    pub fn flush(&self, limit: Duration) -> bool {
        let qlog = self.qlog.as_ref().and_then(|folder| folder.writer.get());
        let keys = self.keys.as_ref().and_then(|keys| keys.writer.get());
        let qlog = qlog.and_then(Option::as_ref);
        let keys = keys.and_then(Option::as_ref);
        qlog.is_none_or(|writer| writer.flush(limit))
            && keys.is_none_or(|writer| writer.flush(limit))
    }

    /// True when connections get a qlog file.
    pub(super) fn writes_qlog(&self) -> bool {
        self.qlog.is_some()
    }

    /// Where the secrets of TLS go.
    pub(super) fn key_log(&self) -> Option<Arc<dyn KeyLog>> {
        self.keys.clone().map(|keys| keys as Arc<dyn KeyLog>)
    }

    /// A file for one connection of ours as `role`; `None` if recordings are off or the file cannot
    /// be made.
    pub(super) fn qlog(&self, role: &str) -> Option<QlogStream> {
        let folder = self.qlog.as_ref()?;
        let number = folder.files.fetch_add(1, Ordering::Relaxed);
        if number >= QLOG_FILES {
            return None;
        }

        let path = folder
            .path
            .join(format!("{}-{number}-{role}.sqlog", std::process::id()));
        let writer = started(&folder.writer, "hermes-qlog", || QlogSink {
            left: QLOG_BYTES,
        })?
        .clone();
        let file = Arc::new(QlogFile {
            path,
            opened: OnceLock::new(),
            records: Mutex::default(),
        });
        // So that even a connection without events has its file.
        let begin = QlogPiece {
            file: file.clone(),
            bytes: Vec::new(),
        };
        writer.offer(begin, 0);

        let mut config = QlogConfig::default();
        config
            .writer(Box::new(BufWriter::new(QlogWriter { file, writer })))
            .title(Some(format!("hermes {role}")));
        config.into_stream()
    }
}

impl Write for QlogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = QlogPiece {
            file: self.file.clone(),
            bytes: bytes.to_vec(),
        };
        // Never waits: quinn writes under the lock of the connection, and a slow disk must not stop its packets.
        self.writer.offer(piece, bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for QlogSink {
    type Piece = QlogPiece;

    fn size(piece: &QlogPiece) -> usize {
        piece.bytes.len()
    }

    fn write(&mut self, piece: QlogPiece) -> io::Result<()> {
        if self.left == 0 {
            return Ok(());
        }
        // On the writing thread, as opening may wait for the disk, too.
        let opened = piece.file.opened.get_or_init(|| piece.file.open());
        let Some(mut file) = opened.as_ref() else {
            return Ok(());
        };

        let records = piece.file.records.lock().take(&piece.bytes);
        self.left = self.left.saturating_sub(records.len() as u64);
        if self.left == 0 {
            tracing::warn!(
                bytes = QLOG_BYTES,
                "no more qlog is written: remove the files and start again for more"
            );
        }
        file.write_all(&records)
    }

    fn tell_lost(&mut self, lost: u64) -> io::Result<()> {
        tracing::warn!(lost, "parts of qlog were lost: the disk was too slow");
        Ok(())
    }
}

impl QlogFile {
    fn open(&self) -> Option<File> {
        let failed = |error: &io::Error| tracing::warn!(path = %self.path.display(), %error, "cannot write qlog");
        self.try_open().inspect_err(failed).ok()
    }

    fn try_open(&self) -> io::Result<File> {
        if let Some(folder) = self.path.parent() {
            DirBuilder::new()
                .recursive(true)
                .mode(FOLDER_MODE)
                .create(folder)?;
        }
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(FILE_MODE)
            .open(&self.path)
    }
}

impl Sink for KeySink {
    type Piece = String;

    fn size(line: &String) -> usize {
        line.len()
    }

    fn write(&mut self, line: String) -> io::Result<()> {
        if matches!(self.opened, Opened::NotYet) {
            self.opened = match AppendedFile::open(&self.path) {
                Ok(file) => Opened::File(file),
                Err(error) => {
                    tracing::warn!(%error, "cannot write TLS secrets");
                    Opened::Failed
                }
            };
        }

        let Opened::File(file) = &mut self.opened else {
            return Ok(());
        };
        if file.is_due() {
            file.follow();
        }
        file.write_all(line.as_bytes())
    }

    fn tell_lost(&mut self, lost: u64) -> io::Result<()> {
        tracing::warn!(lost, "TLS secrets were not written");
        Ok(())
    }

    fn follow(&mut self) {
        match &mut self.opened {
            Opened::NotYet => {}
            Opened::File(file) => file.follow(),
            Opened::Failed => self.opened = Opened::NotYet,
        }
    }
}

impl KeyLog for KeyFile {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let line = format!("{label} {} {}\n", Hex(client_random), Hex(secret));
        let sink = || KeySink {
            path: self.path.clone(),
            opened: Opened::NotYet,
        };
        if let Some(writer) = started(&self.writer, "hermes-secrets", sink) {
            let bytes = line.len();
            writer.offer(line, bytes);
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

    fn written(record: &Record) {
        assert!(record.flush(Duration::from_secs(60)));
    }

    #[test]
    fn a_file_of_secrets_that_was_moved_is_begun_anew() {
        let folder = tempfile::tempdir().unwrap();
        let (path, old) = (folder.path().join("keys"), folder.path().join("keys.1"));
        let record = Record::new(None, Some(&path));
        record.reopen();
        assert!(!path.exists(), "nothing was written");
        let log = record.key_log().unwrap();
        log.log("A", &[1], &[2]);
        written(&record);
        fs::rename(&path, &old).unwrap();
        record.reopen();
        log.log("B", &[3], &[4]);
        written(&record);
        assert_eq!(fs::read_to_string(&old).unwrap(), "A 01 02\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "B 03 04\n");
    }

    #[test]
    fn qlog_ends_at_its_bound() {
        let folder = tempfile::tempdir().unwrap();
        let file = Arc::new(QlogFile {
            path: folder.path().join("a.sqlog"),
            opened: OnceLock::new(),
            records: Mutex::default(),
        });
        let mut sink = QlogSink { left: 100 };
        for _ in 0..50 {
            let piece = QlogPiece {
                file: file.clone(),
                bytes: b"0123456789012345678\n".to_vec(),
            };
            sink.write(piece).unwrap();
        }
        assert_eq!(fs::metadata(&file.path).unwrap().len(), 100);
    }

    #[test]
    fn a_file_of_secrets_that_could_not_be_opened_is_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("inner/keys");
        let record = Record::new(None, Some(&path));
        let log = record.key_log().unwrap();
        log.log("A", &[1], &[2]);
        written(&record);
        fs::create_dir(folder.path().join("inner")).unwrap();
        log.log("B", &[1], &[2]);
        written(&record);
        assert!(!path.exists());
        record.reopen();
        log.log("C", &[1], &[2]);
        written(&record);
        assert_eq!(fs::read_to_string(&path).unwrap(), "C 01 02\n");
    }
}
