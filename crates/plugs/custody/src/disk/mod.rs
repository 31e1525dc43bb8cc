//! Exchanges on disk: a folder with a file for each, so that a node that is started again goes on where it was.
//!
//! A folder that stands still costs one wait of a moment: then what comes is kept in memory, as where the folder is full.
//!
//! What was appended survives the end of the process, however it ends. Nothing waits for the disk itself: after a failure of power the end
//! of a file may be missing, and what lies behind it counts as never come.

mod log;
mod pace;
mod patient;
mod terms;

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hermes_proto::custody::ObjectPart;
use parking_lot::Mutex;

use crate::owner::{Holdings, Owner};
pub use log::RECORD;
use log::{Found, HEADER, Kind};
use pace::WritingPace;
use patient::PatientThread;
pub use terms::{KeptName, KeptTerms};

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
    /// Does all that may wait for the disk.
    thread: PatientThread,
    /// Held, so that no other process takes the folder.
    _lock: File,
}

/// Bytes in the files.
#[derive(Debug, Default)]
struct Usage {
    all: u64,
    holdings: Holdings,
    pace: WritingPace,
    /// When a failure was told last.
    told: Option<Instant>,
}

/// How often failures are told: a neighbour that has no room fails as often as it writes.
#[doc(alias = "bound")]
const TOLD_EVERY: Duration = Duration::from_secs(60);

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
        lock.try_lock()
            .map_err(|_| io::Error::other("another process uses it"))?;
        Ok(Self(Arc::new(Folder {
            path: path.to_owned(),
            limit,
            usage: Mutex::default(),
            thread: PatientThread::start()?,
            _lock: lock,
        })))
    }

    /// Begins the file of an exchange of this owner; without one, if that cannot be done.
    pub(crate) fn begin(&self, terms: &KeptTerms, owner: Option<Owner>) -> Option<Log> {
        if !self.has_pace(owner, pace::FILE) {
            self.failed(&too_fast());
            return None;
        }
        let side = if terms.parent.is_none() { 'a' } else { 'q' };
        let mut name = String::new();
        for byte in terms.name.exchange {
            name += &format!("{byte:02x}");
        }
        let path = self.0.path.join(format!("{name}{side}.{ENDING}"));
        let to = path.clone();
        let file = self.0.thread.run(move || {
            OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&to)
        });
        let file = file.map_err(|error| self.failed(&error)).ok()?;

        let mut log = Log::new(self.clone(), file, path, 0);
        log.owner = owner;
        log.append(Kind::Terms, 0, &terms.encode())
            .is_some()
            .then_some(log)
    }

    /// What was kept when the last process ended. What is damaged is told, and removed.
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
                let _ = std::fs::remove_file(&path);
                None
            }
        }
    }

    /// Counts bytes that are to be written. False if they are more than there may be, in all or of their owner.
    fn take(&self, owner: Option<Owner>, bytes: u64) -> bool {
        let mut usage = self.0.usage.lock();
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

    /// Tells a failure, and not those that follow soon.
    fn failed(&self, error: &io::Error) {
        let now = Instant::now();
        let mut usage = self.0.usage.lock();
        let is_told = |told: Instant| now.saturating_duration_since(told) < TOLD_EVERY;
        if usage.told.is_some_and(is_told) {
            return;
        }
        usage.told = Some(now);
        drop(usage);

        let path = self.0.path.display();
        tracing::error!(%path, %error, "custody continues in memory: later objects are lost with the process");
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

/// The file of an exchange.
#[derive(Debug)]
pub(crate) struct Log {
    disk: Disk,
    file: Arc<File>,
    path: PathBuf,
    end: u64,
    owner: Option<Owner>,
    /// It has all of the exchange, and stands in the folder.
    is_whole: bool,
}

/// A file whose exchange and objects share it.
pub(crate) type SharedLog = Arc<Mutex<Log>>;

impl Log {
    fn new(disk: Disk, file: File, path: PathBuf, end: u64) -> Self {
        Self {
            disk,
            file: Arc::new(file),
            path,
            end,
            owner: None,
            is_whole: true,
        }
    }

    /// Whose it is.
    pub(crate) fn belongs(&mut self, owner: Owner) {
        self.disk.give_back(self.owner, self.end);
        // It is there already, and only what comes now is bounded by the share.
        let mut usage = self.disk.0.usage.lock();
        usage.all += self.end;
        usage.holdings.add(owner, self.end);
        self.owner = Some(owner);
    }

    /// Keeps bytes of an object, at most [`RECORD`]. Where they are; `None` if they are not kept, and the file no more.
    pub(crate) fn keep(&mut self, part: ObjectPart, offset: u64, bytes: &[u8]) -> Option<u64> {
        self.append(Kind::Bytes(part), offset, bytes)
    }

    /// Keeps the length of an object.
    pub(crate) fn keep_total(&mut self, part: ObjectPart, total: u64) {
        self.append(Kind::Total(part), total, &[]);
    }

    /// Keeps that the exchange will be offered to no one else.
    pub(crate) fn confirmed(&mut self) {
        self.append(Kind::Confirmed, 0, &[]);
    }

    /// The bytes that were kept at this place; `None` if they are not what was kept.
    pub(crate) fn read(&self, at: u64) -> Option<Bytes> {
        let file = self.file.clone();
        let end = self.end;
        let found = self.disk.0.thread.run(move || log::read(&file, at, end));
        let file = self.path.display();
        match found {
            Ok(Found::Record(record)) => Some(record.content),
            Ok(Found::End | Found::Damaged) => {
                tracing::error!(%file, at, "the file is damaged: its exchange is given up");
                None
            }
            Err(error) => {
                tracing::error!(%file, at, %error, "the file cannot be read: its exchange is given up");
                None
            }
        }
    }

    /// Removes it. What its objects have there can be read as long as they are.
    pub(crate) fn remove(&mut self) {
        if std::mem::take(&mut self.is_whole) {
            let path = self.path.clone();
            let removed = move || drop(std::fs::remove_file(path));
            self.disk.0.thread.run_or_later(removed);
        }
    }

    fn append(&mut self, kind: Kind, offset: u64, content: &[u8]) -> Option<u64> {
        if !self.is_whole {
            return None;
        }
        let record = log::encode(kind, offset, content);
        let length = record.len() as u64;
        let refused = if !self.disk.take(self.owner, length) {
            Some(io::Error::from(io::ErrorKind::QuotaExceeded))
        } else if !self
            .disk
            .has_pace(self.owner, pace::of_piece(content.len()))
        {
            self.disk.give_back(self.owner, length);
            Some(too_fast())
        } else {
            None
        };
        if let Some(error) = refused {
            self.disk.failed(&error);
            self.remove();
            return None;
        }
        let at = self.end;
        self.end += length;
        let file = self.file.clone();
        let written = self
            .disk
            .0
            .thread
            .run(move || file.write_all_at(&record, at));
        if let Err(error) = written {
            self.disk.failed(&error);
            self.remove();
            return None;
        }
        Some(at)
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.disk.give_back(self.owner, self.end);
        // Closing may wait for the disk, too.
        let file = self.file.clone();
        self.disk.0.thread.later(move || drop(file));
    }
}

/// An exchange that was kept.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) terms: KeptTerms,
    pub(crate) log: Log,
    /// Its bytes: the object, where in it, where in the file, and how many.
    pub(crate) pieces: Vec<(ObjectPart, u64, u64, usize)>,
    /// The lengths of its objects.
    pub(crate) totals: Vec<(ObjectPart, u64)>,
    pub(crate) is_confirmed: bool,
}

impl Kept {
    fn read(disk: &Disk, file: File, path: PathBuf) -> io::Result<Self> {
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, "the file is damaged");
        let length = file.metadata()?.len();
        let mut at = 0;
        let Found::Record(first) = log::read(&file, at, length)? else {
            return Err(damaged());
        };
        let terms = KeptTerms::decode(&first.content).filter(|_| first.kind == Kind::Terms);
        let terms = terms.ok_or_else(damaged)?;
        at += (HEADER + first.content.len()) as u64;

        let mut pieces = Vec::new();
        let mut totals = Vec::new();
        let mut is_confirmed = false;
        loop {
            let record = match log::read(&file, at, length)? {
                Found::Record(record) => record,
                Found::End => break,
                Found::Damaged => return Err(damaged()),
            };
            let size = record.content.len();
            match record.kind {
                Kind::Terms => return Err(damaged()),
                Kind::Bytes(part) => pieces.push((part, record.offset, at, size)),
                Kind::Total(part) => totals.push((part, record.offset)),
                Kind::Confirmed => is_confirmed = true,
            }
            at += (HEADER + size) as u64;
        }

        file.set_len(at)?;
        // It is there already, whatever the limit is now.
        disk.0.usage.lock().all += at;
        Ok(Self {
            terms,
            log: Log::new(disk.clone(), file, path, at),
            pieces,
            totals,
            is_confirmed,
        })
    }
}

#[cfg(test)]
mod tests;
