//! Content on its way into the socket, counted until it is there.

use bytes::{Buf, Bytes};
use hermes_net::memory::HeldBytes;
use hermes_proto::h2::Content;

/// A piece of content. Its bytes count until they are written, or dropped with the stream.
#[derive(Debug)]
pub(crate) struct Piece {
    bytes: Bytes,
    held: HeldBytes,
}

impl Piece {
    /// Bytes that are counted by `held`.
    pub(crate) fn new(bytes: Bytes, held: HeldBytes) -> Self {
        Self { bytes, held }
    }
}

impl Content for Piece {
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn split_to(&mut self, length: usize) -> Self {
        Self {
            bytes: self.bytes.split_to(length),
            held: self.held.split(length),
        }
    }

    fn advance(&mut self, length: usize) {
        Buf::advance(&mut self.bytes, length);
        self.held.left(length);
    }
}
