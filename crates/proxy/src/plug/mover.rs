//! Tunnels of bytes that outlive the way to them.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hermes_http::{Incoming, Outgoing};
use http::HeaderMap;

/// Makes tunnels of bytes movable, where the proxy at their other end knows how.
///
/// What outlives its way needs a token, knowledge of what has arrived, and a way to move. A mover asks the far end for a token when a
/// tunnel is opened through a next proxy, and keeps what was sent until it is acknowledged. After a change of configuration the node
/// opens such a tunnel anew by its new rules, with the token, while the old way carries on; then it stops both directions between two
/// bytes, and lets [`Movable::resume`] agree with the far end where each of them goes on. Proxies in between need not know of it.
///
/// - **Gets** the fields of the request that leaves and those of the answer. What is in there for the mover alone it takes out.
/// - **Runs** on the worker of the exchange: it must not block. It is asked once for each tunnel, its [`Movable`] once for each piece of
///   bytes. Tunnels that are not movable do not come here again, and may be spliced; those that are move through the node.
/// - **Charged**: a [`Movable`] bounds what it keeps by [`Movable::poll_room`].
pub trait Mover: Send + Sync {
    /// Asks for a token in the request for a tunnel.
    fn ask(&self, fields: &mut HeaderMap);

    /// The tunnel is open, and this is the answer. `None`: it cannot move, as the far end does not know how.
    fn opened(&self, fields: &mut HeaderMap) -> Option<Box<dyn Movable>>;
}

/// One tunnel that can move.
pub trait Movable: Send {
    /// Polls until bytes may be sent to the target before some of those that are kept are acknowledged; says how many. As pieces are
    /// not cut, up to one piece more may come.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<usize>;

    /// These leave for the target next. They are kept until they are acknowledged.
    fn keep(&mut self, bytes: &Bytes);

    /// So many bytes have been written to the client, since the tunnel was opened: the far end need not keep them any more.
    fn delivered(&mut self, bytes: u64);

    /// Asks for this tunnel in a request that opens it anew.
    fn ask(&self, fields: &mut HeaderMap);

    /// Goes on by a new way: says there what has arrived here, hears what has arrived at the far end, and sends again what has
    /// not. The first byte that is read of what it returns is the one behind [`Position::target_to_client`]; the first that is
    /// written there, the one behind [`Position::client_to_target`].
    ///
    /// It has a time limit, after which it is dropped.
    ///
    /// # Errors
    /// Why it cannot. The tunnel stays where it is, as far as the far end has not left that way yet.
    fn resume(&mut self, way: NewWay, at: Position) -> Resuming<'_>;
}

/// A tunnel that goes on by a new way soon.
pub type Resuming<'a> =
    Pin<Box<dyn Future<Output = Result<(Incoming, Outgoing), String>> + Send + 'a>>;

/// A new way to the far end.
pub struct NewWay {
    /// What comes from there.
    pub incoming: Incoming,
    /// What goes there.
    pub outgoing: Outgoing,
    /// The fields of the answer.
    pub fields: HeaderMap,
}

/// Where a tunnel was stopped: bytes since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Position {
    /// Bytes that came from the client and were kept. Whether they have arrived is for the far end to say.
    pub client_to_target: u64,
    /// Whether the client has ended its direction; that is said again on the new way.
    pub client_ended: bool,
    /// Bytes that came from the target and were written to the client.
    pub target_to_client: u64,
    /// Whether the target has ended its direction.
    pub target_ended: bool,
}
