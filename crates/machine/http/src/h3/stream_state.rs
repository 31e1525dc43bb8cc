//! The shared state of the two halves of a stream.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hermes_net::quic::{RecvStream, Stopped};
use hermes_proto::h3::{Code, Fault, Role, Scope};
use parking_lot::Mutex;

use super::errors;
use super::group_sender::GroupSender;
use super::hold::Hold;
use super::priority::Rank;
use super::queue::Queue;
use super::shared::Shared;
use crate::error::{Cause, Processed, Reset, StreamError};

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
    /// Its received datagrams, where it takes any.
    datagrams: OnceLock<Arc<Queue>>,
    /// Sends its datagrams in groups, where that was asked for.
    groups: OnceLock<Box<GroupSender>>,
    /// Its ends send lost datagrams again.
    is_recovered: AtomicBool,
    parting: Mutex<UnreadRequest>,
    /// Keeps a client's connection open.
    _hold: Option<Hold>,
}

/// The rest of a server's stream with an unread part of its request.
#[derive(Default)]
struct UnreadRequest {
    unread: Option<RecvStream>,
    /// The exchange has ended: no unread rest is kept any more.
    over: bool,
    /// Resolves when the response has arrived.
    delivered: Option<Pin<Box<dyn Future<Output = Stopped> + Send>>>,
}

impl std::fmt::Debug for UnreadRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UnreadRequest")
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
            groups: OnceLock::new(),
            is_recovered: AtomicBool::new(false),
            parting: Mutex::default(),
            _hold: hold,
        })
    }

    /// Keeps datagrams of this stream from now on.
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

    /// Its datagrams are to be sent so; the first word counts.
    pub(crate) fn group(&self, groups: GroupSender) {
        let _ = self.groups.set(Box::new(groups));
    }

    /// Its ends send lost datagrams again: none has to wait here.
    pub(crate) fn note_recovered(&self) {
        self.is_recovered.store(true, Ordering::Relaxed);
    }

    /// Whether lost datagrams stay lost.
    pub(crate) fn loses_for_good(&self) -> bool {
        self.groups().is_none() && !self.is_recovered.load(Ordering::Relaxed)
    }

    /// Sends its datagrams in groups, where that was asked for and the peer takes them.
    pub(crate) fn groups(&self) -> Option<&GroupSender> {
        let groups = self.groups.get()?;
        self.shared.takes_groups().then_some(&**groups)
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
        // The response is over already, or the stream is broken: no one would come back for the rest.
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
        let parting = UnreadRequest {
            over: true,
            ..UnreadRequest::default()
        };

        let UnreadRequest {
            unread, delivered, ..
        } = std::mem::replace(&mut *self.parting.lock(), parting);
        let Some(mut unread) = unread else { return };
        if let Some(delivered) = delivered {
            // Not before the response has arrived: RFC 9114, 4.1 forbids clients to discard a whole response, but not a part of one.
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
