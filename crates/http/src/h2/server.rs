//! The server side of an HTTP/2 connection: all exchanges at once.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use hermes_net::memory::{Account, Arrivals, Memory};
use hermes_net::{Stream, StreamInfo, Watch};
use hermes_proto::websocket::Key;
use http::header::EXPECT;
use http::{HeaderMap, Method, Request, StatusCode};

use super::keepalive::silence;
use super::meter::Verdict;
use super::metered::{Metered, Watchman};
use super::piece::Piece;
use super::profile::Profile;
use super::windows::{self, Change, Windows};
use super::{
    FRAME_SIZE, Incoming, Outgoing, PUBLIC_FRAME_SIZE, PUBLIC_WINDOW, SEND_BUFFER, STREAM_WINDOW,
    convert, explain, link_frame_budget, link_reset_streams,
};
use crate::error::{Cause, StreamError};
use crate::exchanges::{Active, Exchanges};
use crate::head::ResponseHead;
use crate::pace::{Answered, Pace};
use crate::server::{Handler, Options};
use crate::{
    Incoming as AnyIncoming, MinRate, Offered, Outgoing as AnyOutgoing, Responder as AnyResponder,
};

/// Offers the exchanges of a connection until it ends.
pub(crate) async fn serve<H: Handler>(
    stream: Stream,
    source: Arc<StreamInfo>,
    options: &Options,
    handler: H,
    watch: &Watch,
) {
    let profile = if options.link {
        Profile::link
    } else {
        Profile::public
    }(options.streams);
    let account = Account::open(&source);
    let arrivals = Arrivals::of(&account);
    let (stream, watchman) = Metered::served(stream, profile);
    let handshake = builder(options, profile).handshake::<_, Piece>(stream.counted(&arrivals));
    let Ok(Ok(mut connection)) = tokio::time::timeout(options.head_time, handshake).await else {
        return;
    };
    let mut silent = silence(connection.ping_pong(), options.keepalive, watchman.clone());
    let active = Arc::new(Exchanges::default());
    let mut windows = Windows::new(&account, options.streams);
    let mut draining = false;
    let mut verdict = Verdict::Fine;
    loop {
        tokio::select! {
            accepted = connection.accept() => match accepted {
                Some(Ok((request, respond))) => {
                    let respond = Answering { respond, connection: watchman.clone(), arrivals: arrivals.clone() };
                    spawn(request, respond, (&source, options), &handler, watch, &active);
                }
                Some(Err(_)) | None => return,
            },
            () = watch.graceful(), if !draining => {
                draining = true;
                connection.graceful_shutdown();
            }
            () = watch.forced() => return,
            () = &mut silent => return,
            change = windows.change(), if options.link => match change {
                Change::Streams(level) => {
                    let told = connection.set_initial_window_size(windows::of_stream(level));
                    windows.told(level, told);
                }
                Change::Room(room) => connection.set_target_window_size(room),
            },
            () = account.ended() => return calm(&mut connection).await,
            worse = watchman.worse_than(verdict) => {
                verdict = worse;
                if worse == Verdict::Calm {
                    tracing::warn!(peer = %source.peer, "connection ended: too many resets, or SETTINGS, PING, WINDOW_UPDATE or PRIORITY frames");
                    return calm(&mut connection).await;
                }
                draining = true;
                connection.graceful_shutdown();
            }
            // A client that does not answer the farewell is not waited for.
            () = active.none_for(FAREWELL), if draining => return,
            () = active.none_for(options.idle_time), if !draining => {
                draining = true;
                connection.graceful_shutdown();
            }
        }
    }
}

/// How long a client may take to answer a GOAWAY when nothing else is open.
#[doc(alias = "bound")]
const FAREWELL: Duration = Duration::from_secs(2);

type Served = h2::server::Connection<Metered<Stream>, Piece>;

/// Ends a connection whose client costs too much.
async fn calm(connection: &mut Served) {
    connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
    let _ = tokio::time::timeout(FAREWELL, poll_fn(|cx| connection.poll_closed(cx))).await;
}

/// Streams of a stranger that were reset before they were looked at, at least.
const PENDING_RESETS: usize = 20;

/// Room for all streams of a stranger's connection together, in bytes.
fn public_window() -> u32 {
    u32::try_from(Memory::node().connection()).map_or(PUBLIC_WINDOW, |most| most.min(PUBLIC_WINDOW))
}

fn builder(options: &Options, profile: Profile) -> h2::server::Builder {
    let mut builder = h2::server::Builder::new();
    builder
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(if options.link { windows::of_link() } else { public_window() })
        .max_frame_size(if options.link { FRAME_SIZE } else { PUBLIC_FRAME_SIZE })
        .max_header_list_size(u32::try_from(options.head.head_bytes).unwrap_or(u32::MAX))
        .max_concurrent_streams(options.streams)
        .max_send_buffer_size(SEND_BUFFER)
        // Streams that we reset late, such as tunnels cut off, must not be mistaken for an attack of the peer's.
        .reset_stream_duration(Duration::from_secs(2))
        .max_local_error_reset_streams(Some(profile.caused as usize))
        // A client may take back all that it asked for before we have looked at it.
        .max_pending_accept_reset_streams(PENDING_RESETS.max(options.streams as usize))
        .enable_connect_protocol();
    if options.link {
        // One link carries the resets of many users; the crate's own bounds are meant for one stranger.
        builder
            .max_concurrent_reset_streams(link_reset_streams(options.streams))
            .max_pending_accept_reset_streams(link_reset_streams(options.streams))
            .data_frame_budget(link_frame_budget(options.streams));
    }
    builder
}

fn spawn<H: Handler>(
    request: Request<RecvStream>,
    mut answering: Answering,
    (source, options): (&Arc<StreamInfo>, &Options),
    handler: &H,
    watch: &Watch,
    active: &Arc<Exchanges>,
) {
    let (parts, stream) = request.into_parts();
    let (pace, answered) = Pace::of_content(options.min_rate, parts.headers.contains_key(EXPECT));
    let mut incoming = Incoming::new(stream, &parts.headers, &answering.arrivals);
    if parts.method != Method::CONNECT {
        incoming.pace(pace);
    }
    let incoming = AnyIncoming::H2(incoming);
    let is_head = parts.method == Method::HEAD;
    let head = match convert::request(parts, options.head.fields) {
        Ok(head) => head,
        Err((status, reason)) => {
            let answer = handler.malformed(status, &reason, source);
            let _ = answering
                .respond
                .send_response(convert::to_response(answer), true);
            return;
        }
    };
    let websocket = crate::websocket::key_of(&head);
    let min_rate = options.min_rate;
    let responder = Responder {
        answering,
        is_head,
        websocket,
        min_rate,
        answered,
    };
    let offered = Offered::new(head, source.clone(), incoming, AnyResponder::H2(responder));
    let handler = handler.clone();
    let active = Active::enter(active);
    watch.spawn(async move {
        let _active = active;
        handler.handle(offered).await;
    });
}

/// The way to send heads.
struct Answering {
    respond: SendResponse<Piece>,
    connection: Arc<Watchman>,
    arrivals: Arc<Arrivals>,
}

/// The way to answer one exchange.
pub struct Responder {
    answering: Answering,
    is_head: bool,
    /// The key that a WebSocket client waits to see answered, behind a proxy that passes it on.
    websocket: Option<Key>,
    /// How fast the client must read the response.
    min_rate: Option<MinRate>,
    /// Told when the response begins.
    answered: Answered,
}

impl std::fmt::Debug for Responder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Responder")
            .field("stream", &self.answering.respond.stream_id())
            .finish()
    }
}

impl Responder {
    /// Waits while the client takes nothing: the heads of a connection would else wait for it without bound.
    pub(crate) async fn interim(&mut self, head: &ResponseHead) -> Result<(), StreamError> {
        self.writable().await?;
        Ok(self
            .answering
            .respond
            .send_informational(convert::to_response(head.clone()))?)
    }

    /// Waits until the client takes what is written, which may be never, or is gone.
    async fn writable(&mut self) -> Result<(), StreamError> {
        let Answering {
            respond,
            connection,
            arrivals,
        } = &mut self.answering;
        tokio::select! {
            biased;
            () = connection.writable() => Ok(()),
            reset = poll_fn(|cx| respond.poll_reset(cx)) => {
                Err(explain(arrivals.account(), reset.map_or_else(StreamError::from, gone)))
            }
        }
    }

    pub(crate) fn is_head(&self) -> bool {
        self.is_head
    }

    pub(crate) async fn gone(&mut self) {
        let _ = poll_fn(|cx| self.answering.respond.poll_reset(cx)).await;
    }

    pub(crate) async fn respond(
        mut self,
        head: ResponseHead,
        length: Option<u64>,
    ) -> Result<AnyOutgoing, StreamError> {
        let end = length == Some(0);
        let mut pace = Pace::of_reader(self.min_rate);
        pace.bound(self.writable()).await??;
        let stream = self
            .answering
            .respond
            .send_response(convert::to_response(head), end)?;
        self.answered.set();
        let outgoing = if end {
            AnyOutgoing::Ended
        } else {
            AnyOutgoing::H2(Outgoing::new(stream, self.answering.arrivals.account()))
        };
        Ok(outgoing.paced(pace))
    }

    pub(crate) fn accept(mut self, mut fields: HeaderMap) -> Result<AnyOutgoing, StreamError> {
        crate::websocket::answer(self.websocket.as_ref(), &mut fields);
        let head = ResponseHead {
            fields,
            ..ResponseHead::new(StatusCode::OK)
        };
        let stream = self
            .answering
            .respond
            .send_response(convert::to_response(head), false)?;
        Ok(AnyOutgoing::H2(Outgoing::new(
            stream,
            self.answering.arrivals.account(),
        )))
    }

    /// Resets the stream without an answer.
    pub fn reset(mut self, reason: Reason) {
        self.answering.respond.send_reset(reason);
    }
}

/// The client reset the stream.
fn gone(reason: Reason) -> StreamError {
    StreamError::new(Cause::Reset(reason.into()))
}
