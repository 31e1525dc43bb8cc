//! The shared state of a connection's parts, and of the two halves of a stream.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hermes_net::clock;
use hermes_net::memory::Account;
use hermes_net::quic::{Connection, ConnectionError, RecvStream, Stopped};
use hermes_proto::h3::{Code, Fault, Role, Scope, Settings};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::datagrams::Registry;
use super::errors;
use super::finishing::Finishing;
use super::hearing::{self, Hearing};
use super::load;
use super::priority::{Order, Priorities, Rank};
use super::queue::Queue;
use super::tables::{SectionBounds, Tables};
use crate::error::{Cause, EVICTED, Processed, Reset, StreamError};

/// One line of the log about links that end, of all links: an origin can end its own as often as it is asked.
#[doc(alias = "bound")]
const TELL: Duration = Duration::from_secs(1);

/// Whether it is time for a line about a link that has ended.
fn may_tell() -> bool {
    static TOLD: Mutex<Option<Instant>> = Mutex::new(None);
    let mut told = TOLD.lock();
    let now = clock::now();
    let is_due = told.is_none_or(|told| now.saturating_duration_since(told) >= TELL);
    if is_due {
        *told = Some(now);
    }
    is_due
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) connection: Connection,
    /// Our role.
    pub(crate) role: Role,
    /// The tables that field sections refer to.
    pub(crate) tables: Tables,
    /// The peer's settings, once they have come.
    settings: watch::Sender<Option<Settings>>,
    /// The prospects of waiting for a response.
    outlook: watch::Sender<Outlook>,
    ended: AtomicBool,
    fault: OnceLock<Fault>,
    /// The connection is silent at the moment.
    silent: AtomicBool,
    /// Something comes back again, or never will.
    heard: Notify,
    /// Whether the last sent bytes are acknowledged.
    hearing: Mutex<Hearing>,
    /// Why it was given up, if it was.
    pub(crate) given_up: OnceLock<&'static str>,
    pub(crate) finishing: Finishing,
    pub(crate) datagrams: Registry,
    pub(crate) priorities: Priorities,
    /// The memory of its streams.
    pub(crate) account: Arc<Account>,
}

impl Shared {
    pub(crate) fn new(
        connection: Connection,
        role: Role,
        bounds: SectionBounds,
        (order, table): (Order, usize),
    ) -> Arc<Self> {
        let datagrams = Registry::default();
        // Streams of a stranger take turns: it has one budget for all.
        let account = load::account(&connection, datagrams.total(), !order.in_turn);
        Arc::new(Self {
            account,
            tables: Tables::new(table, bounds, &connection.info().peer),
            connection,
            role,
            settings: watch::Sender::new(None),
            outlook: watch::Sender::new(Outlook {
                first: u64::MAX,
                lost: false,
            }),
            ended: AtomicBool::new(false),
            fault: OnceLock::new(),
            silent: AtomicBool::new(false),
            heard: Notify::new(),
            hearing: Mutex::new(Hearing::default()),
            given_up: OnceLock::new(),
            finishing: Finishing::default(),
            datagrams,
            priorities: Priorities::new(order),
        })
    }

    /// Closes the connection for a mistake of the peer.
    pub(crate) fn fail(&self, fault: Fault) {
        let _ = self.fault.set(fault);
        let peer = &self.connection.info().peer;
        // Everything on a link ends, of many users.
        if self.is_link() && may_tell() {
            tracing::warn!(%peer, %fault, "a link over HTTP/3 is closed for an error of the peer");
        } else {
            tracing::debug!(%peer, %fault, "HTTP/3 connection ended");
        }
        self.connection
            .close(fault.code.number(), fault.reason.as_bytes());
    }

    /// Resolves when it holds too much and does not move; it is closed then.
    pub(crate) async fn evicted(&self) {
        self.account.ended().await;
        let _ = self.given_up.set(EVICTED);
        self.connection
            .close(Code::ExcessiveLoad.number(), EVICTED.as_bytes());
    }

    /// Whether it carries the exchanges of many.
    fn is_link(&self) -> bool {
        !self.priorities.order().in_turn
    }

    /// Says why the peer has closed a link, if for an error.
    fn tell_close(&self) {
        let Some(ConnectionError::Application { code, reason }) = self.connection.closed_reason()
        else {
            return;
        };
        let code = Code::from(code);
        if self.is_link() && errors::reset(code) != Reset::Unneeded && may_tell() {
            let peer = &self.connection.info().peer;
            tracing::warn!(%peer, %code, reason, "the peer has closed a link over HTTP/3");
        }
    }

    /// Waits until all that was said is delivered, or the peer takes no more.
    pub(crate) async fn delivered(&self) {
        let received = || self.connection.received();
        self.finishing.delivered_unless_silent(received).await;
    }

    /// No more input comes on this connection.
    pub(crate) fn end(&self) {
        if self.ended.swap(true, Ordering::Relaxed) {
            return;
        }

        self.tell_close();
        self.datagrams.close_all();
        // Wakes those who wait for settings, which will not come.
        self.settings.send_modify(|_| {});
        self.set_silent(false);
    }

    /// Whether nothing comes back at the moment, as was said last.
    pub(crate) fn is_silent(&self) -> bool {
        self.silent.load(Ordering::Relaxed)
    }

    /// Says whether nothing comes back.
    pub(crate) fn set_silent(&self, silent: bool) {
        self.silent.store(silent, Ordering::Relaxed);
        if !silent {
            self.heard.notify_waiters();
        }
    }

    /// Whether bytes sent now may be lost: the liveness monitor says so, or the last ones are not
    /// acknowledged in time.
    pub(crate) fn holds_back(&self) -> bool {
        let looks = || {
            self.hearing
                .lock()
                .look(clock::now(), || self.connection.path_stats())
        };
        !self.ended.load(Ordering::Relaxed) && (self.is_silent() || looks())
    }

    /// Waits while that is so, at the longest until the connection has ended. Dropping the future loses nothing.
    pub(crate) async fn heard(&self) {
        loop {
            let heard = self.heard.notified();
            if !self.holds_back() {
                return;
            }

            tokio::select! {
                () = heard => {}
                () = sleep(hearing::LOOK) => {}
            }
        }
    }

    /// Resolves when the client has sent nothing for a while, although it was asked for a sign of life.
    pub(crate) async fn deserted(&self) {
        loop {
            let before = self.connection.received();
            sleep(QUIET).await;
            if self.connection.received() != before {
                continue;
            }

            self.connection.ping();
            sleep(GONE).await;
            if self.connection.received() == before {
                return;
            }
        }
    }

    /// Whether new exchanges can be opened.
    pub(crate) fn is_alive(&self) -> bool {
        !self.ended.load(Ordering::Relaxed)
            && self.outlook.borrow().first == u64::MAX
            && self.connection.closed_reason().is_none()
    }

    /// An error of a stream, or the earlier one that ended the whole connection.
    pub(crate) fn explain(&self, stream: u64, error: impl Into<StreamError>) -> StreamError {
        let error = error.into();
        let first = self.outlook.borrow().first;
        if first != u64::MAX && stream >= first {
            return StreamError::unprocessed(Cause::Closing);
        }

        match (self.fault.get(), self.given_up.get()) {
            _ if !matches!(error.cause, Cause::Incomplete) => error,
            (Some(fault), _) => StreamError::from(*fault),
            (None, Some(reason)) => StreamError {
                cause: Cause::Silent(reason),
                ..error
            },
            (None, None) => error,
        }
    }

    pub(crate) fn settle(&self, settings: Settings) {
        self.tables.allow(settings.qpack_capacity);
        self.settings.send_replace(Some(settings));
    }

    /// The peer's settings, if they have come.
    pub(crate) fn peer(&self) -> Option<Settings> {
        *self.settings.borrow()
    }

    /// Waits for the peer's settings; `None` if the connection ended before.
    pub(crate) async fn settled(&self) -> Option<Settings> {
        let mut settings = self.settings.subscribe();
        let over =
            |settings: &Option<Settings>| settings.is_some() || self.ended.load(Ordering::Relaxed);
        tokio::select! {
            settings = settings.wait_for(over) => settings.ok().and_then(|settings| *settings),
            _ = self.connection.closed() => self.peer(),
        }
    }

    /// RFC 9297, 2.1.1: both sides said that they take datagrams; we always do.
    pub(crate) fn takes_datagrams(&self) -> bool {
        self.peer().is_some_and(|settings| settings.datagrams)
            && self.connection.max_datagram_size().is_some()
    }

    pub(crate) fn goaway(&self, stream: u64) {
        self.outlook.send_modify(|outlook| outlook.first = stream);
    }

    /// Says whether nothing has come back for so long that a response is not to be expected.
    pub(crate) fn set_lost(&self, lost: bool) {
        self.outlook
            .send_if_modified(|outlook| std::mem::replace(&mut outlook.lost, lost) != lost);
    }

    /// Resolves when no response to this stream is to be expected any more: why.
    pub(crate) async fn unanswered(&self, stream: u64) -> StreamError {
        let mut outlook = self.outlook.subscribe();
        let changed = outlook
            .wait_for(|outlook| outlook.lost || outlook.first <= stream)
            .await;
        match changed.map(|outlook| outlook.first <= stream) {
            // The peer did not process it, and will not.
            Ok(true) => StreamError::unprocessed(Cause::Closing),
            Ok(false) => StreamError::new(Cause::Silent(LOST)),
            Err(_) => std::future::pending().await,
        }
    }
}

/// The prospects of waiting for a response.
#[derive(Debug, Clone, Copy)]
struct Outlook {
    /// Streams from this one on were not processed, says the peer.
    first: u64,
    /// The connection has been silent for long.
    lost: bool,
}

/// Why an exchange is given up although the link may yet come back.
const LOST: &str = "the link is dead: nothing was acknowledged on it any more";

/// How long a client may send nothing before it is probed, as by PING over HTTP/2.
#[doc(alias = "bound")]
const QUIET: Duration = Duration::from_secs(4);

/// How long the answer to such a probe may take: then the client is gone.
#[doc(alias = "bound")]
const GONE: Duration = Duration::from_secs(5);

/// The shared state of the halves of a stream.
#[derive(Debug)]
pub(crate) struct StreamState {
    shared: Arc<Shared>,
    id: u64,
    /// The code that ended the stream early, or [`OPEN`].
    code: AtomicU64,
    cancelled: AtomicBool,
    sending: AtomicBool,
    pub(crate) rank: Rank,
    /// Datagrams that come for it, where it takes any.
    datagrams: OnceLock<Arc<Queue>>,
    parting: Mutex<Parting>,
    /// Keeps a client's connection open.
    _hold: Option<Hold>,
}

/// The rest of a server's stream with an unread part of its request.
#[derive(Default)]
struct Parting {
    unread: Option<RecvStream>,
    /// The response is not waited for any more.
    over: bool,
    /// Resolves when the response has arrived.
    delivered: Option<Pin<Box<dyn Future<Output = Stopped> + Send>>>,
}

impl std::fmt::Debug for Parting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parting")
            .field("unread", &self.unread)
            .finish_non_exhaustive()
    }
}

/// How long a client that goes on sending its request may take to acknowledge the response.
#[doc(alias = "bound")]
const PARTING_TIME: Duration = Duration::from_secs(5);

/// Stands for the code of an open stream.
const OPEN: u64 = u64::MAX;

impl StreamState {
    /// A new stream.
    pub(crate) fn new(shared: &Arc<Shared>, id: u64, hold: Option<Hold>) -> Arc<Self> {
        Arc::new(Self {
            shared: shared.clone(),
            id,
            code: AtomicU64::new(OPEN),
            cancelled: AtomicBool::new(false),
            sending: AtomicBool::new(true),
            rank: Rank::default(),
            datagrams: OnceLock::new(),
            parting: Mutex::default(),
            _hold: hold,
        })
    }

    /// From now on datagrams of this stream are kept.
    pub(crate) fn open_datagrams(&self) {
        self.datagrams
            .get_or_init(|| self.shared.datagrams.open(self.id));
    }

    /// The datagrams that come, where the stream takes any and both sides agreed on them.
    pub(crate) fn datagrams(&self) -> Option<&Arc<Queue>> {
        self.datagrams
            .get()
            .filter(|_| self.shared.takes_datagrams())
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// A mistake of the peer on this stream. One half finds it, and both end with it.
    pub(crate) fn fail(&self, fault: Fault) {
        match fault.scope {
            Scope::Connection => self.shared.fail(fault),
            Scope::Stream => {
                self.note_cancelled();
                self.abandon(fault.code);
            }
        }
    }

    /// Both halves are to end with this code, unless there is one already.
    pub(crate) fn abandon(&self, code: Code) {
        let _ =
            self.code
                .compare_exchange(OPEN, code.number(), Ordering::Relaxed, Ordering::Relaxed);
    }

    pub(crate) fn reset(&self, reset: Reset) {
        self.abandon(errors::code(reset, self.shared.role));
    }

    /// The code to end a half with, or `otherwise`.
    pub(crate) fn code_or(&self, otherwise: Code) -> u64 {
        match self.code.load(Ordering::Relaxed) {
            OPEN => otherwise.number(),
            code => code,
        }
    }

    /// An error of this stream in the terms that all versions share; remembers who cancelled.
    pub(crate) fn explain(&self, error: impl Into<StreamError>) -> StreamError {
        let error = self.shared.explain(self.id, error);
        if matches!(&error.cause, Cause::Reset(reset) if *reset != Reset::Unneeded) {
            self.cancelled.store(true, Ordering::Relaxed);
        }

        if self.shared.role == Role::Server {
            StreamError {
                processed: Processed::Maybe,
                ..error
            }
        } else {
            error
        }
    }

    /// Whether the peer was seen to break the stream off, or to break the protocol on it.
    pub(crate) fn was_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    pub(crate) fn note_cancelled(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Our side of the stream has ended.
    pub(crate) fn end_sending(&self) {
        self.sending.store(false, Ordering::Relaxed);
    }

    pub(crate) fn is_sending(&self) -> bool {
        self.sending.load(Ordering::Relaxed)
    }

    /// The peer's side of the stream has ended.
    pub(crate) fn end_receiving(&self) {
        if self.datagrams.get().is_some() {
            self.shared.datagrams.close(self.id);
        }
    }

    /// Keeps the unread part of a request until [`Self::part`].
    pub(crate) fn part_with(&self, mut unread: RecvStream) {
        let mut parting = self.parting.lock();
        if parting.over || self.code.load(Ordering::Relaxed) != OPEN {
            return unread.stop(self.code_or(Code::NoError));
        }
        parting.unread = Some(unread);
    }

    /// The response was sent to its end; `delivered` resolves when it has arrived.
    pub(crate) fn sent(&self, delivered: impl Future<Output = Stopped> + Send + 'static) {
        self.parting.lock().delivered = Some(Box::pin(delivered));
    }

    /// Tells the client, once it has the response, that the rest of the request is not needed.
    pub(crate) async fn part(&self) {
        let parting = Parting {
            over: true,
            ..Parting::default()
        };

        let Parting {
            unread, delivered, ..
        } = std::mem::replace(&mut *self.parting.lock(), parting);
        let Some(mut unread) = unread else { return };
        if let Some(delivered) = delivered {
            let _ = tokio::time::timeout(PARTING_TIME, delivered).await;
        }

        unread.stop(self.code_or(Code::NoError));
    }
}

impl Drop for StreamState {
    fn drop(&mut self) {
        self.end_receiving();
        if self.shared.role == Role::Server {
            self.shared.priorities.remove(self.id);
        }
    }
}

/// Each of these keeps a client's connection open; the driver learns when the last is gone.
#[derive(Debug, Clone)]
pub(crate) struct Hold {
    _held: Arc<Held>,
}

#[derive(Debug)]
struct Held(CancellationToken);

impl Hold {
    /// The first one, and a token that resolves when the last one is gone.
    pub(crate) fn new() -> (Self, CancellationToken) {
        let gone = CancellationToken::new();
        (
            Self {
                _held: Arc::new(Held(gone.clone())),
            },
            gone,
        )
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
