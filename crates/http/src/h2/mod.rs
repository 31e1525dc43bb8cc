//! Exchanges over HTTP/2 connections, with the `h2` crate on both sides.

mod alert;
pub mod client;
mod convert;
mod heads;
mod incoming;
mod keepalive;
mod meter;
mod metered;
mod outgoing;
mod packed;
mod piece;
mod profile;
pub(crate) mod server;
mod windows;

use hermes_net::memory::Account;

use crate::error::{Cause, EVICTED, StreamError};
pub use incoming::Incoming;
pub use outgoing::Outgoing;

pub(crate) use meter::{Bucket, Budget, Verdict};
pub(crate) use profile::{PUBLIC_WINDOW, Profile, link_frame_budget, link_reset_streams};

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

/// Room for a stream that the peer may fill before we read, in bytes.
pub(crate) const STREAM_WINDOW: u32 = 1024 * 1024;

/// Bytes that a stream may hold back for a peer that does not read.
pub(crate) const SEND_BUFFER: usize = 256 * 1024;

/// Largest DATA frame that we take from a peer or a server, in bytes: with its head 128 KiB, which is 8 full records of TLS. One that
/// is sent takes a millisecond of 1 Gbit/s, in which other streams wait.
pub(crate) const FRAME_SIZE: u32 = 128 * 1024 - 9;

/// As [`FRAME_SIZE`], from a stranger: the least that RFC 9113, 6.5.2 allows.
pub(crate) const PUBLIC_FRAME_SIZE: u32 = 16 * 1024;

/// Largest size of a header list, in bytes, as HPACK counts it.
pub(crate) const HEADER_LIST: u32 = 64 * 1024;
