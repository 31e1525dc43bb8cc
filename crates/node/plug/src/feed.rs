//! A feed: the content of an answer that is made as its stream takes it, such as the messages of a channel.

use std::task::{Context, Poll};

use bytes::Bytes;

/// Pieces that a feed gives at once, beyond which it gains nothing: a vectored write takes no more.
#[doc(alias = "bound")]
pub const FEED_PIECES: usize = 64;

/// Bytes that a feed gives at once, or one piece where that is larger: a client that stands still keeps them, also when their source
/// has dropped them.
#[doc(alias = "bound")]
pub const FEED_BYTES: usize = 16 * 1024;

/// The content of one answer, which a handler gives as [`Response::Feed`](crate::Response::Feed). It needs no task and no queue of its
/// own: the exchange polls it where it waits anyway.
///
/// - **Gets** asked for pieces when its stream has room and the pieces before have left; that is its back pressure. A feed that is
///   behind must drop something or end, as it says itself.
/// - **Must** give pieces that may be shared, the same bytes for any number of clients, and at most some [`FEED_PIECES`] and [`FEED_BYTES`].
/// - **Time**: none is set. It is dropped when the exchange is over.
/// - **Errors**: [`FeedState::Broken`] resets the client's stream, and the record says why.
/// - **Charged**: the exchange counts against the bounds of its listener and user. The handler must bound the queue behind a feed.
/// - **Runs** on the worker of the exchange: it must not block.
pub trait Feed: Send {
    /// Polls for the next pieces, and adds them to `pieces`, which is empty.
    fn poll_pieces(&mut self, cx: &mut Context<'_>, pieces: &mut Vec<Bytes>) -> Poll<FeedState>;

    /// Something happened to its exchange.
    fn notify(&mut self, _event: FeedEvent) {}
}

/// The state of a feed behind its pieces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FeedState {
    /// Further ones, at some time.
    Open,
    /// The end: the content is whole.
    Complete,
    /// Nothing, for this reason: the content is not whole, and looks so.
    Broken(String),
}

/// A change of the exchange that a feed answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FeedEvent {
    /// The node is to stop, and waits a while for feeds to end.
    Draining,
    /// The client is gone, or takes no more bytes; why. The last event.
    ClientGone(String),
    /// The rules or the credential of the exchange allow it no more; why. The last event.
    Denied(String),
}
