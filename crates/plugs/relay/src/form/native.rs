//! Capsules: the form of clients that speak the relay's own language.

use bytes::{Bytes, BytesMut};
use hermes_proto::relay::{
    Adu, AduPiece, RelayFrame, encode_adu_header, encode_first_piece_header, encode_piece_header,
};

use super::Word;
use crate::message::{Message, Part};

/// Appends a message without its content; for a relay also whether it must not be lost.
pub(super) fn head(message: &Message, is_for_relay: bool, output: &mut BytesMut) {
    let adu = Adu {
        sequence: message.sequence,
        content_type: message.content_type.clone(),
        topic: message.topic.clone(),
        is_reliable: is_for_relay && message.is_reliable,
        proof: message.proof.clone(),
        data: message.data.clone(),
    };
    let piece = |is_last| AduPiece {
        sequence: message.sequence,
        is_last,
        data: message.data.clone(),
    };
    match message.part {
        Part::Whole => encode_adu_header(&adu, output),
        Part::First => encode_first_piece_header(&adu, output),
        Part::Further => encode_piece_header(&piece(false), output),
        Part::Last => encode_piece_header(&piece(true), output),
        Part::Abort => RelayFrame::Abort(message.sequence).encode(output),
    }
}

pub(super) fn word(word: &Word<'_>, output: &mut BytesMut) {
    let frame = match word {
        Word::Gap(gap) => RelayFrame::Gap(*gap),
        Word::Heartbeat(sequence) => RelayFrame::Heartbeat(*sequence),
        Word::Moved(moved) => RelayFrame::Moved(moved.uri().into()),
        Word::End(end, text) => RelayFrame::End(*end, Bytes::copy_from_slice(text.as_bytes())),
    };
    frame.encode(output);
}
