//! Content on its way into the socket, counted until it is there.

use bytes::{Buf, Bytes};
use hermes_net::memory::Held;

/// A piece of content. It counts until the `h2` crate has written it, or dropped it with its stream.
#[derive(Debug)]
pub(crate) struct Piece {
    bytes: Bytes,
    held: Option<Held>,
}

impl Piece {
    /// Bytes that are counted by `held`.
    pub(super) fn new(bytes: Bytes, held: Held) -> Self {
        Self {
            bytes,
            held: Some(held),
        }
    }

    /// Nothing: the end of a stream.
    pub(super) fn empty() -> Self {
        Self {
            bytes: Bytes::new(),
            held: None,
        }
    }
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.bytes
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        if let Some(held) = &mut self.held {
            held.left(count);
        }
    }
}
