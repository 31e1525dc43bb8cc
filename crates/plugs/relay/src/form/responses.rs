//! HTTP responses one behind the other (RFC 9112, section 10.2), inside the one content that HTTP allows.

use std::fmt::Write as _;

use bytes::BytesMut;

use super::Word;
use crate::message::Message;

pub(super) fn head(message: &Message, output: &mut BytesMut) {
    // Writing to memory cannot fail.
    let _ = write!(output, "HTTP/1.1 200 OK\r\n");
    if let Some(kind) = &message.content_type {
        let _ = write!(
            output,
            "Content-Type: {}\r\n",
            String::from_utf8_lossy(kind)
        );
    }
    if let Some(proof) = &message.proof {
        for line in String::from_utf8_lossy(proof).lines() {
            let _ = write!(output, "{line}\r\n");
        }
    }
    let length = message.data.len();
    let sequence = message.sequence;
    let _ = write!(
        output,
        "Content-Length: {length}\r\nHermes-Sequence: {sequence}\r\n\r\n"
    );
}

/// Appends a word as a response without content.
pub(super) fn word(word: &Word<'_>, output: &mut BytesMut) {
    let _ = match word {
        Word::Gap(gap) => write!(
            output,
            "HTTP/1.1 206 Partial Content\r\nContent-Length: 0\r\nHermes-Gap: count={}, reason={}\r\n\r\n",
            gap.count,
            gap.reason.word()
        ),
        Word::Heartbeat(sequence) => write!(
            output,
            "HTTP/1.1 204 No Content\r\nHermes-Sequence: {sequence}\r\n\r\n"
        ),
        Word::Moved(moved) => write!(
            output,
            "HTTP/1.1 307 Temporary Redirect\r\nContent-Length: 0\r\nLocation: {}\r\n\r\n",
            moved.uri()
        ),
        Word::End(end, _) => write!(
            output,
            "HTTP/1.1 410 Gone\r\nContent-Length: 0\r\nHermes-End: {}\r\n\r\n",
            end.word()
        ),
    };
}
