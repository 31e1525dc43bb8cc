//! Server-sent events (HTML, section 9.2), as `EventSource` of browsers reads them.
//!
//! An event's `id` is `EPOCH.SEQUENCE.SUBSCRIPTION`: a browser that comes again sends the last one, and nothing else by which its
//! subscription could be found.

use std::fmt::Write as _;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};

use super::Word;
use crate::message::Message;

/// What the events of one subscriber have of their own.
#[derive(Debug, Clone)]
pub(crate) struct EventStream {
    /// The life of the channel.
    pub(crate) epoch: u32,
    /// The name of the subscription.
    pub(crate) subscription: Arc<str>,
}

impl EventStream {
    /// Appends messages as events.
    pub(crate) fn messages<'a>(
        &self,
        messages: impl Iterator<Item = &'a Arc<Message>>,
        pieces: &mut Vec<Bytes>,
    ) {
        let mut block = BytesMut::new();
        for message in messages {
            let epoch = self.epoch;
            let sequence = message.sequence;
            // Writing to memory cannot fail.
            let _ = writeln!(block, "id: {epoch:08x}.{sequence}.{}", self.subscription);
            data(&message.data, &mut block);
        }
        if !block.is_empty() {
            pieces.push(block.freeze());
        }
    }
}

/// Appends a content as the data of an event, and its end. A line may end in CR, LF or both; bytes that are no UTF-8 are replaced.
pub(super) fn data(content: &[u8], output: &mut BytesMut) {
    let text = String::from_utf8_lossy(content);
    let unified = text.replace("\r\n", "\n").replace('\r', "\n");
    for line in unified.split('\n') {
        output.put_slice(b"data: ");
        output.put_slice(line.as_bytes());
        output.put_u8(b'\n');
    }
    output.put_u8(b'\n');
}

/// Appends a word as an event of its own name, so that scripts hear of it: comments reach none.
pub(super) fn word(word: &Word<'_>, output: &mut BytesMut) {
    let _ = match word {
        Word::Gap(gap) => write!(
            output,
            "event: gap\ndata: {{\"count\":{},\"reason\":\"{}\"}}\n\n",
            gap.count,
            gap.reason.word()
        ),
        Word::Heartbeat(sequence) => write!(output, "event: heartbeat\ndata: {sequence}\n\n"),
        Word::Moved(moved) => {
            // The browser comes again with this name, wherever it is sent.
            let _ = match moved.event_id() {
                Some(id) => writeln!(output, "id: {id}"),
                None => Ok(()),
            };
            let channel = &moved.channel;
            write!(
                output,
                "retry: {}\nevent: moved\ndata: {channel}\n\n",
                moved.retry
            )
        }
        Word::End(end, text) => {
            let _ = write!(output, "event: end\ndata: {}", end.word());
            let _ = match text.is_empty() {
                true => Ok(()),
                false => write!(output, ": {text}"),
            };
            write!(output, "\n\n")
        }
    };
}
