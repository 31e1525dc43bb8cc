//! A handler: answers requests here, and may open exchanges of its own.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use bytes::Bytes;
use hermes_http::{Frame, Incoming, Kind, Outgoing, RequestHead, ResponseHead, StreamError};
use hermes_net::StreamInfo;
use hermes_observe::Exchange;
use hermes_proto::fields::Fields;
use hermes_proto::proxy_status::ProxyError;
use http::StatusCode;

use super::onward::Onward;
use super::waits::Waits;
use crate::connector::{Connecting, TunnelRequest, is_flow};
use crate::feed::Feed;
use crate::refusal::Refusal;
use crate::settings::Settings;
use crate::target::Target;

/// Answers the requests of routes that say `handle: NAME`; a *carrier*, also those of routes to an upstream whose `retry` asks for it,
/// as they would leave for the next proxy.
///
/// - **Gets** the request as the routes saw it: whose it is was decided, filters have allowed it, and hop-by-hop fields are gone; the
///   content as it comes; and an [`Opener`].
/// - **Must** give a [`Response`]. Content that is not at hand yet comes through a [`pipe`](hermes_http::pipe): the node forwards it as
///   fast as the client reads, and the handler's end of the pipe waits meanwhile. Tunnels of bytes and of datagrams go to
///   [`Handler::tunnel`], the counterpart of [`Connector::connect`](crate::Connector::connect).
///   Content for many clients, or without end, is a [`Feed`].
///   A carrier gets tunnels of bytes, too, as CONNECT: their bytes are the contents.
/// - **Time**: none is set. Its future is dropped when the client goes away before the answer; afterwards the pipe is
///   [broken](hermes_http::Outgoing::broken); a client of HTTP/1.1 that closes is noticed when something is sent to it, and where a
///   [`Feed`] answers it at once.
/// - **Errors**: a [`Refusal`] becomes the answer, with `Proxy-Status`, and the reason in the record. Dropping the sender of a pipe
///   before its end resets the client's stream.
/// - **Charged**: the exchange counts against the bounds of its listener and user until its content has ended. What a handler keeps
///   beyond that it must bound itself.
/// - **Runs** on the worker of the exchange, many at once on one thread: it must not block. Handlers are shared by all workers.
pub trait Handler: Send + Sync {
    /// Answers.
    fn handle(&self, request: HandlerRequest) -> Handling<'_>;

    /// Whether it takes tunnels of this kind, as [`Connector::takes`](crate::Connector::takes) says.
    fn takes(&self, kind: Kind) -> bool {
        is_flow(kind)
    }

    /// Takes a tunnel. Unless it says otherwise, they are refused with 501.
    fn tunnel(&self, _request: TunnelRequest) -> Connecting<'_> {
        let details = "this handler takes requests, no tunnels";
        let refusal = Refusal::new(ProxyError::HttpUpgradeFailed, details);
        let refused = Err(refusal.status(StatusCode::NOT_IMPLEMENTED));
        Box::pin(std::future::ready(refused))
    }

    /// Its settings where a document names it, as `handle: { NAME: {..} }`. Default: nothing.
    fn settings(&self) -> Option<Settings<dyn Handler>> {
        None
    }

    /// Whether it stands between requests and their next hop, and so is named by `through` of a route with `to` or `terminate`: it gets
    /// [`HandlerRequest::onward`]. Tunnels pass it by.
    fn stands_between(&self) -> bool {
        false
    }

    /// Whether the paths of its requests are secrets, which appear in no record or log. Default: no.
    fn hides_paths(&self) -> bool {
        false
    }
}

/// An answer on its way.
pub type Handling<'a> = Pin<Box<dyn Future<Output = Result<Response, Refusal>> + Send + 'a>>;

/// A request to a handler.
pub struct HandlerRequest {
    /// The request, with the fields that are believed.
    pub head: RequestHead,
    /// Its content.
    pub content: RequestContent,
    /// Its target.
    pub target: Target,
    /// Whose it is.
    pub user: Option<String>,
    /// Where it came from.
    pub source: Arc<StreamInfo>,
    /// Where it entered.
    pub listener: Arc<str>,
    /// The way to the next hop, where the handler stands between; its name, where the handler carries the request there.
    pub onward: Option<Onward>,
    /// Opens exchanges in its name.
    pub opener: Opener,
    /// Takes the reason for which a slow answer waits.
    pub waits: Waits,
}

/// An answer.
pub enum Response {
    /// With content that is at hand; `Content-Length` is added.
    Whole(ResponseHead, Bytes),
    /// With content that comes.
    Stream(ResponseHead, Incoming),
    /// With content that is made as the client takes it. A carrier gives none.
    Feed(ResponseHead, Box<dyn Feed>),
}

/// The content of a request, counted as it is read.
pub struct RequestContent {
    incoming: Incoming,
    /// Where it is counted, unless that is done elsewhere.
    exchange: Option<Arc<Exchange>>,
}

impl RequestContent {
    /// The content of a request, counted for its record.
    pub fn new(incoming: Incoming, exchange: Arc<Exchange>) -> Self {
        Self {
            incoming,
            exchange: Some(exchange),
        }
    }

    /// Content that was counted before it came here.
    pub fn counted(incoming: Incoming) -> Self {
        Self {
            incoming,
            exchange: None,
        }
    }

    /// The content for an exchange that this one is sent on with, whose record counts it.
    pub fn into_incoming(self) -> Incoming {
        self.incoming
    }

    /// Polls for the next piece, or for the trailers; `None` at the end. The client sends no more than was asked for and its window
    /// allows.
    pub fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, StreamError>>> {
        let polled = self.incoming.poll_frame(cx);
        if let (Poll::Ready(Some(Ok(Frame::Data(data)))), Some(exchange)) =
            (&polled, &self.exchange)
        {
            let moved = &exchange.counters().client_to_target;
            moved.fetch_add(data.len() as u64, Ordering::Relaxed);
        }
        polled
    }

    /// The next piece, or the trailers; `None` at the end.
    ///
    /// # Errors
    /// The client went away, or broke the protocol.
    pub async fn frame(&mut self) -> Option<Result<Frame, StreamError>> {
        std::future::poll_fn(|cx| self.poll_frame(cx)).await
    }

    /// Bytes that will come in all, where the client announced them.
    pub fn length(&self) -> Option<u64> {
        self.incoming.length()
    }
}

/// Opens exchanges on behalf of the one that a handler answers: with its user, and at its listener.
/// Policy and filters decide on them. They are routed by the same snapshot, have records of their own, and count against no bound of
/// the listener; a handler that opens many must bound them itself.
///
/// It may be kept, and may outlive the exchange; it keeps the exchange's data alive, its snapshot
/// too. Use it on the worker of that exchange, such as in a task that it [spawns](Self::spawn),
/// because connections belong to one worker. Open exchanges delay the end of the node like any
/// others.
#[derive(Clone)]
pub struct Opener(Option<Arc<dyn Opens>>);

/// An answer to an exchange that a handler opened.
pub type OpeningAnswer<'a> =
    Pin<Box<dyn Future<Output = Result<(ResponseHead, Incoming), Refusal>> + Send + 'a>>;

/// A tunnel that a handler or a connector opened.
pub struct OpenedTunnel {
    /// The fields of the answer that opened it, such as the protocol that a WebSocket agreed on.
    pub fields: Fields,
    /// From the target: its bytes, or capsules where the tunnel carries packets.
    pub incoming: Incoming,
    /// To the target.
    pub outgoing: Outgoing,
}

/// A tunnel that is being opened.
pub type OpeningTunnel<'a> =
    Pin<Box<dyn Future<Output = Result<OpenedTunnel, Refusal>> + Send + 'a>>;

/// Opens exchanges.
pub trait Opens: Send + Sync {
    /// Sends a request.
    fn open(&self, head: RequestHead, content: Incoming) -> OpeningAnswer<'_>;

    /// Opens a tunnel.
    fn tunnel(&self, head: RequestHead) -> OpeningTunnel<'_>;

    /// Runs a task until the node ends.
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>);
}

impl Opener {
    /// Opens exchanges by these means.
    pub fn new(opens: Arc<dyn Opens>) -> Self {
        Self(Some(opens))
    }

    /// For a handler that is called before the exchange has a route: it opens nothing.
    pub fn none() -> Self {
        Self(None)
    }

    /// Sends a request along the first route that matches it, and gives the answer; a failure on the way is an answer too, with
    /// `Proxy-Status`. Dropping the answer's content ends the exchange. The authority names the target, and must be there.
    ///
    /// # Errors
    /// The request is a tunnel's, names no target or has no route; it came through too many handlers; or the node ends.
    pub async fn open(
        &self,
        head: RequestHead,
        content: Incoming,
    ) -> Result<(ResponseHead, Incoming), Refusal> {
        match &self.0 {
            Some(opens) => opens.open(head, content).await,
            None => Err(no_route()),
        }
    }

    /// Opens a tunnel of any kind along the first route that matches its request. Dropping both halves ends it.
    ///
    /// # Errors
    /// The request is a message, or was refused on the way; else as for [`Self::open`].
    pub async fn tunnel(&self, head: RequestHead) -> Result<OpenedTunnel, Refusal> {
        match &self.0 {
            Some(opens) => opens.tunnel(head).await,
            None => Err(no_route()),
        }
    }

    /// Runs a task on this worker beside the answer, until it is done or the node ends: a drain waits for it, and then drops it.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(opens) = &self.0 {
            opens.spawn(Box::pin(task));
        }
    }
}

fn no_route() -> Refusal {
    let details = "nothing is opened for an exchange that has no route";
    Refusal::new(ProxyError::ProxyInternalError, details)
}
