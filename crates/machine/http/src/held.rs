//! An exchange that came over no connection of HTTP: who handed it in holds its client, and learns the answer.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use hermes_proto::fields::Fields;
use hermes_proto::proxy_status::ProxyError;
use http::StatusCode;

use crate::error::StreamError;
use crate::head::ResponseHead;
use crate::{Incoming, Outgoing};

/// An answer on its way to who waits for it.
pub type Replying<T> = Pin<Box<dyn Future<Output = Result<T, StreamError>> + Send>>;

/// Why an exchange is refused, for an ingress that answers in another protocol: with the reply code of SOCKS, a reset of TCP or an error of
/// ICMP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusalReason {
    /// The status that a client of HTTP gets.
    pub status: StatusCode,
    /// The kind of the failure (RFC 9209, 2.3): of this node, or of a later proxy that says it.
    pub error: ProxyError,
    /// The reason in words, for logs: a client need not be allowed to learn it.
    pub details: String,
}

/// Waits for the answer to an exchange that came over no connection of HTTP; see
/// [`Offered::held`](crate::Offered::held). One of `accept`, `respond` and `refuse` is called,
/// once. If it is dropped instead, the exchange was cut off.
pub trait HeldClient: Send + fmt::Debug {
    /// The target has answered, and the tunnel is open: gives the client's side of it.
    ///
    /// # Errors
    /// The client is gone.
    fn accept(self: Box<Self>, fields: Fields) -> Replying<(Incoming, Outgoing)>;

    /// The answer to a request, or to a tunnel that is not opened; gives the way for its content, of this length where it is known. A client
    /// that cannot be told anything is cut off, with [`Outgoing::Ended`].
    ///
    /// # Errors
    /// The client is gone.
    fn respond(self: Box<Self>, head: ResponseHead, length: Option<u64>) -> Replying<Outgoing>;

    /// The exchange is refused, by this node or by a later one; `head` is the answer that a client of HTTP would get. Default: as any
    /// other answer.
    ///
    /// # Errors
    /// The client is gone.
    fn refuse(
        self: Box<Self>,
        reason: RefusalReason,
        head: ResponseHead,
        length: Option<u64>,
    ) -> Replying<Outgoing> {
        drop(reason);
        self.respond(head, length)
    }

    /// Whether the bytes of its tunnels come as the content of the request, and leave as that of the response: they come before the
    /// tunnel is accepted, too, which then gives an [empty](Incoming::Empty) side to read from. Default: no.
    fn is_stored(&self) -> bool {
        false
    }

    /// Whether its request was acted on already, so that it may only be taken up where it is kept, and never be sent again. Default: no.
    fn is_taken_up(&self) -> bool {
        false
    }

    /// Takes bytes of its tunnel that may reach the target with the packet that opens its connection (TCP Fast Open), so that they may come there
    /// twice: where the client has asked for that, and they are there. Default: none.
    fn first_bytes(&mut self) -> Option<Bytes> {
        None
    }

    /// Resolves when the client is known to be gone. Default: never.
    fn gone(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::pending())
    }
}
