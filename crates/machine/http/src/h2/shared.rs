//! The state that the driver of a connection and the owners of its streams share: the machine, and
//! the input of each stream.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

use hermes_net::clock;
use hermes_net::memory::{Arrivals, ConnectionCharges};
use hermes_proto::h2::{ByNumber, Connection, ConnectionOptions, Failure, Rank, Reason};
use hermes_proto::h3::Priority;
use hermes_proto::head::RequestHead;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use super::inbox::{Heads, Inbox};
use super::over::{Over, failed};
use super::piece::Piece;
use crate::error::StreamError;
use crate::priority::{self, Signals};

/// The state of a connection under its lock.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) machine: Connection<Piece>,
    pub(crate) inboxes: HashMap<u32, Inbox, ByNumber>,
    /// The driver, where it waits.
    pub(crate) driver: Option<Waker>,
    pub(crate) over: Option<Over>,
    /// A sender waits for earlier heads to be written.
    pub(crate) is_head_waiting: bool,
    /// No more streams will be opened.
    pub(crate) is_left: bool,
    /// All streams belong to one client, which chooses their order. Those of a link do not: one
    /// user's stream must not wait for another's (RFC 9218, section 13), so that all take turns.
    pub(crate) is_one_client: bool,
    /// PRIORITY_UPDATEs of requests that have not come.
    early: VecDeque<(u32, Priority)>,
}

/// Bytes of heads and other frames, but DATA, that wait for a peer who takes nothing before the next head does. Below the backlog at which no
/// more is read of it.
#[doc(alias = "bound")]
const HEADS: usize = 32 * 1024;

/// PRIORITY_UPDATEs kept until their requests arrive: few come early, and they are only advice.
#[doc(alias = "bound")]
const EARLY_UPDATES: usize = 16;

impl Core {
    /// Wakes the driver if there is something to write and it waits: once for a batch.
    pub(crate) fn kick(&mut self) {
        if self.machine.has_output()
            && let Some(driver) = self.driver.take()
        {
            driver.wake();
        }
    }

    /// As [`Core::kick`], unconditionally.
    pub(crate) fn rouse(&mut self) {
        // Taken: until the driver polls again, further commands of this batch wake no one.
        if let Some(driver) = self.driver.take() {
            driver.wake();
        }
    }

    /// A request has come: its priority signal, or an earlier PRIORITY_UPDATE, takes effect.
    pub(super) fn requested(&mut self, stream: u32, request: &RequestHead) {
        let early = self.early.iter().rposition(|(early, _)| *early == stream);
        let early = early.and_then(|place| self.early.remove(place));
        if let Some((_, priority)) = early {
            self.advise(stream, |signals| signals.update(priority));
        } else if let Some(signal) = priority::signal(&request.fields) {
            self.advise(stream, |signals| signals.request(signal));
        }
    }

    /// A PRIORITY_UPDATE has come. One for a stream that is over means nothing, and its advice is dropped with those that are too many.
    pub(super) fn updated(&mut self, stream: u32, priority: Priority) {
        if self.inboxes.contains_key(&stream) {
            return self.advise(stream, |signals| signals.update(priority));
        }
        // The oldest goes: a peer could fill the queue with streams that never come.
        if self.early.len() >= EARLY_UPDATES {
            self.early.pop_front();
        }
        self.early.push_back((stream, priority));
    }

    /// Applies a priority signal to a stream.
    pub(crate) fn advise(&mut self, stream: u32, say: impl FnOnce(&mut Signals)) {
        let inbox = self.inboxes.get_mut(&stream);
        let Some(inbox) = inbox.filter(|_| self.is_one_client) else {
            return;
        };

        say(&mut inbox.signals);
        let priority = inbox.signals.priority();
        let rank = if inbox.signals.is_before_later() {
            Rank::before_later(priority, stream)
        } else {
            Rank::shared(priority)
        };
        self.machine.rank(stream, rank);
    }

    /// Whether another head may be sent now; if not, [`Joint::departed`] says when.
    fn admits_head(&mut self) -> bool {
        let is_full = self.machine.backlog() > HEADS && !self.is_over();
        // Noted under the lock, so that the driver sees it before it empties the output.
        self.is_head_waiting |= is_full;
        !is_full
    }

    /// Ends a stream for a failure of its input.
    pub(super) fn give_up(&mut self, stream: u32, failure: Failure) {
        self.machine.reset(stream, Reason::ENHANCE_YOUR_CALM);
        if let Some(inbox) = self.inboxes.get_mut(&stream) {
            inbox.heads = Heads::default();
            inbox.end = None;
            inbox.failure.get_or_insert(failure);
            inbox.wake_all();
        }
    }

    /// Whether the connection is over.
    pub(crate) fn is_over(&self) -> bool {
        self.over.is_some()
    }

    /// Why nothing more comes on a stream.
    pub(crate) fn failure(&self, stream: u32) -> Option<StreamError> {
        let inbox = self.inboxes.get(&stream);
        match inbox.and_then(|inbox| inbox.failure.as_ref()) {
            Some(failure) => Some(failed(failure)),
            None => self.over.as_ref().map(Over::error),
        }
    }
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Joint {
    core: Mutex<Core>,
    pub(crate) arrivals: Arc<Arrivals>,
    /// The charges for received heads.
    pub(crate) charges: Arc<ConnectionCharges>,
    /// How many times input of any kind came from the peer.
    heard: AtomicU64,
    /// Answers to our PINGs.
    pub(crate) pongs: AtomicU64,
    pub(crate) answered: Notify,
    /// The heads that waited are on their way.
    pub(crate) departed: Notify,
    /// More streams can be opened, or no stream ever again.
    pub(crate) openable: Notify,
}

impl Joint {
    pub(crate) fn new(options: ConnectionOptions, arrivals: &Arc<Arrivals>) -> Arc<Self> {
        let now = clock::now().into_std();
        Arc::new(Self {
            core: Mutex::new(Core {
                machine: Connection::new(options, now),
                inboxes: HashMap::default(),
                driver: None,
                over: None,
                is_head_waiting: false,
                is_left: false,
                is_one_client: false,
                early: VecDeque::new(),
            }),
            arrivals: arrivals.clone(),
            charges: ConnectionCharges::of(arrivals.account().peer()),
            heard: AtomicU64::new(0),
            pongs: AtomicU64::new(0),
            answered: Notify::new(),
            departed: Notify::new(),
            openable: Notify::new(),
        })
    }

    pub(crate) fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock()
    }

    /// Gives the machine a command, and has its output written.
    pub(crate) fn tell<T>(&self, command: impl FnOnce(&mut Connection<Piece>) -> T) -> T {
        let mut core = self.core.lock();
        let done = command(&mut core.machine);
        core.kick();
        done
    }

    pub(crate) fn note_heard(&self) {
        self.heard.fetch_add(1, Ordering::Relaxed);
    }

    /// How many times input of any kind came from the peer.
    pub(crate) fn heard(&self) -> u64 {
        self.heard.load(Ordering::Relaxed)
    }

    /// Waits while many unsent heads are queued. Flow control does not limit heads,
    /// so the sender of one asks here first. Waiting content does not hold heads up: on a slow
    /// link, some always waits.
    pub(crate) async fn has_room_for_head(&self) {
        loop {
            // Before the look: a notice between the look and the wait would be lost.
            let departed = self.departed.notified();
            if self.core().admits_head() {
                return;
            }
            departed.await;
        }
    }

    /// Ends the connection, and wakes everyone who waits.
    pub(crate) fn end(&self, over: Over) {
        let mut core = self.core.lock();
        core.over.get_or_insert(over);

        // Queued bytes are not counted any longer.
        core.machine.clear();
        for inbox in core.inboxes.values_mut() {
            inbox.wake_all();
        }

        drop(core);
        self.departed.notify_waiters();
        self.openable.notify_waiters();
        self.answered.notify_waiters();
    }

    /// Why the connection is over, if it is.
    pub(crate) fn over(&self) -> Option<StreamError> {
        self.core.lock().over.as_ref().map(Over::error)
    }
}
