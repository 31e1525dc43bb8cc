//! The connection that an exchange takes from the pool, and its maker if there is none.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use hermes_http::h1::Connection;
use tokio::time::Instant;

use super::h1::Berth;
use super::link::Link;
use crate::failure::ConnectFailure;
use crate::limits::Room;
use crate::link_use::Counted;
use crate::reached::Reached;
use crate::upstream::Upstream;

/// Whether a kept connection to this address may be used.
pub(crate) type Fits<'a> = &'a (dyn Fn(Option<SocketAddr>) -> bool + Sync);

/// A connection that is being made, in a place of its own: most exchanges find one that is kept, and need not make room for this.
pub(crate) type Dialling<'a> =
    Pin<Box<dyn Future<Output = Result<Reached, ConnectFailure>> + Send + 'a>>;

/// As [`Dialling`], in its place in the pool.
pub(crate) type Making<'a> =
    Pin<Box<dyn Future<Output = Result<Taken, ConnectFailure>> + Send + 'a>>;

/// A connection for one exchange.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) carrier: Carrier,
    pub(crate) address: Option<SocketAddr>,
    pub(crate) reused: bool,
    /// The connection's place under the bound of its upstream.
    pub(crate) room: Room,
}

/// The carrier of the exchange.
#[derive(Debug)]
pub(crate) enum Carrier {
    /// A connection of its own, with its berth if it was kept before.
    H1(Box<Connection>, Option<Arc<Berth>>),
    /// A stream of a shared link.
    Shared(Link, Counted),
}

/// Makes connections for the pool itself, where no exchange asks for one.
pub(crate) trait Dialer: Send + Sync {
    /// Reaches an endpoint of the upstream, over whichever version comes about first.
    fn http<'a>(&'a self, upstream: &'a Upstream, index: usize, until: Instant) -> Dialling<'a>;

    /// As [`http`](Self::http), over HTTP/3 alone.
    fn quic<'a>(&'a self, upstream: &'a Upstream, index: usize, until: Instant) -> Dialling<'a>;
}
