//! Threads that read blocks of contents, for workers that await them.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::{DiskContent, content};

/// Threads: a disk that serves several reads at once is kept busy, and one slow read holds up no other.
#[doc(alias = "bound")]
const THREADS: usize = 4;

/// How long the first block is awaited: the next hop is asked then.
#[doc(alias = "bound")]
const FIRST: Duration = Duration::from_millis(250);

/// How long no one asks a folder that did not answer in time.
#[doc(alias = "bound")]
const STANDSTILL: Duration = Duration::from_secs(1);

/// How long a later block is awaited: then the answer breaks off.
#[doc(alias = "bound")]
const LATER: Duration = Duration::from_secs(10);

type ReaderJob = Box<dyn FnOnce() + Send>;

/// The threads.
pub(super) struct Readers {
    jobs: Sender<ReaderJob>,
    /// When the folder did not answer in time.
    stood_still: Mutex<Option<Instant>>,
}

/// A content that was opened.
pub(crate) enum Opened {
    /// Its first block fits its sum.
    Well(OpenContent),
    /// It is damaged, or gone.
    Damaged,
    /// The folder does not answer now.
    Late,
}

/// An open content. It can be read although its response is removed.
#[derive(Clone)]
pub(crate) struct OpenContent {
    content: DiskContent,
    file: Arc<File>,
    /// The bytes that were read last, and where they are.
    at: u64,
    bytes: Bytes,
}

impl Readers {
    /// Starts the threads, which end with this.
    ///
    /// # Errors
    /// The system starts none.
    pub(super) fn start() -> io::Result<Self> {
        let (jobs, queue) = mpsc::channel::<ReaderJob>();
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..THREADS {
            let queue = queue.clone();
            let builder = thread::Builder::new().name("cache-read".to_owned());
            builder.spawn(move || {
                while let Some(job) = next(&queue) {
                    job();
                }
            })?;
        }
        Ok(Self {
            jobs,
            stood_still: Mutex::new(None),
        })
    }

    /// Opens a content, and reads the block that holds this place.
    pub(super) async fn open(&self, content: DiskContent, at: u64) -> Opened {
        let stood_still = *self.stood_still.lock();
        if stood_still.is_some_and(|since| since.elapsed() < STANDSTILL) {
            return Opened::Late;
        }
        let opening = content.clone();
        let opened = self.run(move || {
            let missing = || io::Error::from(io::ErrorKind::NotFound);
            let file = File::open(opening.path().ok_or_else(missing)?)?;
            let bytes = content::read(&file, opening.id, opening.length, at)?;
            Ok((file, bytes))
        });
        match timeout(FIRST, opened).await {
            Ok(Ok((file, bytes))) => Opened::Well(OpenContent {
                content,
                file: Arc::new(file),
                at,
                bytes,
            }),
            Ok(Err(error)) => {
                tracing::warn!(file = content.id.0, %error, "a stored response cannot be read, and is forgotten");
                Opened::Damaged
            }
            Err(_) => {
                *self.stood_still.lock() = Some(Instant::now());
                Opened::Late
            }
        }
    }

    async fn run<T: Send + 'static>(
        &self,
        operation: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let (answer, answered) = oneshot::channel();
        let job = Box::new(move || drop(answer.send(operation())));
        let ended = |_| io::Error::other("the threads have ended");
        self.jobs.send(job).map_err(|_| ended(()))?;
        answered.await.map_err(|_| ended(()))?
    }
}

fn next(queue: &Mutex<Receiver<ReaderJob>>) -> Option<ReaderJob> {
    queue.lock().recv().ok()
}

impl OpenContent {
    /// Bytes of the content.
    pub(crate) fn length(&self) -> u64 {
        self.content.length
    }

    /// All of it.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub(crate) async fn read_all(mut self) -> io::Result<Bytes> {
        let length = usize::try_from(self.length()).unwrap_or(usize::MAX);
        let mut all = BytesMut::with_capacity(length);
        while all.len() < length {
            let bytes = self.read(all.len() as u64).await?;
            if bytes.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            all.extend_from_slice(&bytes);
        }
        Ok(all.freeze())
    }

    /// The bytes from a place on, to the end of their block; none at the end.
    ///
    /// # Errors
    /// The disk fails or stands still, or the block is damaged.
    pub(crate) async fn read(&mut self, at: u64) -> io::Result<Bytes> {
        let within = at
            .checked_sub(self.at)
            .and_then(|within| usize::try_from(within).ok());
        if let Some(within) = within.filter(|within| *within < self.bytes.len()) {
            return Ok(self.bytes.slice(within..));
        }
        if at >= self.content.length {
            return Ok(Bytes::new());
        }
        let file = self.file.clone();
        let id = self.content.id;
        let length = self.content.length;
        let readers = &self.content.state.readers;
        let read = readers.run(move || content::read(&file, id, length, at));
        let late = |_| io::Error::from(io::ErrorKind::TimedOut);
        let bytes = timeout(LATER, read).await.map_err(late)??;
        self.at = at;
        self.bytes = bytes.clone();
        Ok(bytes)
    }
}
