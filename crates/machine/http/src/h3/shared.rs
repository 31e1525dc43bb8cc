//! The shared state of a connection's parts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hermes_net::clock;
use hermes_net::memory::Account;
use hermes_net::quic::{Connection, ConnectionError};
use hermes_proto::h3::{Code, Fault, Role, Settings};
use tokio::sync::watch;
use tokio::time::sleep;

use super::datagrams::Registry;
use super::errors;
use super::finishing::Finishing;
use super::group_sender::BegunGroups;
use super::hearing::{self, Reception};
use super::load;
use super::priority::{Order, Priorities};
use super::tables::{SectionBounds, Tables};
use crate::error::{Cause, EVICTED, Reset, StreamError};
use crate::link_ends;

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
    /// Whether responses can still come.
    prospect: watch::Sender<ResponseProspect>,
    end: End,
    /// Whether something comes back at the moment.
    reception: Reception,
    pub(crate) finishing: Finishing,
    pub(crate) datagrams: Registry,
    pub(super) groups: BegunGroups,
    pub(crate) priorities: Priorities,
    /// The memory of its streams.
    pub(crate) account: Arc<Account>,
}

/// Whether a connection has ended, and why.
#[derive(Debug, Default)]
struct End {
    is_reached: AtomicBool,
    /// The mistake of the peer for which we closed it.
    fault: OnceLock<Fault>,
    /// Why we gave it up, without a mistake.
    given_up: OnceLock<&'static str>,
}

impl Shared {
    pub(crate) fn new(
        connection: Connection,
        role: Role,
        bounds: SectionBounds,
        order: Order,
        table: usize,
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
            prospect: watch::Sender::new(ResponseProspect {
                first_unprocessed: u64::MAX,
                lost: false,
            }),
            end: End::default(),
            reception: Reception::default(),
            finishing: Finishing::default(),
            datagrams,
            groups: BegunGroups::default(),
            priorities: Priorities::new(order),
        })
    }

    /// Closes the connection for a mistake of the peer.
    pub(crate) fn fail(&self, fault: Fault) {
        // Only the first mistake counts: later ones may follow from it.
        let _ = self.end.fault.set(fault);
        let peer = &self.connection.info().peer;
        if self.is_link() {
            link_ends::tell_own(3, peer, &fault);
        }
        tracing::debug!(%peer, %fault, "HTTP/3 connection ended");
        self.connection
            .close(fault.code.number(), fault.reason.as_bytes());
    }

    /// Resolves when it holds too much and does not move; it is closed then.
    pub(crate) async fn evicted(&self) {
        self.account.ended().await;
        self.give_up(EVICTED);
        self.connection
            .close(Code::ExcessiveLoad.number(), EVICTED.as_bytes());
    }

    /// Notes why the connection is given up; the first reason stays.
    pub(crate) fn give_up(&self, reason: &'static str) {
        let _ = self.end.given_up.set(reason);
    }

    /// Why the connection was given up, if it was.
    pub(crate) fn given_up(&self) -> Option<&'static str> {
        self.end.given_up.get().copied()
    }

    /// Whether it carries the exchanges of many.
    fn is_link(&self) -> bool {
        !self.priorities.order().in_turn
    }

    /// Logs why the peer has closed a link, if for an error.
    fn tell_close(&self) {
        let Some(ConnectionError::Application { code, reason }) = self.connection.closed_reason()
        else {
            return;
        };
        let code = Code::from(code);
        if self.is_link() && errors::reset(code) != Reset::Unneeded {
            let peer = &self.connection.info().peer;
            link_ends::tell_peers(3, peer, &code, &reason);
        }
    }

    /// Waits until all sent bytes are delivered, or the peer takes no more.
    pub(crate) async fn delivered(&self) {
        let received = || self.connection.received();
        self.finishing.delivered_unless_silent(received).await;
    }

    /// No more input comes on this connection.
    pub(crate) fn end(&self) {
        if self.end.is_reached.swap(true, Ordering::Relaxed) {
            return;
        }

        self.tell_close();
        self.datagrams.close_all();
        // Wakes those who wait for settings, which will not come.
        self.settings.send_modify(|_| {});
        self.set_silent(false);
    }

    /// Whether nothing comes back at the moment, as the monitor said last.
    pub(crate) fn is_silent(&self) -> bool {
        self.reception.is_silent()
    }

    /// Says whether nothing comes back.
    pub(crate) fn set_silent(&self, silent: bool) {
        self.reception.set_silent(silent);
    }

    /// Whether bytes sent now may be lost: the liveness monitor says so, or the last ones are not
    /// acknowledged in time.
    pub(crate) fn holds_back(&self) -> bool {
        let stats = || self.connection.path_stats();
        !self.has_ended() && self.reception.holds_back(clock::now(), stats)
    }

    fn has_ended(&self) -> bool {
        self.end.is_reached.load(Ordering::Relaxed)
    }

    /// Waits while [`Self::holds_back`], at the longest until the connection has ended. Dropping the future loses nothing.
    pub(crate) async fn heard(&self) {
        loop {
            // Before the look, so that no notice between the two is missed.
            let heard = self.reception.returned();
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

            // A client that waits for a response has nothing to send: silence alone says nothing.
            self.connection.ping();
            sleep(GONE).await;
            if self.connection.received() == before {
                return;
            }
        }
    }

    /// Whether new exchanges can be opened.
    pub(crate) fn is_alive(&self) -> bool {
        !self.has_ended()
            && self.prospect.borrow().first_unprocessed == u64::MAX
            && self.connection.closed_reason().is_none()
    }

    /// An error of a stream, or the earlier one that ended the whole connection.
    pub(crate) fn explain(&self, stream: u64, error: impl Into<StreamError>) -> StreamError {
        let error = error.into();
        let first = self.prospect.borrow().first_unprocessed;
        // RFC 9114, 5.2: requests at or above the GOAWAY's identifier were not processed, and may be sent again elsewhere.
        if first != u64::MAX && stream >= first {
            return StreamError::unprocessed(Cause::Closing);
        }

        match (self.end.fault.get(), self.given_up()) {
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
        let over = |settings: &Option<Settings>| settings.is_some() || self.has_ended();
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
        self.prospect
            .send_modify(|prospect| prospect.first_unprocessed = stream);
    }

    /// Says whether nothing has come back for so long that a response is not to be expected.
    pub(crate) fn set_lost(&self, lost: bool) {
        self.prospect
            .send_if_modified(|prospect| std::mem::replace(&mut prospect.lost, lost) != lost);
    }

    /// Resolves when no response to this stream is to be expected any more: why.
    pub(crate) async fn unanswered(&self, stream: u64) -> StreamError {
        let mut prospect = self.prospect.subscribe();
        let changed = prospect
            .wait_for(|prospect| prospect.lost || prospect.first_unprocessed <= stream)
            .await;
        match changed.map(|prospect| prospect.first_unprocessed <= stream) {
            // The peer did not process it, and will not.
            Ok(true) => StreamError::unprocessed(Cause::Closing),
            Ok(false) => StreamError::new(Cause::Silent(LOST)),
            Err(_) => std::future::pending().await,
        }
    }
}

/// Whether responses can still come.
#[derive(Debug, Clone, Copy)]
struct ResponseProspect {
    /// Requests on this stream and later ones were not processed, as the peer's GOAWAY says (RFC 9114, 5.2).
    first_unprocessed: u64,
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
