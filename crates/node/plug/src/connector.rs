//! A connector: the far end of tunnels, where that is no socket of the node.

use std::pin::Pin;
use std::sync::Arc;

use hermes_http::{Kind, RequestHead};
use hermes_net::StreamInfo;
use hermes_packet::Bounds;

use crate::arrival::End;
use crate::handler::Opener;
use crate::refusal::Refusal;
use crate::settings::Settings;
use crate::target::Target;

/// Opens the far ends of tunnels of routes that say `terminate: { by: NAME }`: a target becomes bytes or packets. The node's own TCP
/// connections and UDP sockets are the same to the rest of the pipeline.
///
/// - **Gets** a [`TunnelRequest`] for a tunnel of a kind that it [takes](Self::takes): with the target as the route rewrote it, and the
///   fields that an origin may see. Other exchanges of the route are refused with 501.
/// - **Must** give an [`End`]: a pair of streams for bytes; for packets ([`TunnelRequest::carries_packets`]) a pair of streams of
///   capsules, or an end of packets of UDP or of IP. The node's loops move the payload, count it, and end it
///   when rules or credentials change.
/// - **Time**: the route's `timeouts.connect`. Its future is dropped when that has passed, and when the client goes.
/// - **Errors**: a [`Refusal`] becomes the answer, with `Proxy-Status`, and the reason in the record. It is not tried again.
/// - **Charged**: the tunnel counts against the bounds of its listener and user. What waits beyond the streams of `hermes_http` the
///   connector must bound itself; [`TunnelRequest::bounds`] says how much for packets. The rules of `egress` are about addresses that
///   the node dials: a connector must decide itself which targets it reaches.
/// - **Runs** on the worker of the tunnel, many at once on one thread: it must not block. Connectors are shared by all workers.
pub trait Connector: Send + Sync {
    /// Whether it takes tunnels of this kind. Default: CONNECT, connect-tcp and CONNECT-UDP. With [`Kind::Upgrade`] it gets the bytes
    /// that follow a handshake, which the node completes; with [`Kind::ConnectIp`] packets, and the capsules of RFC 9484 between them.
    fn takes(&self, kind: Kind) -> bool {
        is_flow(kind)
    }

    /// Opens a far end.
    fn connect(&self, request: TunnelRequest) -> Connecting<'_>;

    /// Its settings where a document names it, as `terminate: { by: { NAME: {..} } }`. Default: nothing.
    fn settings(&self) -> Option<Settings<dyn Connector>> {
        None
    }
}

/// A far end that is being opened.
pub type Connecting<'a> = Pin<Box<dyn Future<Output = Result<End, Refusal>> + Send + 'a>>;

/// A tunnel for which a far end is wanted.
pub struct TunnelRequest {
    /// The request, as an origin would see it.
    pub head: RequestHead,
    /// Where it leads.
    pub target: Target,
    /// Whose it is.
    pub user: Option<String>,
    /// Where it came from.
    pub source: Arc<StreamInfo>,
    /// Where it entered.
    pub listener: Arc<str>,
    /// Bounds on packets that wait for it.
    pub bounds: Bounds,
    /// Opens exchanges in its name.
    pub opener: Opener,
}

impl TunnelRequest {
    /// Whether it carries packets; else it carries bytes.
    pub fn carries_packets(&self) -> bool {
        self.head.kind().carries_packets()
    }
}

/// Whether this is one connection, or one pair of UDP ports.
pub(crate) fn is_flow(kind: Kind) -> bool {
    matches!(kind, Kind::Connect | Kind::ConnectTcp | Kind::ConnectUdp)
}
