//! The client side of an HTTP/2 connection: a link that many exchanges share.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use h2::client::{ResponseFuture, SendRequest};
use hermes_net::memory::{Account, Arrivals};
use hermes_net::{Stream, StreamInfo};
use http::{Method, StatusCode};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use super::alert::{Alert, AlertedStream};
pub use super::keepalive::Keepalive;
use super::keepalive::settle;
use super::meter::Verdict;
use super::metered::{Metered, Watchman};
use super::piece::Piece;
use super::profile::Profile;
use super::windows::{self, Change, Windows};
use super::{
    FRAME_SIZE, HEADER_LIST, Incoming, Outgoing, SEND_BUFFER, STREAM_WINDOW, convert,
    link_frame_budget, link_reset_streams,
};
use crate::error::{Cause, StreamError};
use crate::pending::{Awaited, Event};
use crate::{Incoming as AnyIncoming, Kind, Outgoing as AnyOutgoing, RequestHead};

/// A connection to a proxy or an origin. Clones share it; it closes when the last clone and the last stream are gone.
#[derive(Clone)]
pub struct Link {
    send: SendRequest<Piece>,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    alive: AtomicBool,
    /// A budget of its whole life is nearly used up.
    retired: AtomicBool,
    /// Becomes true when the peer's SETTINGS are known to have arrived.
    settled: watch::Receiver<bool>,
    alert: Alert,
    source: Arc<StreamInfo>,
    arrivals: Arc<Arrivals>,
}

impl State {
    /// An error of a stream, or the alert that was its cause.
    fn explain(&self, error: h2::Error) -> StreamError {
        super::explain(self.arrivals.account(), explain(&self.alert, error))
    }

    /// As [`State::explain`], of an exchange that was not sent. The link serves no further one.
    fn unprocessed(&self, error: h2::Error) -> StreamError {
        self.alive.store(false, Ordering::Relaxed);
        self.unsent(error)
    }

    /// As [`State::unprocessed`], where the fault may be that of the head alone: then the link goes on.
    fn unsent(&self, error: h2::Error) -> StreamError {
        let cause = self.explain(error).cause;
        if !matches!(cause, Cause::Invalid(_)) {
            self.alive.store(false, Ordering::Relaxed);
        }
        StreamError::unprocessed(cause)
    }
}

fn explain(alert: &Alert, error: h2::Error) -> StreamError {
    let error = StreamError::from(error);
    match alert.text() {
        Some(alert) => StreamError {
            cause: Cause::Alert(alert.to_owned()),
            ..error
        },
        None => error,
    }
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link")
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl Link {
    /// Begins HTTP/2 on a fresh stream. The connection's driver runs in `tasks`; with `keepalive` it ends the link when the
    /// peer falls silent.
    ///
    /// # Errors
    /// The connection failed.
    pub async fn connect(
        stream: Stream,
        keepalive: Option<Keepalive>,
        tasks: &TaskTracker,
    ) -> Result<Self, StreamError> {
        let source = stream.info().clone();
        let (stream, alert) = AlertedStream::new(stream);
        let profile = Profile::link(STREAMS);
        let (stream, watchman) = Metered::dialled(stream, profile);
        let arrivals = Arrivals::of(&Account::open(&source));
        let stream = stream.counted(&arrivals);
        let (send, mut connection) = builder(profile)
            .handshake::<_, Piece>(stream)
            .await
            .map_err(|error| explain(&alert, error))?;
        let (settled_in, settled) = watch::channel(false);
        let alive = AtomicBool::new(true);
        let retired = AtomicBool::new(false);
        let state = Arc::new(State {
            alive,
            retired,
            settled,
            alert,
            source,
            arrivals,
        });
        let ping_pong = connection.ping_pong();
        let driven = state.clone();
        tasks.spawn(async move {
            tokio::select! {
                () = drive(connection, driven.arrivals.account()) => {}
                () = settle(ping_pong, settled_in, keepalive, watchman.clone()) => {}
                () = retire(&watchman, &driven) => {}
            }
            driven.alive.store(false, Ordering::Relaxed);
        });
        Ok(Self { send, state })
    }

    /// Whether new exchanges can be opened.
    pub fn is_alive(&self) -> bool {
        self.state.alive.load(Ordering::Relaxed)
    }

    /// Whether another link should take over: what it may cost in its whole life is nearly used up.
    pub fn is_retired(&self) -> bool {
        self.state.retired.load(Ordering::Relaxed)
    }

    /// Who is at the other end.
    pub fn source(&self) -> &Arc<StreamInfo> {
        &self.state.source
    }

    /// Exchanges that the peer allows at once on this link.
    pub fn max_streams(&self) -> usize {
        self.send.current_max_send_streams()
    }

    /// Opens an exchange; waits while the peer's stream limit is reached.
    ///
    /// # Errors
    /// The link is closing, or the peer does not offer extended CONNECT and the exchange needs it. Nothing was processed.
    pub async fn open(
        &self,
        head: &RequestHead,
        length: Option<u64>,
    ) -> Result<(AnyOutgoing, crate::Pending), StreamError> {
        if head.kind().is_extended() {
            self.require_extended_connect().await?;
        }
        let request = convert::to_request(head)?;
        let end = head.kind() == Kind::Message && length == Some(0);
        let mut send = self
            .send
            .clone()
            .ready()
            .await
            .map_err(|error| self.state.unprocessed(error))?;
        let (response, stream) = send
            .send_request(request, end)
            .map_err(|error| self.state.unsent(error))?;
        let pending = Pending {
            response,
            method: head.method.clone(),
            state: self.state.clone(),
        };
        let outgoing = if end {
            AnyOutgoing::Ended
        } else {
            AnyOutgoing::H2(Outgoing::new(stream, self.state.arrivals.account()))
        };
        Ok((outgoing, Awaited::H2(pending).into()))
    }

    /// The TLS alert that ended the link, if one did: its number and what the peer said.
    pub fn alert(&self) -> Option<(u8, String)> {
        self.state.alert.said()
    }

    /// Waits until the peer has spoken HTTP/2; false if the link ended before.
    pub async fn settled(&self) -> bool {
        let mut settled = self.state.settled.clone();
        settled.wait_for(|settled| *settled).await.is_ok()
    }

    /// RFC 8441, 3: the peer's setting must be seen before extended CONNECT is used.
    async fn require_extended_connect(&self) -> Result<(), StreamError> {
        if self.send.is_extended_connect_protocol_enabled() {
            return Ok(());
        }
        let seen = self.settled().await;
        if seen && self.send.is_extended_connect_protocol_enabled() {
            return Ok(());
        }
        let cause = match self.state.alert.text() {
            Some(alert) => Cause::Alert(alert.to_owned()),
            None if seen => Cause::Unsupported("extended CONNECT"),
            None => Cause::Incomplete,
        };
        Err(StreamError::unprocessed(cause))
    }
}

/// Streams for which the budgets of a link that we open are meant: those of a usual listener.
const STREAMS: u32 = 1000;

/// Drives the connection to its end.
async fn drive(mut connection: Dialled, account: &Arc<Account>) {
    let mut windows = Windows::new(account, STREAMS);
    loop {
        windows.allow(connection.max_concurrent_send_streams());
        tokio::select! {
            _ = &mut connection => return,
            change = windows.change() => match change {
                Change::Streams(level) => {
                    let told = connection.set_initial_window_size(windows::of_stream(level));
                    windows.told(level, told);
                }
                Change::Room(room) => connection.set_target_window_size(room),
            },
            () = account.ended() => return,
        }
    }
}

type Dialled = h2::client::Connection<Metered<AlertedStream>, Piece>;

/// Notes when the link is to be followed by another one; never ends.
async fn retire(watchman: &Watchman, state: &State) {
    watchman.worse_than(Verdict::Fine).await;
    state.retired.store(true, Ordering::Relaxed);
    std::future::pending().await
}

fn builder(profile: Profile) -> h2::client::Builder {
    let mut builder = h2::client::Builder::new();
    builder
        .enable_push(false)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(windows::of_link())
        .max_frame_size(FRAME_SIZE)
        .max_header_list_size(HEADER_LIST)
        .max_concurrent_reset_streams(link_reset_streams(STREAMS))
        .max_local_error_reset_streams(Some(profile.caused as usize))
        .data_frame_budget(link_frame_budget(STREAMS))
        .max_send_buffer_size(SEND_BUFFER);
    builder
}

/// The response to come.
#[derive(Debug)]
pub struct Pending {
    response: ResponseFuture,
    method: Method,
    state: Arc<State>,
}

impl Pending {
    pub(crate) async fn event(&mut self) -> Result<Event, StreamError> {
        if let Some(interim) = self.interim().await? {
            // RFC 9113, 8.6: passed on, it would switch the protocol of a connection that knows nothing of it.
            if interim.status() == StatusCode::SWITCHING_PROTOCOLS {
                return Err(StreamError::new(Cause::Protocol(
                    "101 over HTTP/2".to_owned(),
                )));
            }
            return Ok(Event::Interim(convert::response(interim.into_parts().0)?));
        }
        let (parts, stream) = (&mut self.response)
            .await
            .map_err(|error| self.state.explain(error))?
            .into_parts();
        let incoming = AnyIncoming::H2(Incoming::new(stream, &parts.headers, &self.state.arrivals));
        let tunnel = self.method == Method::CONNECT && parts.status.is_success();
        let head = convert::response(parts)?;
        Ok(if tunnel {
            Event::Tunnel(head, incoming)
        } else {
            Event::Final(head, incoming)
        })
    }

    /// The next interim response, or `None` when the final one is here.
    async fn interim(&mut self) -> Result<Option<http::Response<()>>, StreamError> {
        match poll_fn(|cx| self.response.poll_informational(cx)).await {
            Some(Ok(interim)) => Ok(Some(interim)),
            Some(Err(error)) => Err(self.state.explain(error)),
            None => Ok(None),
        }
    }
}
