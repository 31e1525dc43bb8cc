//! Each message as a line of text, for people who look on.

use std::fmt::Write as _;

use bytes::{BufMut, BytesMut};

use super::Word;
use crate::message::Message;

pub(super) fn message(message: &Message, output: &mut BytesMut) {
    output.put_slice(&message.data);
    if !message.data.ends_with(b"\n") {
        output.put_u8(b'\n');
    }
}

/// Appends a loss or the end in brackets. A message may look the same: programs take another form.
pub(super) fn word(word: &Word<'_>, output: &mut BytesMut) {
    // Writing to memory cannot fail.
    let _ = match word {
        Word::Gap(gap) if gap.count == 0 => {
            writeln!(output, "[hermes: messages lost: {}]", gap.reason.word())
        }
        Word::Gap(gap) => {
            let count = gap.count;
            let reason = gap.reason.word();
            writeln!(output, "[hermes: {count} messages lost: {reason}]")
        }
        Word::Heartbeat(_) => Ok(()),
        Word::Moved(moved) => writeln!(output, "[hermes: moved to {}]", moved.channel),
        Word::End(end, _) => writeln!(output, "[hermes: end: {}]", end.word()),
    };
}
