//! Exchanges over HTTP/1.1, HTTP/2 and HTTP/3, both sides.
//!
//! For every version, the proxy sees two types: [`Offered`], an exchange that a client offers, to
//! be answered or accepted; and [`Pending`], an exchange that was opened towards the next proxy or
//! the origin. Both lead to an [`Incoming`] and an [`Outgoing`] stream, which carry a message's
//! content or, once a tunnel is accepted, its bytes or capsules: a tunnel is a pair of streams
//! without trailers, so one forwarding loop serves both. An exchange that came over no connection
//! is [held](HeldClient) by its creator, and answered through a [`pipe`].
//!
//! The crate does not choose where an exchange goes, keeps no pool, and changes no field but those
//! that frame a message on its connection.
//!
//! Specifications: RFC 9110, RFC 9112, RFC 9113, RFC 9114, RFC 8441 and RFC 9220 (extended CONNECT), RFC 9218
//! (priorities), RFC 9297 (HTTP datagrams), RFC 8470 (early data), RFC 6455 (its handshake), RFC 9931 (optimistic tunnels).
//!
//! Begin reading in `server/mod.rs`, then `offered.rs` and `pending.rs`: the two types. `server` and `client` have a file for each version, and
//! stand above `h1`, `h2` and `h3`.

mod answer_fields;
pub mod client;
mod connect_tcp;
mod duplex;
mod error;
mod exchanges;
mod frame;
pub mod h1;
pub mod h2;
pub mod h3;
mod held;
mod incoming;
mod interim;
mod link_ends;
mod offered;
mod outgoing;
mod pace;
mod pending;
mod pipe;
mod priority;
mod responders;
mod reusable_timer;
pub mod server;
mod websocket;

pub use answer_fields::{AnswerFields, LateField, NamePattern};
pub use duplex::Duplex;
pub use error::{Cause, Processed, Reset, StreamError};
pub use frame::Frame;
pub use held::{HeldClient, RefusalReason, Replying};
pub use hermes_proto::fields;
use hermes_proto::head;
pub use hermes_proto::head::{Kind, RequestHead, ResponseHead};
pub use incoming::Incoming;
pub use offered::Offered;
pub use outgoing::Outgoing;
pub use pace::MinRate;
pub use pending::{Event, Pending};
pub use pipe::{PipeReceiver, PipeSender, pipe};
pub use responders::{Adding, Responder};
pub use server::IdleConnection;
