//! Serving a connection: which HTTP version it speaks, and the loop that offers its exchanges.

use std::future::Future;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hermes_net::{Stream, StreamInfo, Watch};
use hermes_proto::greeting::Greeting;
use http::StatusCode;
use tokio::io::AsyncReadExt;

use crate::h2::client::Keepalive;
use crate::idle_connection::IdleConnection;
use crate::{MinRate, Offered, ResponseHead, h1, h2};

/// What every HTTP/2 client sends first (RFC 9113, 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Bounds of a connection that is served.
#[derive(Debug, Clone)]
pub struct Options {
    /// Bytes and field lines of a request head.
    pub head: hermes_proto::h1::MessageLimits,
    /// Time until a request head is complete.
    pub head_time: Duration,
    /// Time a connection may be idle between exchanges.
    pub idle_time: Duration,
    /// How fast clients must send content, and read it; no bound if absent. Tunnels are not held to it.
    pub min_rate: Option<MinRate>,
    /// HTTP/2 streams at once.
    pub streams: u32,
    /// Whether the clients are proxies that this one knows: one connection then carries many users.
    pub link: bool,
    /// Whether a client of HTTP/1.1 that ends its side while it waits for a response is still there.
    pub half_close: bool,
    /// How a client of HTTP/2 is watched; not at all if absent.
    pub keepalive: Option<Keepalive>,
}

/// How long a request head may take to be complete, and TLS before it: slow clients hold a descriptor.
#[doc(alias("bound", "limits.head_time"))]
const HEAD_TIME: Duration = Duration::from_secs(10);

/// How long a connection may be idle between two exchanges: it holds a descriptor.
#[doc(alias("bound", "limits.idle_time"))]
const IDLE_TIME: Duration = Duration::from_secs(60);

/// Streams of one connection at once.
#[doc(alias("bound", "limits.streams"))]
const STREAMS: u32 = 1000;

impl Default for Options {
    fn default() -> Self {
        Self {
            head: hermes_proto::h1::MessageLimits::default(),
            head_time: HEAD_TIME,
            idle_time: IDLE_TIME,
            min_rate: None,
            streams: STREAMS,
            link: false,
            half_close: false,
            keepalive: None,
        }
    }
}

/// What is done with the exchanges that a connection offers.
pub trait Handler: Clone + Send + Sync + 'static {
    /// Handles one exchange to its end.
    fn handle(&self, offered: Box<Offered>) -> impl Future<Output = ()> + Send;

    /// Refuses a request that came in early data and must not be repeated: someone could have done so (RFC 8470, 5.2).
    fn too_early(&self, offered: Box<Offered>) -> impl Future<Output = ()> + Send {
        async move {
            // Fails only when the client is gone.
            let _ = offered
                .refuse(ResponseHead::new(StatusCode::TOO_EARLY), Bytes::new())
                .await;
        }
    }

    /// Hears of a client that does not speak HTTP, but this. Default: nothing.
    fn greeted(&self, greeting: Greeting, source: &StreamInfo) {
        let _ = (greeting, source);
    }

    /// The answer to a request that is not HTTP; the connection closes after it.
    fn malformed(&self, status: StatusCode, reason: &str, source: &StreamInfo) -> ResponseHead;
}

/// How long an HTTP/1.1 connection that is to end still takes a request: one may be on its way, and
/// would be lost.
#[doc(alias = "bound")]
pub(crate) const LAST_REQUEST: Duration = Duration::from_millis(500);

/// Resolves when a connection of HTTP/1.1 that waits for a request is to end.
pub(crate) async fn farewell(watch: &Watch) {
    watch.graceful().await;
    tokio::select! {
        () = tokio::time::sleep(LAST_REQUEST) => {}
        () = watch.forced() => {}
    }
}

/// Serves one connection until it ends, is drained, or is forced to stop.
pub async fn serve<H: Handler>(stream: Stream, options: &Options, handler: H, watch: &Watch) {
    let mut client = IdleConnection::new(stream);
    while client.spoken(client.time(options), watch).await {
        let Some(silent) = Box::pin(client.serve(options, handler.clone(), watch)).await else {
            return;
        };
        client = silent;
    }
}

/// Serves a connection whose client has begun to speak; the stream, once it has been silent for long.
pub(crate) async fn exchanges<H: Handler>(
    client: IdleConnection,
    options: &Options,
    handler: H,
    watch: &Watch,
) -> Option<Stream> {
    let IdleConnection { mut stream, begun } = client;
    let info = stream.info().clone();
    let mut first = BytesMut::new();
    let alpn_h2 = info
        .tls
        .as_ref()
        .is_some_and(|tls| tls.alpn.as_deref() == Some(b"h2"));

    // Where ALPN did not choose it, HTTP/2 is known by its preface (RFC 9113, 3.4).
    let is_h2 = if begun {
        false
    } else if alpn_h2 {
        true
    } else {
        Box::pin(sniff(&mut stream, &mut first, options, watch)).await?
    };

    let greeting = if info.tls.is_none() && !is_h2 {
        Greeting::of(&first)
    } else {
        None
    };

    if let Some(greeting) = greeting {
        handler.greeted(greeting, &info);
        let connection = h1::Connection::new(stream, first);
        Box::pin(h1::server::refuse_greeting(
            connection, greeting, &info, &handler,
        ))
        .await;
        None
    } else if is_h2 {
        stream.unread(first.freeze());
        Box::pin(h2::server::serve(stream, info, options, handler, watch)).await;
        None
    } else {
        let connection = h1::Connection::new(stream, first);
        h1::server::serve(connection, info, options, handler, watch).await
    }
}

/// Whether the client begins with the preface of HTTP/2; `None` if it says nothing, or the connection is to end.
async fn sniff(
    stream: &mut Stream,
    first: &mut BytesMut,
    options: &Options,
    watch: &Watch,
) -> Option<bool> {
    let begins = tokio::time::timeout(options.idle_time, begins_with_preface(stream, first));
    let begins = tokio::select! {
        begins = begins => begins.unwrap_or(false),
        () = farewell(watch) => return None,
    };
    (!first.is_empty()).then_some(begins)
}

/// Reads until it is certain whether the client begins with the HTTP/2 preface.
async fn begins_with_preface(stream: &mut Stream, first: &mut BytesMut) -> bool {
    while first.len() < PREFACE.len() && PREFACE.starts_with(first) {
        match stream.read_buf(first).await {
            Ok(0) | Err(_) => return false,
            Ok(_) => {}
        }
    }
    first.starts_with(PREFACE)
}
