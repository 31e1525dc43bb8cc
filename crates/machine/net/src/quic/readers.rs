//! The receiving sides of a connection's streams: whether something waits to be read on each, and for how long it has.

use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use parking_lot::Mutex;

use super::error::ReadError;
use super::send::code_of;

/// Looks, one a second, after which a reader that read nothing stands still, if there was something
/// to read.
#[doc(alias = "bound")]
const STILL: u32 = 2;

/// The code of a stream that is ended for it: H3_EXCESSIVE_LOAD (RFC 9114 section 8.1).
const EXCESSIVE_LOAD: u64 = 0x107;

/// The bit of a stream ID for unidirectional streams (RFC 9000 section 2.1), which do not carry
/// exchanges.
const UNIDIRECTIONAL: u64 = 2;

/// The readers of a connection's streams.
#[derive(Debug, Default)]
pub(super) struct Readers {
    /// Bytes that they have taken, all in all.
    read: AtomicU64,
    /// How many have something to read.
    fed: AtomicUsize,
    /// Streams of exchanges, by their stream ID.
    exchanges: Mutex<HashMap<u64, Watched>>,
}

/// How a reader was when it was looked at last.
#[derive(Debug)]
struct Watched {
    reader: Weak<Reader>,
    reads: u32,
    /// For how many looks it has read nothing.
    still: u32,
}

/// The receiving side of one stream.
#[derive(Debug)]
pub(super) struct Reader {
    id: u64,
    is_early: bool,
    readers: Arc<Readers>,
    /// Until it is let go.
    stream: Mutex<Option<quinn::RecvStream>>,
    /// There is something to read: there was the last time, or something has come since.
    fed: AtomicBool,
    /// Something has come since it was read last.
    came: AtomicBool,
    /// How often something was read.
    reads: AtomicU32,
    /// The stream was ended, because it was stalled.
    ended: AtomicBool,
    waiting: Mutex<Option<Waker>>,
}

impl Readers {
    /// Bytes that were taken, all in all.
    pub(super) fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// How many streams have something to read, as far as is known.
    pub(super) fn fed(&self) -> usize {
        self.fed.load(Ordering::Relaxed)
    }

    /// To be called once a second: how many stand still.
    pub(super) fn look(&self) -> usize {
        let mut still = 0;
        for watched in self.exchanges.lock().values_mut() {
            watched.look();
            still += usize::from(watched.still >= STILL);
        }
        still
    }

    /// Ends those that stand still, the longest first, `most` at most. How many it has ended.
    pub(super) fn end(&self, most: usize) -> usize {
        let mut still: Vec<(u32, Arc<Reader>)> = Vec::new();
        for watched in self
            .exchanges
            .lock()
            .values()
            .filter(|watched| watched.still >= STILL)
        {
            still.extend(
                watched
                    .reader
                    .upgrade()
                    .map(|reader| (watched.still, reader)),
            );
        }

        still.sort_by_key(|(looks, _)| std::cmp::Reverse(*looks));
        still
            .iter()
            .take(most)
            .filter(|(_, reader)| reader.end())
            .count()
    }
}

impl Watched {
    fn look(&mut self) {
        let Some(reader) = self.reader.upgrade() else {
            return;
        };
        let reads = reader.reads.load(Ordering::Relaxed);
        let stands = reads == self.reads && reader.fed.load(Ordering::Relaxed);
        self.still = if stands {
            self.still.saturating_add(1)
        } else {
            0
        };

        self.reads = reads;
    }
}

impl Reader {
    pub(super) fn new(stream: quinn::RecvStream, readers: &Arc<Readers>) -> Arc<Self> {
        let id = quinn::VarInt::from(stream.id()).into_inner();
        let reader = Arc::new(Self {
            id,
            is_early: stream.is_0rtt(),
            readers: readers.clone(),
            stream: Mutex::new(Some(stream)),
            fed: AtomicBool::new(false),
            came: AtomicBool::new(false),
            reads: AtomicU32::new(0),
            ended: AtomicBool::new(false),
            waiting: Mutex::default(),
        });

        // Control streams may stand still for hours: only exchanges are watched.
        if id & UNIDIRECTIONAL == 0 {
            let watched = Watched {
                reader: Arc::downgrade(&reader),
                reads: 0,
                still: 0,
            };
            readers.exchanges.lock().insert(id, watched);
        }

        reader
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    pub(super) fn is_early(&self) -> bool {
        self.is_early
    }

    /// The next bytes. `woken` is the waker of this reader itself, which so learns of bytes that
    /// arrive between polls.
    pub(super) fn poll_read(
        &self,
        cx: &Context<'_>,
        woken: &Waker,
        most: usize,
    ) -> Poll<Result<Option<Bytes>, ReadError>> {
        let mut stream = self.stream.lock();
        if self.ended.load(Ordering::Relaxed) {
            return Poll::Ready(Err(ReadError::Still));
        }

        let Some(stream) = stream.as_mut() else {
            return Poll::Ready(Err(ReadError::Closed));
        };
        // Before the poll: bytes that arrive during it set this again, and are not missed.
        self.came.store(false, Ordering::SeqCst);

        // The waker is kept by the connection, not by the future.
        let polled = pin!(stream.read_chunk(most, true)).poll(&mut Context::from_waker(woken));
        match &polled {
            Poll::Ready(Ok(Some(chunk))) => {
                self.readers
                    .read
                    .fetch_add(chunk.bytes.len() as u64, Ordering::Relaxed);
                self.reads.fetch_add(1, Ordering::Relaxed);
                self.feed(true);
            }
            Poll::Ready(_) => self.feed(false),
            Poll::Pending => self.wait(cx),
        }

        polled.map(|chunk| Ok(chunk?.map(|chunk| chunk.bytes)))
    }

    /// No bytes: the asker is woken when some arrive.
    fn wait(&self, cx: &Context<'_>) {
        *self.waiting.lock() = Some(cx.waker().clone());
        self.feed(false);
        // Bytes may have come after the poll and before the waker was in place: nothing else would tell.
        if self.came.load(Ordering::SeqCst) {
            self.feed(true);
            cx.waker().wake_by_ref();
        }
    }

    /// Ready once the stream was ended because it was stalled. Arriving bytes wake the task, too,
    /// if it has asked for some before.
    pub(super) fn poll_still(&self, cx: &Context<'_>) -> Poll<ReadError> {
        *self.waiting.lock() = Some(cx.waker().clone());
        match self.ended.load(Ordering::SeqCst) {
            true => Poll::Ready(ReadError::Still),
            false => Poll::Pending,
        }
    }

    /// Tells the peer to stop.
    pub(super) fn stop(&self, code: u64) {
        if let Some(stream) = self.stream.lock().as_mut() {
            // Only a stream that has ended refuses.
            let _ = stream.stop(code_of(code));
        }
    }

    /// Gives back the room of unread bytes; false if there is no stream any more.
    fn end(&self) -> bool {
        let mut stream = self.stream.lock();
        let stopped = stream
            .as_mut()
            .is_some_and(|stream| stream.stop(code_of(EXCESSIVE_LOAD)).is_ok());
        if stopped {
            self.ended.store(true, Ordering::SeqCst);
        }

        drop(stream);
        self.feed(false);
        self.wake_waiting();

        stopped
    }

    /// Releases the stream. Before its end, it tells the peer to stop.
    pub(super) fn close(&self) {
        self.readers.exchanges.lock().remove(&self.id);
        // Out of the lock before it is dropped: that sends STOP_SENDING, under the lock of the connection.
        let stream = self.stream.lock().take();
        drop(stream);
        self.feed(false);
    }

    fn feed(&self, fed: bool) {
        // Most often it is as it was, and no one else need hear of it.
        if self.fed.load(Ordering::SeqCst) == fed || self.fed.swap(fed, Ordering::SeqCst) == fed {
            return;
        }
        match fed {
            true => self.readers.fed.fetch_add(1, Ordering::Relaxed),
            false => self.readers.fed.fetch_sub(1, Ordering::Relaxed),
        };
    }

    fn wake_waiting(&self) {
        let waiting = self.waiting.lock().take();
        waiting.into_iter().for_each(Waker::wake);
    }
}

/// Something has come.
impl Wake for Reader {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.came.store(true, Ordering::SeqCst);
        self.feed(true);
        self.wake_waiting();
    }
}
