//! An ingress: makes exchanges of connections that do not speak HTTP.

use std::pin::Pin;
use std::sync::Arc;

use hermes_config::model::HostPort;
use hermes_http::Offered;
use hermes_net::shared_socket::DatagramSocket;
use hermes_net::{Stream, Watch};

/// Turns the connections of a `tcp` listener with `ingress: NAME` into exchanges, or the datagrams of a `udp` listener. A `tcp` listener has
/// one built in: without the key, each connection becomes a CONNECT for its `target`.
///
/// - **Gets** each connection after it was accepted, and introduced by a PROXY header where the listener asks for one; and a [`Gate`].
/// - **Must** find out what the client wants, and [hand in](Gate::hand_in) an exchange that says
///   so, such as a CONNECT. To make the client wait for the target, it hands in a
///   [held](Offered::held) exchange: the client is answered only after the target has answered, and
///   [`HeldClient`](hermes_http::HeldClient) learns how that ended. From then on the node's loops
///   carry the bytes: a connection that is handed over as it is can be spliced.
/// - **Time**: it must bound how long a client may take to say what it wants. The connection ends when its future does, or is dropped,
///   which happens when the node ends.
/// - **Errors**: a failed exchange is refused to its holder, recorded, and over when `hand_in`
///   returns. Anything that is not an exchange yet leaves no record.
/// - **Charged**: the connection counts against the listener's `limits`; the exchange against those of its user. An ingress knows no
///   user: the listener's `user` says whose the traffic is.
/// - **Runs** on the worker that accepted the connection, many at once on one thread: it must not block. It is shared by all workers.
pub trait Ingress: Send + Sync {
    /// Serves one connection, to its end.
    fn connection(&self, stream: Stream, gate: Gate) -> Serving<'_>;

    /// Whether it serves `udp` listeners, too.
    fn takes_datagrams(&self) -> bool {
        false
    }

    /// Serves the socket of a `udp` listener, alone, until the listener is to end and nothing goes on there; at the latest it is
    /// dropped. Where the socket was passed to the process, others may have it too: it says where they are met.
    fn datagrams(&self, socket: DatagramSocket, gate: Gate, watch: Watch) -> Serving<'_> {
        drop((socket, gate, watch));
        Box::pin(std::future::ready(()))
    }
}

/// A connection that is served, or an exchange that is carried.
pub type Serving<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Where an ingress hands in exchanges.
#[derive(Clone)]
pub struct Gate(Arc<dyn Takes>);

/// What takes exchanges in.
pub trait Takes: Send + Sync {
    /// What the listener says its exchanges are for.
    fn target(&self) -> Option<&HostPort>;

    /// Carries one to its end.
    fn take(&self, offered: Box<Offered>) -> Serving<'_>;
}

impl Gate {
    /// Hands exchanges to this taker.
    pub fn new(takes: Arc<dyn Takes>) -> Self {
        Self(takes)
    }

    /// The listener's `target`, where it has one.
    pub fn target(&self) -> Option<&HostPort> {
        self.0.target()
    }

    /// Takes an exchange through the pipeline, to its end. Whatever happens, it is answered once and recorded once.
    pub fn hand_in(&self, offered: Box<Offered>) -> Serving<'_> {
        self.0.take(offered)
    }
}
