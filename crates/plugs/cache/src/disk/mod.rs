//! Stored responses on disk: a file for the content of each, and one for its head, so that they are there after a restart.
//!
//! A response is complete once its head's file has its name, which it gets when the content is written. All of it is done by threads
//! of this module: a worker waits for none of them, but awaits blocks that it reads. Blocks are checked as they are read: a damaged response is
//! not there. A folder that is full, fails or stands still costs the responses that would be in it, and no request.
//!
//! Custody keeps exchanges on disk in another way, and shares nothing with this but the idea: it appends the pieces of contents that are still
//! coming, in any order, to one log of each exchange, and reads with the worker waiting; here whole contents are written once, found by their heads, read from
//! anywhere in them, and removed one by one.

mod content;
mod folder;
mod reader;

use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::oneshot;

pub(crate) use content::FileId;
use folder::Folder;
pub(crate) use folder::prepare;
use reader::Readers;
pub(crate) use reader::{OpenContent, Opened};

/// Bytes that may wait to be written: responses beyond are kept in memory alone.
#[doc(alias = "bound")]
const QUEUE: u64 = 16 << 20;

/// How long nothing is written after a failure, such as a full disk.
#[doc(alias = "bound")]
const PAUSE: Duration = Duration::from_secs(10);

/// How often failures are logged.
#[doc(alias = "bound")]
const TOLD_EVERY: Duration = Duration::from_secs(60);

/// How often a folder is asked for that another process has, such as the one before this one.
#[doc(alias = "bound")]
const RETRY: Duration = Duration::from_secs(1);

/// How long one waits for the removal of files.
#[doc(alias = "bound")]
const REMOVAL: Duration = Duration::from_millis(250);

/// Bytes that two files take beside their own: half a block of the file system each, and their entries in it.
const BESIDE: u64 = 8 << 10;

/// Bytes of a head's file; a longer one is damaged.
#[doc(alias = "bound")]
const LONGEST_HEAD: u64 = 1 << 20;

/// The stored responses on disk.
pub(crate) struct Disk {
    jobs: Sender<WriterJob>,
    state: Arc<DiskState>,
}

/// State that the threads share with the workers.
struct DiskState {
    path: PathBuf,
    /// Once the folder is this process's own.
    folder: OnceLock<Folder>,
    /// The number of the next files.
    next: AtomicU64,
    /// Bytes that wait to be written.
    queued: AtomicU64,
    failures: Mutex<Failures>,
    readers: Readers,
}

#[derive(Default)]
struct Failures {
    count: u64,
    last: Option<Instant>,
    told: Option<Instant>,
}

/// The content of a response on disk.
#[derive(Clone)]
pub(crate) struct DiskContent {
    state: Arc<DiskState>,
    id: FileId,
    length: u64,
}

/// A response that is going to be on disk.
pub(crate) struct Keeping {
    pub(crate) id: FileId,
    /// Its head, as it is read again.
    pub(crate) head: Vec<u8>,
    pub(crate) content: Bytes,
}

/// Learns whether a response was written; on the thread of the disk.
pub(crate) type Then = Box<dyn FnOnce(io::Result<DiskContent>) + Send>;

/// Reads the files that are there, when the folder was taken; on the thread of the disk.
pub(crate) type Load = Box<dyn FnOnce(&LoadedFiles<'_>) + Send>;

enum WriterJob {
    Keep(Keeping, Then),
    /// Another head for a content that is there.
    Renew(FileId, Vec<u8>),
    Remove(FileId),
    /// All before this is done.
    Done(oneshot::Sender<()>),
}

impl Keeping {
    /// Bytes that it takes on disk.
    pub(crate) fn bytes(&self) -> u64 {
        let content = content::file_length(self.content.len() as u64);
        content + self.head.len() as u64 + BESIDE
    }
}

impl Disk {
    /// Takes a folder, on a thread, as soon as no other process has it; its files are loaded then.
    ///
    /// # Errors
    /// The system starts no thread.
    pub(crate) fn start(path: &Path, load: Load) -> io::Result<Self> {
        let (jobs, queue) = mpsc::channel();
        let state = Arc::new(DiskState {
            path: path.to_owned(),
            folder: OnceLock::new(),
            next: AtomicU64::new(0),
            queued: AtomicU64::new(0),
            failures: Mutex::default(),
            readers: Readers::start()?,
        });
        let writer = Writer {
            state: state.clone(),
        };
        let builder = thread::Builder::new().name("cache-disk".to_owned());
        builder.spawn(move || writer.run(load, &queue))?;
        Ok(Self { jobs, state })
    }

    /// Its folder.
    pub(crate) fn path(&self) -> &Path {
        &self.state.path
    }

    /// Failures to write or read since the start.
    pub(crate) fn failures(&self) -> u64 {
        self.state.failures.lock().count
    }

    /// The number of new files; `None` where nothing can be written now.
    pub(crate) fn next(&self) -> Option<FileId> {
        let is_busy = self.state.queued.load(Ordering::Relaxed) > QUEUE;
        if self.state.folder.get().is_none() || is_busy || self.state.is_paused() {
            return None;
        }
        Some(FileId(self.state.next.fetch_add(1, Ordering::Relaxed)))
    }

    /// Writes a response, when its turn comes.
    pub(crate) fn keep(&self, keeping: Keeping, then: Then) {
        let bytes = keeping.bytes();
        self.state.queued.fetch_add(bytes, Ordering::Relaxed);
        self.queue(WriterJob::Keep(keeping, then));
    }

    /// Writes the head of a response whose content is there under this number. Where that fails, its files are removed: who reads
    /// them next finds none, and forgets the response.
    pub(crate) fn renew(&self, id: FileId, head: Vec<u8>) {
        self.queue(WriterJob::Renew(id, head));
    }

    /// Removes the files of a response, when their turn comes.
    pub(crate) fn remove(&self, id: FileId) {
        self.queue(WriterJob::Remove(id));
    }

    /// Resolves when all removals so far are done, so that not even a process that is killed finds these responses again; or after a moment,
    /// where the folder stands still.
    pub(crate) async fn settled(&self) -> bool {
        let (done, is_done) = oneshot::channel();
        self.queue(WriterJob::Done(done));
        matches!(tokio::time::timeout(REMOVAL, is_done).await, Ok(Ok(())))
    }

    /// As [`Self::settled`], for a thread that may wait.
    pub(crate) fn wait_settled(&self) -> bool {
        let (done, mut is_done) = oneshot::channel();
        self.queue(WriterJob::Done(done));
        let until = Instant::now() + REMOVAL;
        while Instant::now() < until {
            match is_done.try_recv() {
                Err(oneshot::error::TryRecvError::Empty) => thread::sleep(REMOVAL / 250),
                ended => return ended.is_ok(),
            }
        }
        false
    }

    fn queue(&self, job: WriterJob) {
        // The thread ends after this.
        let _ = self.jobs.send(job);
    }
}

impl DiskState {
    /// The folder, for the thread that has taken it.
    fn folder(&self) -> &Folder {
        self.folder.get().expect("it was taken")
    }

    fn is_paused(&self) -> bool {
        let last = self.failures.lock().last;
        last.is_some_and(|last| last.elapsed() < PAUSE)
    }

    /// Logs a failure, but not those that follow soon.
    fn failed(&self, error: &io::Error) {
        let now = Instant::now();
        let mut failures = self.failures.lock();
        failures.count += 1;
        failures.last = Some(now);
        let is_told = |told: Instant| now.saturating_duration_since(told) < TOLD_EVERY;
        if failures.told.is_some_and(is_told) {
            return;
        }
        failures.told = Some(now);
        drop(failures);
        let path = self.path.display();
        tracing::error!(%path, %error, "the cache continues in memory: give the disk room, or name another folder in plugs.cache.disk.path");
    }
}

impl DiskContent {
    /// Opens it, and reads the block that holds this place.
    pub(crate) async fn open(&self, at: u64) -> Opened {
        self.state.readers.open(self.clone(), at).await
    }

    /// Bytes of the content.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    fn path(&self) -> Option<PathBuf> {
        Some(self.state.folder.get()?.content(self.id))
    }
}

/// The thread that writes.
struct Writer {
    state: Arc<DiskState>,
}

impl Writer {
    fn run(self, load: Load, queue: &Receiver<WriterJob>) {
        if !self.take() {
            return;
        }
        load(&LoadedFiles { state: &self.state });
        for job in queue {
            match job {
                WriterJob::Keep(keeping, then) => self.keep(keeping, then),
                WriterJob::Renew(id, head) => self.renew(id, &head),
                WriterJob::Remove(id) => self.state.folder().remove(id),
                WriterJob::Done(done) => {
                    let _ = done.send(());
                }
            }
        }
    }

    /// Takes the folder; false where that is in vain.
    fn take(&self) -> bool {
        // No one but this thread knows of it: the process has given it up.
        while Arc::strong_count(&self.state) > 1 {
            match Folder::take(&self.state.path) {
                Ok(Some(folder)) => {
                    // New numbers lie behind all that were ever given.
                    let last = folder.ids().ok().and_then(|ids| ids.last().copied());
                    let next = last.map_or(0, |last| last.0.wrapping_add(1));
                    self.state.next.store(next, Ordering::Relaxed);
                    let _ = self.state.folder.set(folder);
                    return true;
                }
                Ok(None) => {}
                Err(error) => self.state.failed(&error),
            }
            thread::sleep(RETRY);
        }
        false
    }

    fn keep(&self, keeping: Keeping, then: Then) {
        let written = self.write(&keeping);
        self.state
            .queued
            .fetch_sub(keeping.bytes(), Ordering::Relaxed);
        if let Err(error) = &written {
            self.state.folder().remove(keeping.id);
            self.state.failed(error);
        }
        then(written.map(|()| DiskContent {
            state: self.state.clone(),
            id: keeping.id,
            length: keeping.content.len() as u64,
        }));
    }

    fn write(&self, keeping: &Keeping) -> io::Result<()> {
        let path = self.state.folder().content(keeping.id);
        let file = Folder::create(&path)?;
        content::write(&file, keeping.id, &keeping.content)?;
        self.write_head(keeping.id, &keeping.head)
    }

    fn write_head(&self, id: FileId, head: &[u8]) -> io::Result<()> {
        let folder = self.state.folder();
        let file = Folder::create(&folder.new_head(id))?;
        file.write_all_at(head, 0)?;
        // Whole or not at all.
        std::fs::rename(folder.new_head(id), folder.head(id))
    }

    fn renew(&self, id: FileId, head: &[u8]) {
        if let Err(error) = self.write_head(id, head) {
            self.state.failed(&error);
            // The older head promises what the origin may have taken back.
            self.state.folder().remove(id);
        }
    }
}

/// The files of a folder that was taken.
pub(crate) struct LoadedFiles<'a> {
    state: &'a Arc<DiskState>,
}

impl LoadedFiles<'_> {
    /// The folder.
    pub(crate) fn path(&self) -> &Path {
        &self.state.path
    }

    /// The numbers of responses, whole or not; none if the folder cannot be read.
    pub(crate) fn ids(&self) -> Vec<FileId> {
        self.state.folder().ids().unwrap_or_else(|error| {
            self.state.failed(&error);
            Vec::new()
        })
    }

    /// The seconds of the machine's clock when something was written last. Where no one knows, that is later than any moment.
    pub(crate) fn written(&self) -> u64 {
        self.state.folder().written().unwrap_or(u64::MAX)
    }

    /// The head of a response; `None` if it is not whole.
    pub(crate) fn head(&self, id: FileId) -> Option<Vec<u8>> {
        let path = self.state.folder().head(id);
        let size = std::fs::metadata(&path).ok()?.len();
        if size > LONGEST_HEAD {
            return None;
        }
        std::fs::read(&path).ok()
    }

    /// The content of a response with this head and length, and the bytes of both on disk; `None` if it is not whole.
    pub(crate) fn content(
        &self,
        id: FileId,
        head: &[u8],
        length: u64,
    ) -> Option<(DiskContent, u64)> {
        let path = self.state.folder().content(id);
        let size = std::fs::metadata(path).ok()?.len();
        if size != content::file_length(length) {
            return None;
        }
        let content = DiskContent {
            state: self.state.clone(),
            id,
            length,
        };
        Some((content, size + head.len() as u64 + BESIDE))
    }

    /// Removes a response.
    pub(crate) fn remove(&self, id: FileId) {
        self.state.folder().remove(id);
    }
}
