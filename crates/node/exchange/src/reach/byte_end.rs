//! The far end of a tunnel of bytes, whatever opened it, and a path there.

use std::net::SocketAddr;
use std::sync::Arc;

use hermes_http::{Incoming, Outgoing};
use hermes_proto::fields::Fields;
use hermes_upstream::Active;

/// The far end of a tunnel of bytes.
pub(crate) struct ByteEnd {
    pub(crate) streams: (Incoming, Outgoing),
    pub(crate) endpoint: Arc<str>,
    /// The address that was dialled, where `egress` speaks of it.
    pub(crate) address: Option<SocketAddr>,
    pub(crate) active: Active,
}

/// A path for bytes through a next proxy.
pub(crate) struct BytePath {
    /// Bytes from its far end.
    pub(crate) incoming: Incoming,
    /// Bytes to its far end.
    pub(crate) outgoing: Outgoing,
    /// The fields of the answer that opened it.
    pub(crate) fields: Fields,
    /// Counts it at its upstream.
    pub(crate) active: Active,
}
