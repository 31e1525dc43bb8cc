//! What the driver of a connection and the owners of its streams share: the machine, and what has come on each stream.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use hermes_net::memory::Arrivals;
use hermes_proto::h2::{
    ByNumber, Connection, ConnectionError, ConnectionOptions, Event, Failure, Reason, Request,
    Response,
};
use http::{HeaderMap, StatusCode};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::explain;
use super::packed::Packed;
use super::piece::Piece;
use crate::error::{Cause, Reset, StreamError};

/// Why a connection is over.
#[derive(Debug)]
pub(super) enum Over {
    /// It was closed, by the peer or by us.
    Closed,
    /// It ended where it must not.
    Incomplete,
    /// It failed.
    Io(io::ErrorKind, String),
    /// The peer ended it with a TLS alert.
    Alert(String),
    /// The peer broke the protocol.
    Failed(ConnectionError),
}

impl Over {
    /// A connection that failed.
    pub(super) fn io(error: io::Error) -> Self {
        match StreamError::from(error).cause {
            Cause::Incomplete => Self::Incomplete,
            Cause::Alert(detail) => Self::Alert(detail),
            Cause::Io(error) => Self::Io(error.kind(), error.to_string()),
            _ => Self::Closed,
        }
    }

    /// What that means for a stream.
    fn error(&self) -> StreamError {
        StreamError::new(match self {
            Self::Closed => Cause::Reset(Reset::Connect),
            Self::Incomplete => Cause::Incomplete,
            Self::Io(kind, text) => Cause::Io(io::Error::new(*kind, text.clone())),
            Self::Alert(detail) => Cause::Alert(detail.clone()),
            Self::Failed(error) => match error.reason {
                Reason::ENHANCE_YOUR_CALM => {
                    let text = format!("the peer sent {}", error.words);
                    Cause::Io(io::Error::other(text))
                }
                reason => broken(reason, error.words.to_owned()),
            },
        })
    }
}

fn broken(reason: Reason, words: String) -> Cause {
    match reason {
        Reason::PROTOCOL_ERROR => Cause::Protocol(words),
        reason => Cause::Reset(reason.into()),
    }
}

fn failed(failure: &Failure) -> StreamError {
    match failure {
        // RFC 9113, 8.7: a refused stream was not processed.
        Failure::Reset(Reason::REFUSED_STREAM) => {
            StreamError::unprocessed(Cause::Reset(Reset::Refused))
        }
        Failure::Reset(reason) => StreamError::new(Cause::Reset((*reason).into())),
        Failure::Broken(reason, words) => StreamError::new(broken(*reason, words.to_string())),
        Failure::Unprocessed => StreamError::unprocessed(Cause::Closing),
    }
}

/// What has come on a stream and was not taken, and who waits for more.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    /// How many hold the stream.
    handles: u32,
    pub(super) heads: Heads,
    pub(super) data: Packed,
    /// The peer's half has ended, with trailers or without.
    pub(super) end: Option<Option<Box<HeaderMap>>>,
    /// Its owner knows the end, or does not ask for it.
    is_read: bool,
    /// Someone reads the content of the response.
    has_reader: bool,
    failure: Option<Failure>,
    reader: Option<Waker>,
    opener: Option<Waker>,
    writer: Option<Waker>,
}

/// Heads of responses that wait, with what they hold.
#[derive(Debug, Default)]
pub(super) struct Heads {
    /// The first one: most streams have no other.
    first: Option<(Response, bool)>,
    waiting: VecDeque<(Response, bool)>,
    fields: usize,
}

/// Fields of the interim responses that wait, beyond which no more are kept: their reader refuses far fewer.
const WAITING_FIELDS: usize = 4096;

/// Interim responses that wait, beyond which no more are kept.
const WAITING: usize = 64;

impl Heads {
    fn push(&mut self, response: Response, end: bool) {
        if self.first.is_none() && self.waiting.is_empty() {
            self.fields += response.fields.len();
            self.first = Some((response, end));
        } else if self.waiting.len() < WAITING && self.fields < WAITING_FIELDS {
            self.fields += response.fields.len();
            self.waiting.push_back((response, end));
        }
    }

    pub(super) fn pop(&mut self) -> Option<(Response, bool)> {
        let first = self.first.take();
        let (response, end) = first.or_else(|| self.waiting.pop_front())?;
        self.fields -= response.fields.len();
        Some((response, end))
    }
}

impl Inbox {
    /// RFC 9113, section 8.1: a response that is whole is not discarded because the rest of the request is not needed.
    fn is_whole_and_unread(&self) -> bool {
        let is_unneeded = self.failure == Some(Failure::Reset(Reason::NO_ERROR));
        is_unneeded && self.end.is_some() && self.has_reader && !self.is_read
    }

    fn wake_all(&mut self) {
        for waker in [&mut self.reader, &mut self.opener, &mut self.writer] {
            if let Some(waker) = waker.take() {
                waker.wake();
            }
        }
    }

    fn wake(waker: &mut Option<Waker>) {
        if let Some(waker) = waker.take() {
            waker.wake();
        }
    }
}

/// What a driver is to deal with itself.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are the large one, and each is moved once"
)]
pub(super) enum News {
    /// An exchange is offered.
    Request(StreamHandle, Request, bool),
    /// A request is to be refused with a status and the reason.
    Refuse(StreamHandle, StatusCode, std::borrow::Cow<'static, str>),
    /// The peer's SETTINGS have come.
    Settled,
    /// The peer takes no more streams.
    Goaway,
    /// Another connection should take over.
    Retire,
}

/// The part that is changed.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) machine: Connection<Piece>,
    inboxes: HashMap<u32, Inbox, ByNumber>,
    /// The driver, where it waits.
    pub(super) driver: Option<Waker>,
    over: Option<Over>,
    /// No one will open streams any more.
    pub(super) is_left: bool,
}

impl Core {
    /// Wakes the driver if there is something to write and it waits: once for a batch.
    fn kick(&mut self) {
        if self.machine.has_output()
            && let Some(driver) = self.driver.take()
        {
            driver.wake();
        }
    }

    /// As [`Core::kick`], whatever there is.
    pub(super) fn rouse(&mut self) {
        if let Some(driver) = self.driver.take() {
            driver.wake();
        }
    }

    /// Whether the connection is over.
    pub(super) fn is_over(&self) -> bool {
        self.over.is_some()
    }

    /// Why nothing more comes on a stream.
    fn failure(&self, stream: u32) -> Option<StreamError> {
        let inbox = self.inboxes.get(&stream);
        match inbox.and_then(|inbox| inbox.failure.as_ref()) {
            Some(failure) => Some(failed(failure)),
            None => self.over.as_ref().map(Over::error),
        }
    }
}

/// One connection.
#[derive(Debug)]
pub(super) struct Joint {
    core: Mutex<Core>,
    pub(super) arrivals: Arc<Arrivals>,
    /// How often something came from the peer, whatever it was.
    heard: AtomicU64,
    /// Answers to our PINGs.
    pub(super) pongs: AtomicU64,
    pub(super) answered: Notify,
    /// Whether the peer has stopped taking what is written.
    blocked: AtomicBool,
    unblocked: Notify,
    /// More streams can be opened, or none ever again.
    pub(super) openable: Notify,
}

impl Joint {
    pub(super) fn new(options: ConnectionOptions, arrivals: &Arc<Arrivals>) -> Arc<Self> {
        let now = Instant::now().into_std();
        Arc::new(Self {
            core: Mutex::new(Core {
                machine: Connection::new(options, now),
                inboxes: HashMap::default(),
                driver: None,
                over: None,
                is_left: false,
            }),
            arrivals: arrivals.clone(),
            heard: AtomicU64::new(0),
            pongs: AtomicU64::new(0),
            answered: Notify::new(),
            blocked: AtomicBool::new(false),
            unblocked: Notify::new(),
            openable: Notify::new(),
        })
    }

    pub(super) fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock()
    }

    /// Tells the machine something, and has written what comes of it.
    pub(super) fn tell<T>(&self, command: impl FnOnce(&mut Connection<Piece>) -> T) -> T {
        let mut core = self.core.lock();
        let done = command(&mut core.machine);
        core.kick();
        done
    }

    pub(super) fn note_heard(&self) {
        self.heard.fetch_add(1, Ordering::Relaxed);
    }

    /// How often something came from the peer, whatever it was.
    pub(super) fn heard(&self) -> u64 {
        self.heard.load(Ordering::Relaxed)
    }

    /// Waits while the peer takes nothing. Heads pass no window, so one that is to be sent asks here first.
    async fn writable(&self) {
        while self.blocked.load(Ordering::Relaxed) {
            let unblocked = self.unblocked.notified();
            if !self.blocked.load(Ordering::Relaxed) {
                return;
            }
            unblocked.await;
        }
    }

    /// Whether the socket takes what is written.
    pub(super) fn wrote(&self, blocked: bool) {
        if self.blocked.load(Ordering::Relaxed) != blocked {
            self.blocked.store(blocked, Ordering::Relaxed);
            if !blocked {
                self.unblocked.notify_waiters();
            }
        }
    }

    /// The connection is over: everyone who waits learns it.
    pub(super) fn end(&self, over: Over) {
        let mut core = self.core.lock();
        core.over.get_or_insert(over);
        // What was queued is not held any longer.
        core.machine.clear();
        for inbox in core.inboxes.values_mut() {
            inbox.wake_all();
        }
        drop(core);
        self.wrote(false);
        self.openable.notify_waiters();
        self.answered.notify_waiters();
    }

    /// Why it is over.
    pub(super) fn over(&self) -> Option<StreamError> {
        self.core.lock().over.as_ref().map(Over::error)
    }

    /// Gives what the machine has found to those whom it concerns, and the rest to the driver.
    pub(super) fn dispatch(self: &Arc<Self>, core: &mut Core, news: &mut VecDeque<News>) {
        while let Some(event) = core.machine.poll_event() {
            match event {
                Event::Request {
                    stream,
                    request,
                    end,
                } => {
                    let handle = self.adopt(core, stream);
                    if end && let Some(inbox) = core.inboxes.get_mut(&stream) {
                        inbox.end = Some(None);
                    } else {
                        self.arrivals.open(stream, 0);
                    }
                    news.push_back(News::Request(handle, request, end));
                }
                Event::Refuse {
                    stream,
                    status,
                    words,
                } => {
                    let handle = self.adopt(core, stream);
                    news.push_back(News::Refuse(handle, status, words));
                }
                Event::Openable => self.openable.notify_one(),
                Event::Settled => news.push_back(News::Settled),
                Event::Pong => {
                    self.pongs.fetch_add(1, Ordering::Relaxed);
                    self.answered.notify_waiters();
                }
                Event::Goaway { .. } => {
                    self.openable.notify_waiters();
                    news.push_back(News::Goaway);
                }
                Event::Retire => news.push_back(News::Retire),
                // Responses leave in turns: all of them are equally urgent here.
                Event::PriorityUpdate { .. } => {}
                event => self.deliver(core, event),
            }
        }
    }

    /// Gives what came on a stream to its owners.
    fn deliver(&self, core: &mut Core, event: Event) {
        let stream = match &event {
            Event::Response { stream, .. }
            | Event::Data { stream, .. }
            | Event::End { stream, .. }
            | Event::Failed { stream, .. }
            | Event::Writable { stream } => *stream,
            _ => return,
        };
        let Some(inbox) = core.inboxes.get_mut(&stream) else {
            if let Event::Data { data, .. } = event {
                core.machine.release(stream, data.len() as u32);
            }
            return;
        };
        match event {
            Event::Response { response, end, .. } => {
                if !response.status.is_informational() {
                    if end {
                        inbox.end = Some(None);
                    } else {
                        self.arrivals.open(stream, 0);
                    }
                }
                inbox.heads.push(response, end);
                Inbox::wake(&mut inbox.opener);
            }
            Event::Data { data, .. } => {
                self.arrivals.came(stream, data.len());
                inbox.data.push(data);
                Inbox::wake(&mut inbox.reader);
            }
            Event::End { trailers, .. } => {
                inbox.end = Some(trailers);
                Inbox::wake(&mut inbox.reader);
            }
            Event::Failed { failure, .. } => {
                inbox.failure.get_or_insert(failure);
                inbox.wake_all();
            }
            _ => Inbox::wake(&mut inbox.writer),
        }
    }

    /// The first handle of a stream.
    pub(super) fn adopt(self: &Arc<Self>, core: &mut Core, stream: u32) -> StreamHandle {
        let inbox = Inbox {
            handles: 1,
            ..Inbox::default()
        };
        core.inboxes.insert(stream, inbox);
        StreamHandle {
            joint: self.clone(),
            stream,
        }
    }
}

/// A stream, for one of its owners. When the last one is gone, the stream is given up.
#[derive(Debug)]
pub(super) struct StreamHandle {
    joint: Arc<Joint>,
    stream: u32,
}

impl Clone for StreamHandle {
    fn clone(&self) -> Self {
        if let Some(inbox) = self.joint.core().inboxes.get_mut(&self.stream) {
            inbox.handles += 1;
        }
        Self {
            joint: self.joint.clone(),
            stream: self.stream,
        }
    }
}

impl Drop for StreamHandle {
    fn drop(&mut self) {
        let mut core = self.joint.core();
        let Some(inbox) = core.inboxes.get_mut(&self.stream) else {
            return;
        };
        inbox.handles -= 1;
        if inbox.handles > 0 {
            return;
        }
        let unread = inbox.data.len();
        core.inboxes.remove(&self.stream);
        core.machine.abandon(self.stream);
        core.machine.release(self.stream, unread as u32);
        if core.is_left {
            core.rouse();
        } else {
            core.kick();
        }
        drop(core);
        self.joint.arrivals.close(self.stream);
    }
}

impl StreamHandle {
    pub(super) fn arrivals(&self) -> &Arc<Arrivals> {
        &self.joint.arrivals
    }

    /// An error, or that the connection was ended because it holds too much.
    fn explain(&self, error: StreamError) -> StreamError {
        explain(self.arrivals().account(), error)
    }

    /// Asks the machine something about the stream.
    pub(super) fn tell<T>(&self, command: impl FnOnce(&mut Connection<Piece>, u32) -> T) -> T {
        self.joint.tell(|machine| command(machine, self.stream))
    }

    /// What `take` finds in the inbox; an error when nothing more can come.
    fn poll_inbox<T>(
        &self,
        cx: &mut Context<'_>,
        take: impl FnOnce(&mut Inbox) -> Option<T>,
        waker: impl FnOnce(&mut Inbox) -> &mut Option<Waker>,
    ) -> Poll<Result<T, StreamError>> {
        let mut core = self.joint.core();
        let Some(inbox) = core.inboxes.get_mut(&self.stream) else {
            return Poll::Ready(Err(StreamError::new(Cause::Incomplete)));
        };
        if let Some(found) = take(inbox) {
            return Poll::Ready(Ok(found));
        }
        if let Some(error) = core.failure(self.stream) {
            drop(core);
            return Poll::Ready(Err(self.explain(error)));
        }
        if let Some(inbox) = core.inboxes.get_mut(&self.stream) {
            set(waker(inbox), cx.waker());
        }
        Poll::Pending
    }

    /// The next head of a response, and whether that is all.
    pub(super) fn poll_head(
        &self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(Response, bool), StreamError>> {
        let take = |inbox: &mut Inbox| {
            let head = inbox.heads.pop()?;
            inbox.has_reader |= !head.0.status.is_informational();
            Some(head)
        };
        self.poll_inbox(cx, take, |inbox| &mut inbox.opener)
    }

    /// Gives back `read` bytes, then takes the next content; or the end, with its trailers.
    pub(super) fn poll_content(
        &self,
        cx: &mut Context<'_>,
        read: usize,
    ) -> Poll<Result<Arrived, StreamError>> {
        if read > 0 {
            self.tell(|machine, stream| machine.release(stream, read as u32));
            self.arrivals().went(self.stream, read);
        }
        let take = |inbox: &mut Inbox| match inbox.data.pop() {
            Some(data) => Some(Arrived::Data(data)),
            None => inbox.end.as_mut().map(|end| {
                inbox.is_read = true;
                Inbox::wake(&mut inbox.writer);
                Arrived::End(end.take())
            }),
        };
        self.poll_inbox(cx, take, |inbox| &mut inbox.reader)
    }

    /// Puts back what was taken last.
    pub(super) fn unread(&self, data: Bytes) {
        if let Some(inbox) = self.joint.core().inboxes.get_mut(&self.stream) {
            inbox.data.unread(data);
        }
    }

    /// Whether it is certain that nothing more comes.
    pub(super) fn is_at_end(&self) -> bool {
        let mut core = self.joint.core();
        let Some(inbox) = core.inboxes.get_mut(&self.stream) else {
            return true;
        };
        let is_at_end = inbox.data.is_empty() && matches!(inbox.end, Some(None));
        if is_at_end && !inbox.is_read {
            inbox.is_read = true;
            Inbox::wake(&mut inbox.writer);
        }
        is_at_end
    }

    /// No one reads it any more.
    pub(super) fn discard(&self, taken: usize) {
        let mut core = self.joint.core();
        let mut unread = taken;
        if let Some(inbox) = core.inboxes.get_mut(&self.stream) {
            unread += inbox.data.len();
            inbox.data = Packed::default();
            inbox.is_read = true;
            Inbox::wake(&mut inbox.writer);
        }
        core.machine.discard(self.stream);
        core.machine.release(self.stream, unread as u32);
        core.kick();
        drop(core);
        self.arrivals().close(self.stream);
    }

    /// How many bytes may be sent.
    pub(super) fn poll_capacity(&self, cx: &mut Context<'_>) -> Poll<Result<usize, StreamError>> {
        let mut core = self.joint.core();
        match core.machine.capacity(self.stream) {
            Some(0) if core.over.is_none() => {
                core.machine.await_capacity(self.stream);
                if let Some(inbox) = core.inboxes.get_mut(&self.stream) {
                    set(&mut inbox.writer, cx.waker());
                }
                Poll::Pending
            }
            Some(room) if room > 0 && core.over.is_none() => Poll::Ready(Ok(room)),
            _ => {
                drop(core);
                Poll::Ready(Err(self.gone()))
            }
        }
    }

    /// Why nothing can be sent any more.
    pub(super) fn gone(&self) -> StreamError {
        let error = self.joint.core().failure(self.stream);
        self.explain(
            error.unwrap_or_else(|| {
                StreamError::new(Cause::Invalid("the stream has ended".to_owned()))
            }),
        )
    }

    /// Resets the stream.
    pub(super) fn reset(&self, reason: Reason) {
        let mut core = self.joint.core();
        core.machine.reset(self.stream, reason);
        if let Some(inbox) = core.inboxes.get_mut(&self.stream) {
            inbox.failure.get_or_insert(Failure::Reset(reason));
            inbox.wake_all();
        }
        core.kick();
    }

    /// Ready once the peer breaks the stream off, or the connection is over.
    pub(super) fn poll_broken(&self, cx: &mut Context<'_>) -> Poll<StreamError> {
        let mut core = self.joint.core();
        if let Some(inbox) = core.inboxes.get_mut(&self.stream)
            && inbox.is_whole_and_unread()
        {
            set(&mut inbox.writer, cx.waker());
            return Poll::Pending;
        }
        if let Some(error) = core.failure(self.stream) {
            drop(core);
            return Poll::Ready(self.explain(error));
        }
        if let Some(inbox) = core.inboxes.get_mut(&self.stream) {
            set(&mut inbox.writer, cx.waker());
        }
        Poll::Pending
    }

    /// Waits until the peer takes what is written, which may be never, or is gone.
    pub(super) async fn writable(&self) -> Result<(), StreamError> {
        tokio::select! {
            biased;
            () = self.joint.writable() => Ok(()),
            error = std::future::poll_fn(|cx| self.poll_broken(cx)) => Err(error),
        }
    }
}

/// What came next on a stream.
#[derive(Debug)]
pub(super) enum Arrived {
    Data(Bytes),
    End(Option<Box<HeaderMap>>),
}

fn set(place: &mut Option<Waker>, waker: &Waker) {
    match place {
        Some(known) if known.will_wake(waker) => {}
        _ => *place = Some(waker.clone()),
    }
}
