//! The state of one stream (RFC 9113, section 5.1).

use std::collections::VecDeque;

use bytes::BytesMut;

use super::batch::Content;
use super::flow::{ReceiveWindow, SendWindow};
use super::reason::Reason;
use super::turns::Rank;

/// The state of the peer's half of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Inbound {
    /// The head of a response.
    Head,
    /// Content and trailers.
    Content,
    /// Nothing.
    Closed,
}

/// How the sending half ends.
#[derive(Debug)]
pub(super) enum Ending {
    /// Not yet known.
    Open,
    /// Behind the queue.
    End,
    /// Behind the queue, with this section.
    Trailers(BytesMut),
    /// Our half has ended.
    Closed,
}

/// The receiving half.
#[derive(Debug)]
pub(super) struct Receiving {
    pub(super) inbound: Inbound,
    pub(super) window: ReceiveWindow,
    /// Bytes of content that were announced and have not come.
    pub(super) expected: Option<u64>,
    /// The stream is not read: the credit of its bytes is given back at once.
    pub(super) is_discarded: bool,
    /// A response to HEAD: it has no content, even if it announces a length.
    pub(super) is_bare: bool,
    /// The request is CONNECT: its bytes are not content.
    pub(super) is_tunnel: bool,
}

/// The sending half.
#[derive(Debug)]
pub(super) struct Sending<C> {
    pub(super) window: SendWindow,
    pub(super) queue: VecDeque<C>,
    /// Bytes of the queue.
    pub(super) queued: usize,
    pub(super) ending: Ending,
    /// When its turn is.
    pub(super) rank: Rank,
    /// The stream waits for its turn.
    pub(super) is_scheduled: bool,
    /// Someone waits to queue more.
    pub(super) is_awaited: bool,
    /// Reset the stream when the queue has left: nothing more is awaited of it.
    pub(super) reset: Option<Reason>,
}

/// One stream.
#[derive(Debug)]
pub(super) struct Stream<C> {
    pub(super) receiving: Receiving,
    pub(super) sending: Sending<C>,
}

impl<C: Content> Stream<C> {
    pub(super) fn new(inbound: Inbound, receive: u32, send: u32) -> Self {
        Self {
            receiving: Receiving {
                inbound,
                window: ReceiveWindow::new(receive),
                expected: None,
                is_discarded: false,
                is_bare: false,
                is_tunnel: false,
            },
            sending: Sending {
                window: SendWindow::new(send),
                queue: VecDeque::new(),
                queued: 0,
                ending: Ending::Open,
                rank: Rank::default(),
                is_scheduled: false,
                is_awaited: false,
                reset: None,
            },
        }
    }

    /// Whether both halves have ended.
    pub(super) fn is_closed(&self) -> bool {
        self.receiving.inbound == Inbound::Closed && matches!(self.sending.ending, Ending::Closed)
    }
}

impl<C: Content> Sending<C> {
    /// How many bytes may be queued, of `most`.
    pub(super) fn capacity(&self, most: usize) -> usize {
        self.window.room().min(most).saturating_sub(self.queued)
    }

    pub(super) fn push(&mut self, content: C) {
        self.queued += content.bytes().len();
        // Most streams never have more than one piece waiting, and keep the room while they are idle.
        if self.queue.capacity() == 0 {
            self.queue.reserve_exact(1);
        }
        self.queue.push_back(content);
    }

    /// Takes content of `most` bytes at most off the front.
    pub(super) fn pop(&mut self, most: usize) -> Option<C> {
        let front = self.queue.front_mut()?;
        let length = front.bytes().len();
        let content = if length > most {
            Some(front.split_to(most))
        } else {
            self.queue.pop_front()
        };

        self.queued -= length.min(most);
        content
    }
}
