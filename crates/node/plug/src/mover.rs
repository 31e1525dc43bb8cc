//! Tunnels of bytes that outlive the path to them.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hermes_http::{Incoming, Outgoing};
use hermes_proto::fields::Fields;

/// Makes tunnels of bytes movable, if the proxy at the other end supports it.
///
/// A node has a protocol of its own for that, `tunnel: { resume: true }` of a route, by which tunnels also outlive the loss of their path. A
/// mover is for far ends that speak another one; where there is a mover, it takes the place of the node's own.
///
/// To outlive its path, a tunnel needs a token, knowledge of what has arrived, and a way to move. A
/// mover asks the far end for a token when a tunnel is opened through a next proxy, and keeps what
/// was sent until it is acknowledged. After a change of configuration the node opens such a tunnel
/// anew by its new rules, with the token, while the old path carries on; then it stops both
/// directions between two bytes, and lets [`Movable::resume`] agree with the far end where each of
/// them goes on. Proxies in between need not know of it.
///
/// - **Gets** the fields of the request that leaves and those of the answer. It takes out those
///   that are only for the mover.
/// - **Runs** on the worker of the exchange: it must not block. It is asked once for each tunnel,
///   its [`Movable`] once for each piece of bytes. Tunnels that are not movable do not come here
///   again, and may be spliced; the bytes of those that are pass through the node.
/// - **Charged**: a [`Movable`] bounds what it keeps by [`Movable::poll_room`].
pub trait Mover: Send + Sync {
    /// Asks for a token in the request for a tunnel.
    fn ask(&self, fields: &mut Fields);

    /// The tunnel is open, and this is the answer. `None`: it cannot move, as the far end does not know how.
    fn opened(&self, fields: &mut Fields) -> Option<Box<dyn Movable>>;
}

/// One tunnel that can move.
pub trait Movable: Send {
    /// Polls until bytes may be sent to the target before some of those that are kept are acknowledged; says how many. As pieces are
    /// not cut, up to one piece more may come.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<usize>;

    /// These leave for the target next. They are kept until they are acknowledged.
    fn keep(&mut self, bytes: &Bytes);

    /// This many bytes have been written to the client since the tunnel was opened: the far end no
    /// longer has to keep them.
    fn delivered(&mut self, bytes: u64);

    /// Asks for this tunnel in a request that opens it anew.
    fn ask(&self, fields: &mut Fields);

    /// Goes on by a new path: says there what has arrived here, hears what has arrived at the far
    /// end, and sends again what has not. The first byte read from the returned halves is the one
    /// after [`Position::target_to_client`]; the first byte written to them is the one after
    /// [`Position::client_to_target`].
    ///
    /// It has a time limit, after which it is dropped.
    ///
    /// # Errors
    /// Why it cannot. The tunnel stays where it is, unless the far end has left that path already.
    fn resume(&mut self, path: NewPath, at: Position) -> Resuming<'_>;
}

/// A tunnel that goes on by a new path soon.
pub type Resuming<'a> =
    Pin<Box<dyn Future<Output = Result<(Incoming, Outgoing), String>> + Send + 'a>>;

/// A new path to the far end.
pub struct NewPath {
    /// What comes from there.
    pub incoming: Incoming,
    /// What goes there.
    pub outgoing: Outgoing,
    /// The fields of the answer.
    pub fields: Fields,
}

/// Where a tunnel was stopped: bytes since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Position {
    /// Bytes that came from the client and were kept. Whether they have arrived is for the far end to say.
    pub client_to_target: u64,
    /// Whether the client has ended its direction; the end is repeated on the new path.
    pub client_ended: bool,
    /// Bytes that came from the target and were written to the client.
    pub target_to_client: u64,
    /// Whether the target has ended its direction.
    pub target_ended: bool,
}
