//! Exchanges over HTTP/3 connections (RFC 9114), with the machines of [`hermes_proto::h3`] over [`hermes_net::quic`].
//!
//! Both sides share one driver (`drive`), which sends and reads control streams and gives received
//! datagrams to their streams. A stream is two halves, a `Reader` and a `Sender`, and their shared
//! state.

pub(crate) mod convert;
mod datagrams;
pub(crate) mod drive;
mod errors;
mod finishing;
mod group_counts;
mod group_receiver;
mod group_sender;
mod hearing;
pub(crate) mod hold;
mod incoming;
mod instruction_streams;
mod load;
pub(crate) mod outgoing;
pub(crate) mod priority;
mod queue;
pub(crate) mod reader;
pub(crate) mod sender;
pub(crate) mod shared;
pub(crate) mod stream_state;
pub(crate) mod tables;
mod watched;

pub use datagrams::{DatagramReceiver, DatagramSender, GROUP_MEMORY};
pub use group_counts::{GroupCounts, GroupTally};
pub use incoming::RequestStreamReceiver;
pub use outgoing::RequestStreamSender;
pub use queue::Lost;
pub use watched::Watched;

/// Bytes that are taken from a stream at once, and the largest piece that small ones are joined to: as a frame of HTTP/2.
#[doc(alias = "bound")]
pub(crate) const PIECE: usize = 16 * 1024;
