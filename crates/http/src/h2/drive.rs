//! The driver of a connection: the only one who reads and writes its socket.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::BytesMut;
use hermes_net::{Stream, clock};
use hermes_proto::h2::{FrameBatch, Reason};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

use super::bandwidth::{Bandwidth, Finding};
use super::over::Over;
use super::piece::Piece;
use super::shared::{Joint, News};
use super::turn_length::TurnLength;
use super::unfinished::UnfinishedSection;
use super::{STREAM_WINDOW, windows};

/// Bytes that are read at once on a quiet connection.
const READ: usize = 8 * 1024;

/// Bytes that are read at once where a lot comes.
#[doc(alias = "bound")]
const READ_BULK: usize = 128 * 1024;

/// Bytes that are read where room is to be made first.
const FEW: usize = 256;

/// Rounds in which heads are decoded before others have their turn on the worker, 256 KiB of them in each: few bytes can be many.
const ROUNDS: usize = 8;

/// Slices that are written at once.
const SLICES: usize = 64;

/// Bytes of frames, but DATA, that wait for a peer who takes nothing before no more is read of it.
#[doc(alias = "bound")]
const BACKLOG: usize = 64 * 1024;

/// A socket with its machine.
pub(super) struct ConnectionDriver<S> {
    stream: S,
    joint: Arc<Joint>,
    input: BytesMut,
    /// How much is read next.
    appetite: usize,
    /// The last read filled its room.
    is_hungry: bool,
    /// Some of what was read is to be handled before more is read.
    is_behind: bool,
    batch: FrameBatch<Piece>,
    /// Something was written since the last flush.
    is_unflushed: bool,
    turn: TurnLength,
    news: VecDeque<News>,
    /// Of a link, whose windows grow with it.
    bandwidth: Option<Bandwidth>,
    /// Of a stranger, who may leave it as it is.
    unfinished: Option<UnfinishedSection>,
}

impl<S> Drop for ConnectionDriver<S> {
    fn drop(&mut self) {
        self.joint.end(Over::Closed);
    }
}

impl<S: AsyncRead + AsyncWrite + AsMut<Stream> + Unpin> ConnectionDriver<S> {
    pub(super) fn new(mut stream: S, joint: &Arc<Joint>) -> Self {
        let longest = joint.core().machine.longest_batch();
        stream.as_mut().limit_unsent(longest as u32);
        Self {
            stream,
            joint: joint.clone(),
            input: BytesMut::new(),
            appetite: READ,
            is_hungry: false,
            is_behind: false,
            batch: FrameBatch::default(),
            is_unflushed: false,
            turn: TurnLength::default(),
            news: VecDeque::new(),
            bandwidth: None,
            unfinished: None,
        }
    }

    /// Holds the peer to what a field section may cost while it is not whole, and to the time that it may take.
    pub(super) fn guarded(mut self, patience: Duration) -> Self {
        self.unfinished = Some(UnfinishedSection::new(patience));
        self
    }

    /// Finds out what comes within a round trip, and how large windows should be: [`News::Grow`].
    pub(super) fn measuring(mut self) -> Self {
        self.bandwidth = Some(Bandwidth::new(STREAM_WINDOW, windows::most()));
        self
    }

    /// What the owner is to deal with; `None` when the connection is over.
    pub(super) async fn next(&mut self) -> Option<News> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Goes on until the connection is over.
    pub(super) async fn run(&mut self) {
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
        let written = self.poll_write(cx)?;
        if !self.news.is_empty() {
            return Poll::Ready(Ok(false));
        }

        let mut core = self.joint.core();
        if core.is_left && !core.machine.has_streams() {
            core.machine.leave();
            if core.machine.has_output() {
                drop(core);
                return Poll::Ready(Ok(false));
            }
        }

        let is_done = core.machine.failure().is_some() || core.machine.is_over();
        let backlog = core.machine.backlog();
        drop(core);

        if is_done && written.is_ready() {
            ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
            return Poll::Ready(Ok(true));
        }

        if is_done || backlog > BACKLOG {
            return Poll::Pending;
        }
        match self.poll_read(cx)? {
            Poll::Ready(_) if self.is_behind => {
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

    /// Reads once: how much, and how much there was room for.
    fn poll_input(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<(usize, usize)>> {
        let is_short = self.input.capacity() - self.input.len() < self.appetite / 2;
        if is_short && !self.input.try_reclaim(self.appetite) {
            // What was read last is still in use, and most of the time nothing follows at once: room is made when something does.
            if !self.is_hungry {
                let mut few = [0; FEW];
                let mut buffer = ReadBuf::new(&mut few);
                ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer))?;

                self.input.reserve(self.appetite);
                self.input.extend_from_slice(buffer.filled());
                return Poll::Ready(Ok((buffer.filled().len(), FEW)));
            }
            self.input.reserve(self.appetite);
        }

        let room = self.input.capacity() - self.input.len();
        let read = ready!(pin!(self.stream.read_buf(&mut self.input)).poll(cx))?;
        Poll::Ready(Ok((read, room)))
    }

    /// How much is read next, after so many bytes where there was room for so many.
    fn note_read(&mut self, read: usize, room: usize) {
        // A read that fills its room has left something behind.
        self.is_hungry = read == room;
        self.appetite = if self.is_hungry {
            (self.appetite * 2).min(READ_BULK)
        } else if read < self.appetite / 8 {
            READ
        } else {
            self.appetite
        };
    }

    /// True at the end of the connection.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        if !self.is_behind {
            let (read, room) = ready!(self.poll_input(cx))?;
            if read == 0 {
                return Poll::Ready(Ok(true));
            }

            self.note_read(read, room);
            self.joint.note_heard();
        }

        let now = clock::now().into_std();
        let mut core = self.joint.core();
        self.is_behind = true;
        for _ in 0..ROUNDS {
            self.is_behind = !core.machine.handle(&mut self.input, now);
            self.joint.dispatch(&mut core, &mut self.news);
            if !self.is_behind {
                break;
            }
        }
        if let Some(unfinished) = &mut self.unfinished {
            unfinished.note(&self.joint.charges, core.machine.unfinished());
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
