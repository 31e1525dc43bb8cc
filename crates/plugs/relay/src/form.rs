//! The forms in which a subscriber may take messages, chosen by `Accept`.

mod accept;
mod event_stream;
mod json;
mod lines;
mod native;
mod responses;

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use hermes_proto::relay::{End, Gap};

use crate::message::Message;
use crate::moved::Moved;

pub(crate) use accept::accepted;
pub(crate) use event_stream::EventStream;

/// A form of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    /// Capsules.
    Native,
    /// Capsules for a relay that has receivers of its own.
    Relayed,
    /// `text/event-stream`, as browsers read it.
    EventStream,
    /// A JSON object in each line.
    JsonLines,
    /// HTTP responses, one behind the other, as the paper has them on the wire.
    Responses,
    /// Each message as a line of text, for people.
    Lines,
    /// The contents alone.
    Octets,
}

/// The words about a subscription, beside its messages.
#[derive(Debug, Clone)]
pub(crate) enum Word<'a> {
    /// Messages are lost.
    Gap(Gap),
    /// Nothing has happened since this message.
    Heartbeat(u64),
    /// It is over.
    End(End, &'a str),
    /// It goes on at another relay.
    Moved(&'a Moved),
}

impl Form {
    /// The media type of an answer in this form.
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Native | Self::Relayed => hermes_proto::relay::MEDIA_TYPE,
            Self::EventStream => "text/event-stream",
            Self::JsonLines => "application/x-ndjson",
            Self::Responses => "application/http;msgtype=response",
            Self::Lines => "text/plain;charset=utf-8",
            Self::Octets => "application/octet-stream",
        }
    }

    /// The form in which a relay gets messages that it passes on.
    pub(crate) fn for_relays(self) -> Self {
        match self {
            Self::Native => Self::Relayed,
            other => other,
        }
    }

    /// Whether its subscribers can say where they were when they come again.
    pub(crate) fn can_resume(self) -> bool {
        !matches!(self, Self::Lines | Self::Octets)
    }

    /// Whether it has words for a loss. Where it has none, the content breaks off, so that no loss looks like none.
    pub(crate) fn tells_gaps(self) -> bool {
        self != Self::Octets
    }

    /// Appends messages. Their bytes are the same for all subscribers, but for those of [`EventStream`].
    pub(crate) fn messages<'a>(
        self,
        messages: impl Iterator<Item = &'a Arc<Message>>,
        pieces: &mut Vec<Bytes>,
    ) {
        /// The length from which a content is passed on as it is, instead of being copied behind those before it.
        const LARGE: usize = 2048;

        let mut block = BytesMut::new();
        for message in messages {
            self.head(message, &mut block);
            if message.data.len() < LARGE || !self.keeps_content() {
                self.content(message, &mut block);
            } else {
                pieces.push(block.split().freeze());
                pieces.push(message.data.clone());
            }
        }
        if !block.is_empty() {
            pieces.push(block.freeze());
        }
        pieces.retain(|piece| !piece.is_empty());
    }

    /// Whether the content stands in it as it is, at the end of a message.
    fn keeps_content(self) -> bool {
        matches!(
            self,
            Self::Native | Self::Relayed | Self::Responses | Self::Octets
        )
    }

    fn head(self, message: &Message, output: &mut BytesMut) {
        match self {
            Self::Native => native::head(message, false, output),
            Self::Relayed => native::head(message, true, output),
            Self::Responses => responses::head(message, output),
            Self::EventStream | Self::JsonLines | Self::Lines | Self::Octets => {}
        }
    }

    fn content(self, message: &Message, output: &mut BytesMut) {
        match self {
            Self::Native | Self::Relayed | Self::Responses | Self::Octets => {
                output.extend_from_slice(&message.data);
            }
            Self::JsonLines => json::message(message, output),
            Self::Lines => lines::message(message, output),
            Self::EventStream => event_stream::data(&message.data, output),
        }
    }

    /// Appends a word about the subscription; nothing where the form has none.
    pub(crate) fn word(self, word: &Word<'_>, output: &mut BytesMut) {
        match self {
            Self::Native | Self::Relayed => native::word(word, output),
            Self::EventStream => event_stream::word(word, output),
            Self::JsonLines => json::word(word, output),
            Self::Responses => responses::word(word, output),
            Self::Lines => lines::word(word, output),
            Self::Octets => {}
        }
    }
}

#[cfg(test)]
mod tests;
