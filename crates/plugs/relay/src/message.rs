//! A message of a channel.

use std::time::Instant;

use bytes::Bytes;

/// A message, kept once for all subscriptions of a worker.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    /// Its number in the channel.
    pub(crate) sequence: u64,
    /// Its media type, if its publisher named one.
    pub(crate) content_type: Option<Bytes>,
    /// Its topic.
    pub(crate) topic: Option<Bytes>,
    /// From then on it is worth nothing.
    pub(crate) expires: Option<Instant>,
    /// Whether a relay that passes it on is to wait for receivers without room.
    pub(crate) is_reliable: bool,
    /// The proof of its sender, where the channel is certified by a key.
    pub(crate) proof: Option<Bytes>,
    /// When it came.
    pub(crate) came: Instant,
    /// Its content, or a piece of it.
    pub(crate) data: Bytes,
    pub(crate) part: Part,
}

/// Whether it is a message, or one piece of a long one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Whole,
    First,
    Further,
    Last,
    /// The others do not come.
    Abort,
}

impl Message {
    /// Bytes that it is counted as where it waits: its content, and a share for the rest.
    pub(crate) fn cost(&self) -> usize {
        cost(self.data.len() + self.proof.as_ref().map_or(0, Bytes::len))
    }

    /// Whether it is worth nothing any more.
    pub(crate) fn is_expired(&self, now: Instant) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }
}

/// Bytes that a message with this much content is counted as where it waits.
pub(crate) fn cost(content: usize) -> usize {
    /// Its number, its labels, and its places in queues.
    const BESIDE: usize = 128;

    content + BESIDE
}
