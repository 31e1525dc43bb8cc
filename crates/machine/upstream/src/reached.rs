//! An endpoint that was reached, and how far an attempt to reach one may go.

use std::net::SocketAddr;
use std::sync::Arc;

use hermes_http::h2::Keepalive;
use hermes_net::Stream;
use hermes_net::quic::Connection;
use tokio::time::Instant;

use crate::limits::Room;
use crate::nested_mtu::NestedMtu;

/// The transport for HTTP, by version.
#[derive(Debug)]
pub(crate) enum Transport {
    H1(Stream),
    H2(Stream),
    H3(Connection),
}

/// An endpoint that was reached.
#[derive(Debug)]
pub(crate) struct Reached {
    pub(crate) transport: Transport,
    pub(crate) address: Option<SocketAddr>,
    /// The name of the endpoint, for errors.
    pub(crate) endpoint: String,
    /// The connection's place under the bound of its upstream.
    pub(crate) room: Room,
    /// PINGs, should it be a link.
    pub(crate) keepalive: Option<Keepalive>,
    /// Where it lies inside another connection of QUIC, if it does.
    pub(crate) nested_mtu: Option<Arc<NestedMtu>>,
}

/// How far an attempt may go: until when, and through how many proxies it has come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) until: Instant,
    pub(crate) depth: u8,
}
