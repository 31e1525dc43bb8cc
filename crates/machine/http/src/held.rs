//! An exchange that came over no connection of HTTP: who handed it in holds its client, and learns the answer.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use hermes_proto::fields::Fields;

use crate::error::StreamError;
use crate::head::ResponseHead;
use crate::{Incoming, Outgoing};

/// An answer on its way to who waits for it.
pub type Replying<T> = Pin<Box<dyn Future<Output = Result<T, StreamError>> + Send>>;

/// Who waits for the answer to an exchange that came over no connection of HTTP; see [`Offered::held`](crate::Offered::held). One of
/// its two methods is called, once. If it is dropped instead, the exchange was cut off.
pub trait HeldClient: Send + fmt::Debug {
    /// The target has answered, and the tunnel is open: gives the client's side of it.
    ///
    /// # Errors
    /// The client is gone.
    fn accept(self: Box<Self>, fields: Fields) -> Replying<(Incoming, Outgoing)>;

    /// The answer to a request, or the refusal of a tunnel; gives the way for its content, of this length where it is known. A client
    /// that cannot be told anything is cut off, with [`Outgoing::Ended`].
    ///
    /// # Errors
    /// The client is gone.
    fn respond(self: Box<Self>, head: ResponseHead, length: Option<u64>) -> Replying<Outgoing>;

    /// Whether the bytes of its tunnels come as the content of the request, and leave as that of the response: they come before the
    /// tunnel is accepted, too, which then gives an [empty](Incoming::Empty) side to read from. Default: no.
    fn is_stored(&self) -> bool {
        false
    }

    /// Whether its request was acted on already, so that it may only be taken up where it is kept, and never be sent again. Default: no.
    fn is_taken_up(&self) -> bool {
        false
    }

    /// Resolves when the client is known to be gone. Default: never.
    fn gone(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::pending())
    }
}
