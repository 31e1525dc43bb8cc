//! The far end of a tunnel of bytes, whatever opened it, and a path there.

use std::net::SocketAddr;
use std::sync::Arc;

use hermes_http::Duplex;
use hermes_proto::fields::Fields;
use hermes_upstream::Active;

/// The far end of a tunnel of bytes.
pub(crate) struct ByteEnd {
    pub(crate) streams: Duplex,
    pub(crate) endpoint: Arc<str>,
    /// The address that was dialled, where `egress` speaks of it.
    pub(crate) address: Option<SocketAddr>,
    /// Whether it has several paths, where the request asked for them.
    pub(crate) is_multipath: Option<bool>,
    pub(crate) active: Active,
}

/// A path for bytes through a next proxy.
pub(crate) struct BytePath {
    pub(crate) streams: Duplex,
    /// The fields of the answer that opened it.
    pub(crate) fields: Fields,
    /// Counts it at its upstream.
    pub(crate) active: Active,
}
