//! Exchanges over HTTP/2 connections, with the `h2` crate on both sides.

mod alert;
pub mod client;
mod convert;
mod incoming;
mod keepalive;
mod outgoing;
pub(crate) mod server;

pub use incoming::Incoming;
pub use outgoing::Outgoing;

/// Room for a stream that the peer may fill before we read, in bytes.
pub(crate) const STREAM_WINDOW: u32 = 1024 * 1024;

/// Room for all streams of a link together, in bytes: no bound of its own, so that streams whose reader stopped cannot stall
/// the others. What a link can hold is bounded by its streams and their windows.
pub(crate) const LINK_WINDOW: u32 = i32::MAX as u32;

/// Room for all streams of a stranger's connection together, in bytes: his streams share it, and stall only each other.
pub(crate) const PUBLIC_WINDOW: u32 = 16 * 1024 * 1024;

/// What small DATA frames may cost on a link before it is given up, in bytes (the `h2` crate's accounting): a tunnel of
/// keystrokes must not end the others.
pub(crate) const LINK_FRAME_BUDGET: usize = 256 * 1024 * 1024;

/// Streams that were reset and whose late frames are still told from errors, on a link.
pub(crate) const LINK_RESET_STREAMS: usize = 4096;

/// Bytes that a stream may hold back for a peer that does not read.
pub(crate) const SEND_BUFFER: usize = 256 * 1024;

/// Largest DATA frame, in bytes: the default of RFC 9113, 6.5.2; larger frames were measured to be slower.
pub(crate) const FRAME_SIZE: u32 = 16 * 1024;

/// Largest size of a header list, in bytes, as HPACK counts it.
pub(crate) const HEADER_LIST: u32 = 64 * 1024;
