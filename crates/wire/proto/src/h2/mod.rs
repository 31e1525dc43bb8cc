//! HTTP/2 (RFC 9113) without input or output: frames, HPACK, streams, flow control, and bounds on
//! the cost of a peer.
//!
//! A [`Connection`] is the machine of one connection, of a client or of a server. Bytes go into
//! [`Connection::handle`], and [`Connection::poll_event`] tells their meaning. Commands such as
//! [`Connection::respond`] and [`Connection::send`] queue frames; [`Connection::transmit`] moves
//! them into a [`FrameBatch`], whose slices point at the content. Time is an argument.
//!
//! The cost of a peer is bounded in here: resets and errors that make us reset, frames that cost
//! their sender nothing ([`Budgets`]), the size of field sections and the CONTINUATION frames they
//! come in, streams at once, windows.
//!
//! Not supported: it does not push, nor lets anyone push, and knows no HTTP/1.1 `Upgrade: h2c`.
//! PRIORITY frames have no effect (RFC 9113, section 5.3.2); its owner is told of PRIORITY_UPDATE
//! (RFC 9218).
//!
//! Specifications: RFC 9113, RFC 7541 (in [`hpack`]), RFC 8441 (extended CONNECT), RFC 9218 (priorities).
//!
//! Begin reading in `connection.rs`: the state; then `inbound.rs` and `sections.rs`, the input, and
//! `outbound.rs`, the output.

mod batch;
mod connection;
mod event;
mod flow;
mod frame;
#[cfg(test)]
mod fuzz;
mod head;
pub mod hpack;
mod inbound;
mod meter;
mod outbound;
mod reason;
mod sections;
mod settings;
mod stream;
mod streams;
mod turns;

pub use crate::h3::{Role, Signal};
pub use crate::qpack::FieldSectionLimits;
pub use batch::{Content, FrameBatch};
pub use connection::{Connection, ConnectionOptions, UnfinishedBlock};
pub use event::{Event, Failure};
pub use frame::{FRAME_HEAD, FrameHead, FrameKind, LEAST_FRAME_SIZE, PREFACE};
#[cfg(test)]
pub(crate) use fuzz::fuzz_one;
pub use head::{BadHead, HeadLines, HeadParts, Unsendable};
pub use meter::{Bucket, Budget, Budgets, Verdict};
pub use outbound::{OpenError, SendError};
pub use reason::{ConnectionError, Reason};
pub use settings::PeerSettings;
pub use streams::{ByNumber, NumberHasher};
pub use turns::{LONGEST_TURN, Rank, SHORTEST_TURN};
