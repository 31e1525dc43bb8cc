//! The file of one exchange, to which records are appended.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use hermes_proto::custody::ObjectPart;
use parking_lot::Mutex;

use super::record::{self, Found, HEADER, Kind};
use super::{Disk, LogId, WriteProgress, pace, patient, too_fast};
use crate::owner::Owner;

/// The file of an exchange.
#[derive(Debug)]
pub(crate) struct Log {
    disk: Disk,
    pub(super) file: Arc<LogFile>,
    pub(super) path: PathBuf,
    /// Where the last record ends, whether it is written or not.
    pub(super) end: u64,
    owner: Option<Owner>,
    /// It has all of the exchange, and stands in the folder.
    is_whole: bool,
}

/// A file whose exchange and objects share it.
pub(crate) type SharedLog = Arc<Mutex<Log>>;

/// A file, as the threads have it that read and write.
#[derive(Debug)]
pub(super) struct LogFile {
    /// Empty until the file is made.
    file: OnceLock<File>,
    progress: Arc<WriteProgress>,
}

/// A record that was appended, and may still have to be written.
#[derive(Debug, Clone)]
pub(crate) struct Appended {
    /// Where it begins.
    pub(crate) at: u64,
    /// Where it ends.
    pub(crate) end: u64,
    /// Its content.
    pub(crate) content: Bytes,
}

/// The settled part of the records of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settled {
    /// Records before this place are in the file.
    Written(u64),
    /// The file was given up: records that are not in it are kept in memory.
    InMemory,
}

impl Settled {
    /// Whether a record is settled that ends there.
    pub(crate) fn has(self, end: u64) -> bool {
        match self {
            Self::Written(written) => end <= written,
            Self::InMemory => true,
        }
    }
}

impl LogFile {
    /// The file.
    ///
    /// # Errors
    /// It was not made.
    pub(super) fn file(&self) -> io::Result<&File> {
        let missing = || io::Error::other("the file was not made");
        self.file.get().ok_or_else(missing)
    }
}

impl Log {
    /// One that is still to be made.
    pub(super) fn begin(disk: Disk, path: PathBuf, owner: Option<Owner>) -> Self {
        let file = LogFile {
            file: OnceLock::new(),
            progress: Arc::new(WriteProgress::new(disk.next_file(), 0)),
        };
        let log = Self {
            disk,
            file: Arc::new(file),
            path,
            end: 0,
            owner,
            is_whole: true,
        };
        let path = log.path.clone();
        // Made on the thread: to open a file may wait for the disk as well.
        log.write(0, move |log| {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(path)?;
            log.file.get_or_init(|| file);
            Ok(())
        });
        log
    }

    /// One that has so many bytes already.
    pub(super) fn found(disk: &Disk, file: File, path: PathBuf, end: u64) -> Self {
        let file = LogFile {
            file: OnceLock::from(file),
            progress: Arc::new(WriteProgress::new(disk.next_file(), end)),
        };
        Self {
            disk: disk.clone(),
            file: Arc::new(file),
            path,
            end,
            owner: None,
            is_whole: true,
        }
    }

    /// Which file it is.
    pub(crate) fn id(&self) -> LogId {
        self.file.progress.id()
    }

    /// Whether new records are kept there.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Where the last record ends.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Counts it for this owner.
    pub(crate) fn belongs(&mut self, owner: Owner) {
        self.disk.give_back(self.owner, self.end);
        // Its records are there already: the share bounds only later ones.
        let mut usage = self.disk.0.usage.lock();
        usage.all += self.end;
        usage.holdings.add(owner, self.end);
        self.owner = Some(owner);
    }

    /// Keeps bytes of an object, at most [`RECORD`](super::RECORD). `None` if they are not kept, and the file no more.
    pub(crate) fn keep(&mut self, part: ObjectPart, offset: u64, bytes: &[u8]) -> Option<Appended> {
        self.append(Kind::Bytes(part), offset, bytes)
    }

    /// Keeps the length of an object. Where its record ends; `None` if it is not kept.
    pub(crate) fn keep_total(&mut self, part: ObjectPart, total: u64) -> Option<u64> {
        let appended = self.append(Kind::Total(part), total, &[])?;
        Some(appended.end)
    }

    /// Keeps that the exchange will be offered to no one else.
    pub(crate) fn confirmed(&mut self) {
        self.append(Kind::Confirmed, 0, &[]);
    }

    /// How much of it is settled. A file that could not be written is given up.
    pub(crate) fn settled(&mut self) -> Settled {
        if self.file.progress.has_failed() {
            self.remove();
        }
        if self.is_whole {
            Settled::Written(self.file.progress.written())
        } else {
            Settled::InMemory
        }
    }

    /// Gives the file up where records wait for a folder that stands still: they are kept in memory.
    pub(crate) fn give_up(&mut self) {
        if !self.settled().has(self.end) {
            self.file.progress.fail();
            self.remove();
        }
    }

    /// The content of the record at this place; `None` if it is damaged. It waits for the disk, for a moment at most.
    pub(crate) fn read(&self, at: u64) -> Option<Bytes> {
        let file = self.file.clone();
        let end = self.end;
        let reader = &self.disk.0.reader;
        let found = reader.run(move || record::read(file.file()?, at, end));
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

    /// Removes it. Records that are written can be read as long as an object has them.
    pub(crate) fn remove(&mut self) {
        if !std::mem::take(&mut self.is_whole) {
            return;
        }
        let path = self.path.clone();
        let writer = &self.disk.0.writer;
        writer.later(0, move || drop(std::fs::remove_file(path)));
        // Its objects are in memory from now on.
        writer.queue().tell(&self.file.progress);
    }

    pub(super) fn append(&mut self, kind: Kind, offset: u64, content: &[u8]) -> Option<Appended> {
        if !self.is_whole {
            return None;
        }
        let record = record::encode(kind, offset, content).freeze();
        let length = record.len() as u64;
        // A file with a gap is worth nothing after a restart: without room for one record, all of the exchange goes on in memory.
        if let Err(error) = self.take(length, content.len()) {
            self.disk.failed(&error);
            self.remove();
            return None;
        }

        let at = self.end;
        self.end += length;
        let appended = Appended {
            at,
            end: self.end,
            content: record.slice(HEADER..),
        };
        self.write(length, move |log| log.file()?.write_all_at(&record, at));
        Some(appended)
    }

    /// Counts a record with so many bytes of content.
    ///
    /// # Errors
    /// There is no room for it, or it may not be written now.
    fn take(&self, length: u64, content: usize) -> io::Result<()> {
        if self.disk.stands_still() {
            return Err(patient::stands_still());
        }
        if !self.disk.take(self.owner, length) {
            return Err(io::Error::from(io::ErrorKind::QuotaExceeded));
        }
        if !self.disk.has_pace(self.owner, pace::of_piece(content)) {
            self.disk.give_back(self.owner, length);
            return Err(too_fast());
        }
        Ok(())
    }

    /// Has the thread append so many bytes by this operation, unless one failed before.
    fn write(
        &self,
        length: u64,
        operation: impl FnOnce(&LogFile) -> io::Result<()> + Send + 'static,
    ) {
        let file = self.file.clone();
        let failures = self.disk.0.failures.clone();
        let writer = &self.disk.0.writer;
        let queue = writer.queue().clone();
        writer.later(length, move || {
            // Behind a record that is missing, later ones could not be found: after one failure nothing more is written.
            if !file.progress.has_failed() {
                match operation(&file) {
                    Ok(()) => file.progress.add(length),
                    Err(error) => {
                        file.progress.fail();
                        failures.tell(&error);
                    }
                }
            }
            queue.tell(&file.progress);
        });
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.disk.give_back(self.owner, self.end);
        // Closing may wait for the disk, too.
        let file = self.file.clone();
        self.disk.0.writer.later(0, move || drop(file));
    }
}
