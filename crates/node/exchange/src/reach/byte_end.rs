//! The far end of a tunnel of bytes, whatever opened it.

use std::net::SocketAddr;
use std::sync::Arc;

use hermes_http::{Incoming, Outgoing};
use hermes_upstream::Active;

/// The far end of a tunnel of bytes.
pub(crate) struct ByteEnd {
    pub(crate) streams: (Incoming, Outgoing),
    pub(crate) endpoint: Arc<str>,
    /// The address that was dialled, where `egress` speaks of it.
    pub(crate) address: Option<SocketAddr>,
    pub(crate) active: Active,
}
