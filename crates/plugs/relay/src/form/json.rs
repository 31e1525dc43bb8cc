//! A JSON object in each line.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{BufMut, BytesMut};
use serde_json::{Value, json};

use super::Word;
use crate::message::Message;

/// Appends a message: its content as `data` where that is text, else in Base64 as `base64`.
pub(super) fn message(message: &Message, output: &mut BytesMut) {
    let mut object = json!({ "seq": message.sequence });
    if let Some(members) = object.as_object_mut() {
        let labels = [
            ("type", &message.content_type),
            ("topic", &message.topic),
            ("proof", &message.proof),
        ];
        for (name, label) in labels {
            if let Some(label) = label {
                let label = String::from_utf8_lossy(label).into_owned();
                members.insert(name.to_owned(), Value::String(label));
            }
        }

        let (name, content) = match std::str::from_utf8(&message.data) {
            Ok(text) => ("data", text.to_owned()),
            Err(_) => ("base64", STANDARD.encode(&message.data)),
        };
        members.insert(name.to_owned(), Value::String(content));
    }
    line(&object, output);
}

pub(super) fn word(word: &Word<'_>, output: &mut BytesMut) {
    let object = match word {
        Word::Gap(gap) => json!({ "gap": gap.count, "reason": gap.reason.word() }),
        Word::Heartbeat(sequence) => json!({ "heartbeat": sequence }),
        Word::Moved(moved) => json!({ "moved": moved.uri() }),
        Word::End(end, text) => json!({ "end": end.word(), "text": text }),
    };
    line(&object, output);
}

fn line(object: &Value, output: &mut BytesMut) {
    output.put_slice(object.to_string().as_bytes());
    output.put_u8(b'\n');
}
