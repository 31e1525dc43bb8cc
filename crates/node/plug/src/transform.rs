//! A transform: changes the bytes and the datagrams of tunnels on their way, or lets no tunnel begin.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use hermes_http::{Duplex, RequestHead};
use hermes_net::StreamInfo;
pub use hermes_packet::{AlterDatagram, DatagramFate};
use hermes_proto::functions_field::{DoneFunctions, NodeFunctions, SignedFunctions};

use crate::refusal::Refusal;
use crate::settings::Settings;
use crate::target::Target;

/// Bytes that are made at once: a tunnel holds no more changed bytes that have not left.
#[doc(alias = "bound")]
pub const PIECE: usize = 16 * 1024;

/// Changes the bytes and the UDP datagrams of tunnels of routes that say `through: [NAME]`, in both directions. Tunnels of IP packets
/// begin with it, too, and pass unchanged; of requests it [sees the heads](Self::admit).
///
/// - **Gets** the [tunnel](TunnelSubject) before anything is opened for it, and then each piece of bytes as it came, in the tunnel's own
///   order, without the capsules around them. Of a tunnel of UDP it gets each datagram, if it [asks for them](Self::begin_datagrams).
/// - **Must** give the bytes that leave instead, and hold nothing back that the other side could wait for: a tunnel is a conversation. One
///   that the next proxy has to undo says so with [`needs_peer`](Self::needs_peer); the two nodes agree on it when the tunnel opens,
///   by the name under which both have it, and without that the bytes stay as they are.
/// - **Time**: the route's `timeouts.connect` to begin, and no longer than the client waits; every other call is a short computation.
/// - **Errors**: a [`Refusal`] is the answer to the client, with its reason in the record. Malformed bytes, and datagrams that it
///   refuses, break the tunnel: both sides are reset, and the record says why.
/// - **Charged**: its memory is the tunnel's; it must bound it, say it by [`memory`](Self::memory), and bound the tunnels that it has
///   at once.
/// - **Runs** on the worker of the tunnel, between two turns of the loop that moves the bytes: it must not block. The next piece is
///   read when the output of the last one has left.
pub trait Transform: Send + Sync {
    /// Begins with a tunnel. `None` if its bytes are to stay as they are: then nothing stands between them and the kernel, which may
    /// splice them.
    fn begin<'a>(&'a self, tunnel: &'a TunnelSubject<'a>) -> Beginning<'a>;

    /// Begins with a tunnel of UDP datagrams, and again when that takes another path. `None` if they are to stay as they are, which is the
    /// default: they pass without another look then. The next proxy undoes nothing: where it should, its own route names the reverse.
    fn begin_datagrams<'a>(&'a self, tunnel: &'a TunnelSubject<'a>) -> BeginningDatagrams<'a> {
        let beginning = self.begin(tunnel);
        Box::pin(async { beginning.await.map(|_| None) })
    }

    /// Leads a tunnel of bytes through something outside, in place of [`begin`](Self::begin). `None` for a transform that does not, the
    /// default.
    fn detour<'a>(&'a self, tunnel: &'a TunnelSubject<'a>) -> Option<Detouring<'a>> {
        let _ = tunnel;
        None
    }

    /// The node further on that does the work, and its functions; `None` for a transform that works here, the default. A tunnel of bytes opens
    /// only if that node says that it has done them.
    fn elsewhere(&self) -> Option<&NodeFunctions> {
        None
    }

    /// By which nodes believe each other about functions; `None` for a transform that works here alone, the default.
    fn signatures(&self) -> Option<&dyn FunctionSignatures> {
        None
    }

    /// Decides on a request that is no tunnel, and whose content passes unchanged. Default: it passes.
    fn admit<'a>(&'a self, request: &'a TunnelSubject<'a>) -> Admitting<'a> {
        let _ = request;
        Box::pin(std::future::ready(Ok(())))
    }

    /// Its settings where a document names it, as `through: [{ NAME: {..} }]`. Default: nothing.
    fn settings(&self) -> Option<Settings<dyn Transform>> {
        None
    }

    /// The reverse, on a node to which a peer sends changed bytes; `None` if there is no reverse, or no room for it.
    fn undo(&self) -> Option<Altering> {
        None
    }

    /// Bytes of memory that it takes for one tunnel. They are charged to the tunnel's user or source; a tunnel whose owner has no room
    /// for them is refused with 503, or stays as it is where the [next proxy](Self::needs_peer) would undo the changes.
    fn memory(&self) -> usize {
        2 * PIECE
    }

    /// Whether the next proxy has to undo it.
    fn needs_peer(&self) -> bool {
        false
    }

    /// The name by which that proxy has it, whatever the document calls it. Default: the name in the document.
    fn peer_name(&self) -> Option<&str> {
        None
    }
}

/// Signs requests for functions of other nodes, and judges those of others. `target` is that of the tunnel, in its canonical form.
pub trait FunctionSignatures: Send + Sync {
    /// Asks a node for these functions of a tunnel, in the name of the node `from`, once.
    ///
    /// # Errors
    /// There is no key for that node.
    fn sign(
        &self,
        from: &str,
        functions: &NodeFunctions,
        target: &str,
    ) -> Result<SignedFunctions, Refusal>;

    /// Judges a request of another node, and makes the proof that this node does as it is asked.
    ///
    /// # Errors
    /// It is forged, too old, or was here before; or there is no key for the node that asks.
    fn take(&self, asked: &SignedFunctions, target: &str) -> Result<DoneFunctions, Refusal>;

    /// Whether the node that was asked made this proof.
    fn is_proof(&self, asked: &SignedFunctions, target: &str, done: &DoneFunctions) -> bool;
}

/// A tunnel that begins, or a request.
pub struct TunnelSubject<'a> {
    /// The request, with the fields that are believed.
    pub head: &'a RequestHead,
    /// Its target, in the one form in which targets are compared: a name in lower case, an IPv4 address as one.
    pub target: &'a Target,
    /// Whose it is.
    pub user: Option<&'a str>,
    /// Where it came from.
    pub source: &'a StreamInfo,
    /// Where it entered.
    pub listener: &'a str,
    /// Its payload.
    pub payload: Payload,
}

/// The payload of a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payload {
    /// Bytes: their transform may change them.
    Bytes,
    /// UDP datagrams: their transform may change them.
    Datagrams,
    /// IP packets, which no transform changes.
    Packets,
    /// The content of a request or answer, which no transform changes.
    Message,
}

/// A request that waits for the decision of a transform.
pub type Admitting<'a> = Pin<Box<dyn Future<Output = Result<(), Refusal>> + Send + 'a>>;

/// A tunnel that begins with a transform.
pub type Beginning<'a> =
    Pin<Box<dyn Future<Output = Result<Option<Altering>, Refusal>> + Send + 'a>>;

/// A tunnel of UDP datagrams that begins with a transform.
pub type BeginningDatagrams<'a> =
    Pin<Box<dyn Future<Output = Result<Option<AlteringDatagrams>, Refusal>> + Send + 'a>>;

/// The changes of the two directions of a tunnel of UDP datagrams.
pub struct AlteringDatagrams {
    /// Of the datagrams from the client.
    pub to_target: Box<dyn AlterDatagram>,
    /// Of the datagrams from the target.
    pub to_client: Box<dyn AlterDatagram>,
}

/// The changes of the two directions of a tunnel.
pub struct Altering {
    /// Of the bytes from the client.
    pub to_target: Box<dyn Alter>,
    /// Of the bytes from the target.
    pub to_client: Box<dyn Alter>,
}

/// A tunnel that is led through something outside; `None` if it passes without that.
pub type Detouring<'a> = Pin<Box<dyn Future<Output = Result<Option<Detour>, Refusal>> + Send + 'a>>;

/// The two connections by which the bytes of a tunnel go through something outside, and come back.
pub struct Detour {
    /// Takes the bytes of the client, and gives those for it.
    pub near: Duplex,
    /// Gives the bytes for the target, and takes those of it.
    pub far: Duplex,
    /// Room that the tunnel takes, given back at its end.
    pub held: Box<dyn Send>,
}

/// Changes one direction of a tunnel.
pub trait Alter: Send {
    /// Whether it takes bytes now. It is asked before each piece; while it does not, the tunnel's sender is held back, and nothing else
    /// waits. Default: it does.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    /// Takes bytes from the front of `input`, and appends at most [`PIECE`] bytes to `output`, which is empty. Called until `input` is
    /// empty and nothing is appended any more.
    ///
    /// # Errors
    /// The bytes mean nothing.
    fn alter(&mut self, input: &mut Bytes, output: &mut BytesMut) -> Result<(), Malformed>;

    /// The direction has ended: appends at most [`PIECE`] of the remaining bytes to `output`. Called until it says that this was all;
    /// one that has nothing more and does not say so is malformed.
    ///
    /// # Errors
    /// The end came too soon.
    fn end(&mut self, output: &mut BytesMut) -> Result<bool, Malformed>;
}

/// Why bytes cannot be changed, in words for records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed(pub String);
