//! What a stream is made of.

use bytes::Bytes;
use hermes_proto::fields::Fields;

/// One piece of what arrives.
#[derive(Debug)]
pub enum Frame {
    /// Content or tunnel bytes; never empty.
    Data(Bytes),
    /// Trailers of a message; the last frame.
    Trailers(Fields),
}
