//! The parts of a stream.

use bytes::Bytes;
use hermes_proto::fields::Fields;

/// One received piece.
#[derive(Debug)]
pub enum Frame {
    /// Content or tunnel bytes; never empty.
    Data(Bytes),
    /// Trailers of a message; the last frame.
    Trailers(Fields),
}
