//! Exchanges on disk: a folder with a file for each, so that a node that is started again goes on where it was.
//!
//! Records are queued, and a thread appends them: no lock is held while the disk is written. Bytes count as arrived once their record is
//! in its file; until then they are not read, passed on or acknowledged. A queue that is full asks neighbours for less.
//!
//! A folder that stands still for a moment has its exchanges go on in memory, as a full one has.
//!
//! A record in its file survives the end of the process, however it ends. Nothing waits for the disk itself: after a failure of power the
//! end of a file may be missing, and the bytes behind it count as never arrived.

mod exchange_log;
mod failures;
mod kept;
mod pace;
mod patient;
mod record;
mod terms;
mod writer;

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use crate::owner::{Holdings, Owner};
pub(crate) use exchange_log::{Appended, Log, Settled, SharedLog};
use failures::FailureLog;
pub(crate) use kept::Kept;
use pace::WritingPace;
use patient::PatientThread;
use record::Kind;
pub use record::RECORD;
pub use terms::{KeptName, KeptTerms};
pub(crate) use writer::LogId;
use writer::{WriteProgress, WriterThread};

/// How files of exchanges end.
const ENDING: &str = "exchange";

/// The file that one process has locked while it uses the folder.
const LOCK: &str = "lock";

/// Permissions of a folder in which others could put an exchange.
const OTHERS_WRITE: u32 = 0o022;

/// A folder of exchanges. Its copies are the same.
#[derive(Debug, Clone)]
pub struct Disk(Arc<Folder>);

#[derive(Debug)]
struct Folder {
    path: PathBuf,
    limit: u64,
    usage: Mutex<Usage>,
    failures: Arc<FailureLog>,
    /// Reads records of files.
    reader: PatientThread,
    /// Appends records to files, and makes and removes these.
    writer: WriterThread,
    /// Files that were begun or found.
    files: AtomicU64,
    /// Held, so that no other process takes the folder.
    _lock: File,
}

/// Bytes in the files.
#[derive(Debug, Default)]
struct Usage {
    all: u64,
    holdings: Holdings,
    pace: WritingPace,
}

impl Disk {
    /// Takes a folder, which is made if there is none, for at most so many bytes.
    ///
    /// # Errors
    /// It cannot be made or used, others can write to it, or another process uses it.
    pub fn open(path: &Path, limit: u64) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        belongs_to_this_user(path)?;
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path.join(LOCK))?;
        // Two processes would append to the same files.
        lock.try_lock()
            .map_err(|_| io::Error::other("another process uses it"))?;
        Ok(Self(Arc::new(Folder {
            path: path.to_owned(),
            limit,
            usage: Mutex::default(),
            failures: Arc::new(FailureLog::new(path)),
            reader: PatientThread::start()?,
            writer: WriterThread::start()?,
            files: AtomicU64::new(0),
            _lock: lock,
        })))
    }

    /// Begins the file of an exchange of this owner; without one, if that cannot be done.
    pub(crate) fn begin(&self, terms: &KeptTerms, owner: Option<Owner>) -> Option<Log> {
        // Records for a folder that does not answer would take memory until it does.
        let refused = if self.0.writer.stands_still() {
            Some(patient::stands_still())
        } else if !self.has_pace(owner, pace::FILE) {
            Some(too_fast())
        } else {
            None
        };
        if let Some(error) = refused {
            self.failed(&error);
            return None;
        }
        let side = if terms.parent.is_none() { 'a' } else { 'q' };
        let mut name = String::new();
        for byte in terms.name.exchange {
            name += &format!("{byte:02x}");
        }
        let path = self.0.path.join(format!("{name}{side}.{ENDING}"));
        let mut log = Log::begin(self.clone(), path, owner);
        log.append(Kind::Terms, 0, &terms.encode())?;
        Some(log)
    }

    /// Resolves when something was written since [`take_grown`](Self::take_grown) was called last.
    pub(crate) async fn written(&self) {
        self.0.writer.written().await;
    }

    /// The files of which more is settled than when this was asked last.
    pub(crate) fn take_grown(&self) -> Vec<LogId> {
        self.0.writer.take_grown()
    }

    /// Whether nothing has been written for a moment though there is something to write.
    pub(crate) fn stands_still(&self) -> bool {
        self.0.writer.stands_still()
    }

    /// When the folder stands still if nothing is written before; `None` if nothing is to be written.
    pub(crate) fn patience_ends(&self, now: Instant) -> Option<Instant> {
        self.0.writer.patience_ends(now)
    }

    /// Whether as much waits to be written as may.
    pub(crate) fn is_full(&self) -> bool {
        self.0.writer.is_full()
    }

    /// Whether something is still to be written, or was written and not [taken](Self::take_grown).
    pub(crate) fn is_writing(&self) -> bool {
        self.0.writer.is_busy()
    }

    fn next_file(&self) -> LogId {
        LogId(self.0.files.fetch_add(1, Ordering::Relaxed))
    }

    /// The exchanges that were kept when the last process ended. Damaged files are reported, and removed.
    pub(crate) fn load(&self) -> Vec<Kept> {
        let files = match std::fs::read_dir(&self.0.path) {
            Ok(files) => files,
            Err(error) => {
                self.failed(&error);
                return Vec::new();
            }
        };
        let files = files.filter_map(|file| Some(file.ok()?.path()));
        files
            .filter(|path| path.extension().is_some_and(|ending| ending == ENDING))
            .filter_map(|path| self.load_file(path))
            .collect()
    }

    fn load_file(&self, path: PathBuf) -> Option<Kept> {
        let opened = OpenOptions::new().read(true).write(true).open(&path);
        let kept = opened.and_then(|file| Kept::read(self, file, path.clone()));
        match kept {
            Ok(kept) => Some(kept),
            Err(error) => {
                tracing::error!(file = %path.display(), %error, "an exchange in custody is lost");
                // Left there, it would be reported at each start.
                let _ = std::fs::remove_file(&path);
                None
            }
        }
    }

    /// Counts bytes that are to be written. False if they are more than there may be, in all or of their owner.
    fn take(&self, owner: Option<Owner>, bytes: u64) -> bool {
        let mut usage = self.0.usage.lock();
        // Counted before the record is queued: what waits to be written cannot run over the limit.
        let left = owner.map(|owner| usage.holdings.left(owner, usage.all, self.0.limit));
        if usage.all + bytes > self.0.limit || left.is_some_and(|left| bytes > left) {
            return false;
        }
        usage.all += bytes;
        if let Some(owner) = owner {
            usage.holdings.add(owner, bytes);
        }
        true
    }

    /// Whether small pieces and files of an owner's neighbour, which count for so much, keep to its pace.
    fn has_pace(&self, owner: Option<Owner>, bytes: u64) -> bool {
        let neighbour = owner.and_then(|owner| owner.neighbour);
        let allows = |neighbour| {
            let mut usage = self.0.usage.lock();
            usage.pace.allows(neighbour, bytes, Instant::now())
        };
        neighbour.is_none_or(allows)
    }

    fn give_back(&self, owner: Option<Owner>, bytes: u64) {
        let mut usage = self.0.usage.lock();
        usage.all -= bytes;
        if let Some(owner) = owner {
            usage.holdings.remove(owner, bytes);
        }
    }

    fn failed(&self, error: &io::Error) {
        self.0.failures.tell(error);
    }
}

/// Requests that lie there are made in the names of the users in them: so no one else may put it there, or send it elsewhere by a link.
fn belongs_to_this_user(path: &Path) -> io::Result<()> {
    let found = std::fs::metadata(path)?;
    let link = std::fs::symlink_metadata(path)?;
    let user = rustix::process::geteuid().as_raw();
    let owners = [found.uid(), link.uid()];

    let wrong = if owners.iter().any(|owner| *owner != user && *owner != 0) {
        format!("it belongs to another user than {user}: chown it, or name another")
    } else if found.mode() & OTHERS_WRITE != 0 {
        "other users can write to it: chmod 700 it, or name another".to_owned()
    } else {
        return Ok(());
    };
    Err(io::Error::new(io::ErrorKind::PermissionDenied, wrong))
}

fn too_fast() -> io::Error {
    io::Error::other(
        "a neighbour has files and small pieces written faster than others leave room for",
    )
}

#[cfg(test)]
impl Disk {
    /// Writes nothing as long as the guard lives.
    pub(crate) fn pause(&self) -> parking_lot::MutexGuard<'_, ()> {
        self.0.writer.queue().pause.lock()
    }

    /// Has as much waiting to be written as may.
    pub(crate) fn fill(&self) {
        while !self.is_full() {
            self.0.writer.later(4096, || {});
        }
    }

    /// Does nothing more until something is sent.
    pub(crate) fn stand_still(&self) -> std::sync::mpsc::Sender<()> {
        let (release, held) = std::sync::mpsc::channel();
        self.0.writer.later(0, move || {
            let _ = held.recv();
        });
        release
    }
}

#[cfg(test)]
mod tests;
