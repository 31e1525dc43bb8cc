//! Exchanges over HTTP/2 connections, on both sides: the machine of [`hermes_proto::h2`] with sockets, timers and bounds.
//!
//! Begin reading in `drive.rs`: one task a connection drives its machine; the owners of its streams share it, by `shared.rs`, and get its
//! events by `dispatch.rs`.

pub(crate) mod alert;
mod bandwidth;
pub(crate) mod convert;
pub(crate) mod dispatch;
pub(crate) mod drive;
pub(crate) mod handle;
mod inbox;
mod incoming;
pub(crate) mod keepalive;
mod outgoing;
mod over;
mod packed;
pub(crate) mod piece;
pub(crate) mod profile;
mod read_buffer;
pub(crate) mod shared;
mod turn_length;
mod unfinished;
pub(crate) mod windows;

use hermes_net::memory::Account;

use crate::error::{Cause, EVICTED, StreamError};
pub use incoming::StreamReceiver;
pub use keepalive::Keepalive;
pub use outgoing::StreamSender;

pub(crate) use hermes_proto::h2::{Bucket, Budget, Verdict};
pub(crate) use profile::{PUBLIC_WINDOW, Profile};

/// The error of a stream, or that its connection was ended because it holds too much.
pub(crate) fn explain(account: &Account, error: impl Into<StreamError>) -> StreamError {
    let error = error.into();
    if account.is_ended() {
        StreamError {
            cause: Cause::Silent(EVICTED),
            ..error
        }
    } else {
        error
    }
}

/// Bytes that a peer may send on a stream before we read; on links more, where more comes within a round trip.
#[doc(alias = "bound")]
pub(crate) const STREAM_WINDOW: u32 = 1024 * 1024;

/// Bytes that a stream may hold back for a peer that does not read.
#[doc(alias = "bound")]
pub(crate) const SEND_BUFFER: usize = 256 * 1024;

/// Bytes of the largest DATA frame that we take from a peer or a server: with its head 128 KiB,
/// which is 8 full TLS records. Sending one takes a millisecond at 1 Gbit/s, during which other
/// streams wait.
#[doc(alias = "bound")]
pub(crate) const FRAME_SIZE: u32 = 128 * 1024 - 9;

/// As [`FRAME_SIZE`], from a stranger: the least that RFC 9113, 6.5.2 allows.
#[doc(alias = "bound")]
pub(crate) const PUBLIC_FRAME_SIZE: u32 = 16 * 1024;

/// Bytes of a peer's dynamic table that our field sections use on links: a line that exchanges of a
/// link have in common costs an index. All users of a link share the table, so that one could find
/// out fields of another by their lengths: fields with secrets stay out.
#[doc(alias = "bound")]
pub(crate) const HEADER_TABLE: usize = 4096;
