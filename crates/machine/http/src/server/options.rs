//! The service of a connection: its bounds, and the handler of its exchanges.

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use hermes_net::{StreamInfo, Watch};
use hermes_proto::greeting::Greeting;
use http::StatusCode;

use crate::h2::Keepalive;
use crate::{MinRate, Offered, ResponseHead};

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

/// The handler of a connection's exchanges.
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

/// How long a client of HTTP/1.1 is silent before its connection frees its buffers and timers.
/// Programs that send one request after the other do so within a fraction of this time.
#[doc(alias = "bound")]
pub(crate) const SILENCE: Duration = Duration::from_secs(2);
