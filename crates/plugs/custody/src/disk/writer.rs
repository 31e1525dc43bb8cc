//! The thread that writes to the folder, in the order in which it is told to.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::patient::PATIENCE;

/// Bytes that may wait to be written: with more, neighbours are asked for no more than is guaranteed, and those who write wait.
#[doc(alias = "bound")]
const QUEUE: u64 = 8 * 1024 * 1024;

/// Bytes that an operation counts for beside those that it writes.
const OPERATION: u64 = 128;

/// The number of a file, for as long as the process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct LogId(pub(super) u64);

/// The written part of a file.
#[derive(Debug)]
pub(super) struct WriteProgress {
    id: LogId,
    written: AtomicU64,
    has_failed: AtomicBool,
    /// It is among those that have grown.
    is_told: AtomicBool,
}

/// Writes on a thread of its own.
#[derive(Debug)]
pub(super) struct WriterThread {
    operations: Sender<QueuedOperation>,
    queue: Arc<WriteQueue>,
}

struct QueuedOperation {
    cost: u64,
    operation: Box<dyn FnOnce() + Send>,
}

/// The operations that the thread has still to do, and the files that it has written.
#[derive(Debug, Default)]
pub(super) struct WriteQueue {
    /// Bytes that wait to be written.
    bytes: AtomicU64,
    /// When the operation began that is under way.
    began: Mutex<Option<Instant>>,
    /// Files of which more is settled than is known.
    grown: Mutex<Vec<Arc<WriteProgress>>>,
    /// Told of these.
    written: Notify,
    /// Held by a test while nothing is to be written.
    #[cfg(test)]
    pub(super) pause: Mutex<()>,
}

impl WriteProgress {
    /// Of a file that has so many bytes.
    pub(super) fn new(id: LogId, written: u64) -> Self {
        Self {
            id,
            written: AtomicU64::new(written),
            has_failed: AtomicBool::new(false),
            is_told: AtomicBool::new(false),
        }
    }

    pub(super) fn id(&self) -> LogId {
        self.id
    }

    /// Bytes that are in the file.
    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// So many more are.
    pub(super) fn add(&self, bytes: u64) {
        self.written.fetch_add(bytes, Ordering::Release);
    }

    /// Whether nothing more is written to the file.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }

    /// Nothing more is written to the file.
    pub(super) fn fail(&self) {
        self.has_failed.store(true, Ordering::Release);
    }
}

impl WriteQueue {
    /// More of a file is settled.
    pub(super) fn tell(&self, progress: &Arc<WriteProgress>) {
        // A file stands in the list once, however often it grows: the list is as long as there are files at most.
        if !progress.is_told.swap(true, Ordering::AcqRel) {
            self.grown.lock().push(progress.clone());
        }
        self.written.notify_one();
    }

    fn run(&self, queued: QueuedOperation) {
        #[cfg(test)]
        let _paused = self.pause.lock();
        // An operation that does not end is seen by its beginning: the thread itself can tell no one.
        *self.began.lock() = Some(Instant::now());
        (queued.operation)();
        *self.began.lock() = None;
        self.bytes.fetch_sub(queued.cost, Ordering::AcqRel);
    }
}

impl WriterThread {
    /// Starts the thread, which ends with this.
    ///
    /// # Errors
    /// The system starts none.
    pub(super) fn start() -> io::Result<Self> {
        let (operations, queued) = mpsc::channel::<QueuedOperation>();
        let queue = Arc::new(WriteQueue::default());
        let of_thread = queue.clone();
        let builder = thread::Builder::new().name("custody-disk".to_owned());
        builder.spawn(move || {
            for operation in queued {
                of_thread.run(operation);
            }
        })?;
        Ok(Self { operations, queue })
    }

    /// The operations of the thread.
    pub(super) fn queue(&self) -> &Arc<WriteQueue> {
        &self.queue
    }

    /// Does an operation that writes so many bytes, when its turn comes.
    pub(super) fn later(&self, bytes: u64, operation: impl FnOnce() + Send + 'static) {
        let cost = bytes + OPERATION;
        self.queue.bytes.fetch_add(cost, Ordering::AcqRel);
        let operation = Box::new(operation);
        // The thread ends with this at the earliest.
        drop(self.operations.send(QueuedOperation { cost, operation }));
    }

    /// Resolves when more of a file is settled.
    pub(super) async fn written(&self) {
        self.queue.written.notified().await;
    }

    /// The files of which more is settled than when this was asked last.
    pub(super) fn take_grown(&self) -> Vec<LogId> {
        let grown = std::mem::take(&mut *self.queue.grown.lock());
        let told = grown.iter().map(|progress| {
            // The caller reads `written` after this: growth before it is seen then, and growth after it lists the file again.
            progress.is_told.swap(false, Ordering::AcqRel);
            progress.id
        });
        told.collect()
    }

    /// Whether an operation takes longer than anyone waits.
    pub(super) fn stands_still(&self) -> bool {
        let began = *self.queue.began.lock();
        began.is_some_and(|began| began.elapsed() >= PATIENCE)
    }

    /// When the folder stands still if nothing is done before; `None` if there is nothing to do.
    pub(super) fn patience_ends(&self, now: Instant) -> Option<Instant> {
        if self.stands_still() || self.queue.bytes.load(Ordering::Acquire) == 0 {
            return None;
        }
        let began = *self.queue.began.lock();
        Some(began.unwrap_or(now) + PATIENCE)
    }

    /// Whether as much waits as may. A folder that stands still holds no one up.
    pub(super) fn is_full(&self) -> bool {
        self.queue.bytes.load(Ordering::Acquire) >= QUEUE && !self.stands_still()
    }

    /// Whether there is something to do, or something was done and not [taken](Self::take_grown).
    pub(super) fn is_busy(&self) -> bool {
        self.queue.bytes.load(Ordering::Acquire) > 0 || !self.queue.grown.lock().is_empty()
    }
}

impl Drop for WriterThread {
    fn drop(&mut self) {
        if self.stands_still() {
            return;
        }
        // The folder is free for another process behind the last operation.
        let (done, is_done) = mpsc::sync_channel(1);
        self.later(0, move || {
            let _ = done.send(());
        });
        let _ = is_done.recv_timeout(PATIENCE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_done_in_their_order_and_counted_until_they_are() {
        let writer = WriterThread::start().unwrap();
        let paused = writer.queue().pause.lock();
        let progress = Arc::new(WriteProgress::new(LogId(7), 0));
        let mut waiting = 0;
        while !writer.is_full() {
            let queue = writer.queue().clone();
            let progress = progress.clone();
            writer.later(4096, move || {
                progress.add(4096);
                queue.tell(&progress);
            });
            waiting += 4096;
        }
        assert_eq!(progress.written(), 0);
        assert!(writer.take_grown().is_empty());

        drop(paused);
        let (done, is_done) = mpsc::channel();
        writer.later(0, move || done.send(()).unwrap());
        is_done.recv().unwrap();
        assert_eq!(progress.written(), waiting);
        assert_eq!(
            writer.take_grown(),
            [LogId(7)],
            "once, however often it grew"
        );
    }
}
