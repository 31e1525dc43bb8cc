//! The driver of a connection: the only one who reads and writes its socket.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hermes_net::{Stream, clock};
use hermes_proto::h2::{FrameBatch, Reason};
use tokio::io::{AsyncRead, AsyncWrite};

use super::bandwidth::{Bandwidth, Finding};
use super::dispatch::News;
use super::over::Over;
use super::piece::Piece;
use super::read_buffer::ReadBuffer;
use super::shared::Joint;
use super::turn_length::TurnLength;
use super::unfinished::{IncompleteInput, UnfinishedSection};
use super::{STREAM_WINDOW, windows};

/// Rounds in which heads are decoded before others have their turn on the worker, 256 KiB of them in each: few bytes can be many.
const ROUNDS: usize = 8;

/// Slices that are written at once.
const SLICES: usize = 64;

/// Bytes of frames, but DATA, that wait for a peer who takes nothing before no more is read of it.
#[doc(alias = "bound")]
const BACKLOG: usize = 64 * 1024;

/// A socket with its machine.
pub(crate) struct ConnectionDriver<S> {
    stream: S,
    joint: Arc<Joint>,
    input: ReadBuffer,
    /// Some input is to be handled before more is read.
    is_behind: bool,
    /// Bytes that the machine has taken.
    taken: u64,
    batch: FrameBatch<Piece>,
    /// Something was written since the last flush.
    is_unflushed: bool,
    turn: TurnLength,
    news: VecDeque<News>,
    /// The bandwidth of a link, with which its windows grow.
    bandwidth: Option<Bandwidth>,
    /// Guards the sections of a stranger, who may never end one.
    unfinished: Option<UnfinishedSection>,
}

impl<S> Drop for ConnectionDriver<S> {
    fn drop(&mut self) {
        self.joint.end(Over::Closed);
    }
}

impl<S: AsyncRead + AsyncWrite + AsMut<Stream> + Unpin> ConnectionDriver<S> {
    pub(crate) fn new(mut stream: S, joint: &Arc<Joint>) -> Self {
        let longest = joint.core().machine.longest_batch();
        stream.as_mut().limit_unsent(longest as u32);
        Self {
            stream,
            joint: joint.clone(),
            input: ReadBuffer::new(),
            is_behind: false,
            taken: 0,
            batch: FrameBatch::default(),
            is_unflushed: false,
            turn: TurnLength::default(),
            news: VecDeque::new(),
            bandwidth: None,
            unfinished: None,
        }
    }

    /// Bounds the cost of an incomplete field section of the peer, and the time it may take.
    pub(crate) fn guarded(mut self, patience: Duration) -> Self {
        self.unfinished = Some(UnfinishedSection::new(patience));
        self
    }

    /// Measures the bytes of a round trip, and how large windows should be: [`News::Grow`].
    pub(crate) fn measuring(mut self) -> Self {
        self.bandwidth = Some(Bandwidth::new(STREAM_WINDOW, windows::most()));
        self
    }

    /// The next event for the owner; `None` when the connection is over.
    pub(crate) async fn next(&mut self) -> Option<News> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Goes on until the connection is over.
    pub(crate) async fn run(&mut self) {
        while self.next().await.is_some() {}
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<News>> {
        loop {
            if let Some(news) = self.news.pop_front() {
                return Poll::Ready(Some(news));
            }
            match ready!(self.poll_turn(cx)) {
                Ok(false) => {}
                Ok(true) => {
                    let failure = self.joint.core().machine.failure();
                    self.joint.end(failure.map_or(Over::Closed, Over::Failed));
                    return Poll::Ready(None);
                }
                Err(error) => {
                    self.joint.end(Over::io(error));
                    return Poll::Ready(None);
                }
            }
        }
    }

    /// Writes all there is, then reads once; true at the end. Pending when neither is possible.
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        // Output first: what the machine has to say may be what the peer waits for before it sends more.
        let written = self.poll_write(cx)?;
        if !self.news.is_empty() {
            return Poll::Ready(Ok(false));
        }

        let mut core = self.joint.core();
        if core.is_left && !core.machine.has_streams() {
            core.machine.leave();
            // A full socket wakes this task once it has room: polling again before that would loop, and never yield the worker.
            if written.is_ready() && core.machine.has_output() {
                drop(core);
                return Poll::Ready(Ok(false));
            }
        }

        let is_done = core.machine.failure().is_some() || core.machine.is_over();
        let backlog = core.machine.backlog();
        drop(core);

        if is_done && written.is_ready() {
            // The last frames, GOAWAY among them, have been written: FIN goes after them.
            ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
            return Poll::Ready(Ok(true));
        }

        // A peer that sends requests and reads no answers must not fill the queue of frames: its own input waits for that.
        if is_done || backlog > BACKLOG {
            return Poll::Pending;
        }
        match self.poll_read(cx)? {
            Poll::Ready(_) if self.is_behind => {
                // Behind: other connections of this thread get their turn, and then the rest is handled.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(is_end) => return Poll::Ready(Ok(is_end)),
            Poll::Pending => {}
        }
        if self.is_section_late(cx) {
            return Poll::Ready(Ok(false));
        }

        // Where the socket is full, it is the socket that wakes.
        if self.batch.is_empty() {
            let mut core = self.joint.core();
            // Something may have been queued since it was looked at.
            if core.machine.has_output() {
                return Poll::Ready(Ok(false));
            }
            // Under the lock, together with the look: a command of another task either is seen or wakes this one.
            core.driver = Some(cx.waker().clone());
        }

        Poll::Pending
    }

    /// Whether a field section has taken too long; the connection has failed then.
    fn is_section_late(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(unfinished) = &mut self.unfinished else {
            return false;
        };
        let Poll::Ready(words) = unfinished.poll_late(cx) else {
            return false;
        };

        let machine = &mut self.joint.core().machine;
        machine.abort(Reason::ENHANCE_YOUR_CALM, words);
        true
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            // Filled only when it is empty: the order of bytes in a batch cannot change any more.
            if self.batch.is_empty() {
                let mut core = self.joint.core();
                core.machine.transmit(&mut self.batch);
                if std::mem::take(&mut core.is_head_waiting) {
                    self.joint.departed.notify_waiters();
                }
                self.joint.dispatch(&mut core, &mut self.news);
            }

            if self.batch.is_empty() {
                break;
            }
            let mut slices = [IoSlice::new(&[]); SLICES];
            let count = self.batch.slices(&mut slices);
            let stream = Pin::new(&mut self.stream);
            let written = ready!(stream.poll_write_vectored(cx, &slices[..count]))?;

            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.is_unflushed = true;
            self.batch.advance(written);
            if let Some(turn) = self.turn.wrote(written, || clock::now().into_std()) {
                self.set_turn(turn);
            }
        }

        // TLS may hold records back until it is flushed.
        if self.is_unflushed {
            ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
            self.is_unflushed = false;
        }

        Poll::Ready(Ok(()))
    }

    /// Has the system hold back about as much as a batch of such turns: less would leave a fast link idle between two writes.
    fn set_turn(&mut self, bytes: usize) {
        let machine = &mut self.joint.core().machine;
        let before = machine.longest_batch();
        machine.set_turn(bytes);

        let longest = machine.longest_batch();
        if longest != before {
            self.stream.as_mut().limit_unsent(longest as u32);
        }
    }

    /// True at the end of the connection.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        if !self.is_behind {
            let read = ready!(self.input.poll_fill(&mut self.stream, cx))?;
            if read == 0 {
                return Poll::Ready(Ok(true));
            }
            self.joint.note_heard();
        }

        let here = self.input.len();
        let now = clock::now().into_std();
        let mut core = self.joint.core();
        self.is_behind = true;
        // A bounded number of rounds: the lock is held, and a peer can pack thousands of small frames into one read.
        for _ in 0..ROUNDS {
            self.is_behind = !core.machine.handle(self.input.bytes_mut(), now);
            self.joint.dispatch(&mut core, &mut self.news);
            if !self.is_behind {
                break;
            }
        }

        self.taken += (here - self.input.len()) as u64;
        // Otherwise, whole frames wait as well.
        let is_caught_up = !self.is_behind;
        if let Some(unfinished) = self.unfinished.as_mut().filter(|_| is_caught_up) {
            let section = core.machine.unfinished();
            let incomplete = IncompleteInput::of(section, self.taken, self.input.len());
            if let Err(words) = unfinished.note(self.joint.arrivals.account().peer(), incomplete) {
                core.machine.abort(Reason::ENHANCE_YOUR_CALM, words);
            }
        }

        if let Some(bandwidth) = &mut self.bandwidth {
            let arrived = self.joint.arrivals.account().arrived();
            let pongs = self.joint.pongs.load(Ordering::Relaxed);
            match bandwidth.handle(arrived, pongs, now) {
                Some(Finding::Measure) => core.machine.ping(),
                Some(Finding::Grow(window)) => self.news.push_back(News::Grow(window)),
                None => {}
            }
        }

        Poll::Ready(Ok(false))
    }
}
