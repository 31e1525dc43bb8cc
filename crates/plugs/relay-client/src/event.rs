//! Whatever a subscriber hears.

use bytes::Bytes;
use hermes_certified::KeyName;
use hermes_proto::relay::{End, Position};

/// An event of a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The relay listens: messages that are published from now on come.
    Opened {
        /// The position behind which they come.
        at: Position,
        /// Whether nothing is missing since the position before.
        is_recovered: bool,
    },
    /// A message.
    Message(Received),
    /// A message that is too long for the relay to keep begins: its content comes in pieces, of which this has the first. Where the way breaks
    /// off before the last one, the relay tells of a loss when it is there again.
    Begun(Received),
    /// A further piece of that message.
    Piece {
        /// Its part of the content, which may be empty.
        data: Bytes,
        /// Whether the message ends with it.
        is_last: bool,
    },
    /// Messages are lost. `aborted` is one that had begun, and whose publisher has broken off.
    Lost(Loss),
    /// The way broke off, for this reason; the subscription comes again by itself.
    Away(String),
    /// The relay ended the subscription. The last event.
    Ended {
        /// The reason.
        reason: End,
        /// The relay's words for developers.
        text: String,
    },
}

/// A message of a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// Its position.
    pub at: Position,
    /// Its media type, if its publisher named one.
    pub content_type: Option<String>,
    /// Its topic.
    pub topic: Option<String>,
    /// The key of its sender, if it proved one. The sender of a channel that names a key always did.
    pub sender: Option<KeyName>,
    /// Its content.
    pub data: Bytes,
}

/// Lost messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// Their number; 0 if no one knows it.
    pub count: u64,
    /// A word of docs/relay.md: `full`, `expired`, `away`, `restarted`; `other` where no way of several brought them; `unreadable` where the seal is of another key; `unproved` where the
    /// sender is not one that may publish.
    pub reason: &'static str,
    /// The reason in more words, if there are any.
    pub details: Option<String>,
}

impl Loss {
    /// The loss of one message that came, and is not to be believed.
    pub(crate) fn of_one(reason: &'static str, details: Option<String>) -> Event {
        Event::Lost(Self {
            count: 1,
            reason,
            details,
        })
    }
}
