//! Every decoder of HTTP/3 over one input.

use bytes::{Bytes, BytesMut};
use http::header::HOST;

use super::{
    Control, Frame, FrameDecoder, Piece, Received, RequestParts, Role, Sequence, datagram,
    datagram_group, decode_request, decode_response, decode_trailers, decoder, encode_request,
    encode_response, encode_trailers, priority, settings,
};
use crate::qpack::{FieldSectionLimits, QpackDecoder, QpackEncoder};

/// Limits of the field sections of an input.
const LIMITS: FieldSectionLimits = FieldSectionLimits {
    bytes: 2048,
    lines: 16,
};

/// Decodes arbitrary bytes as the first of them chooses: frames, a head, settings, a datagram, a group
/// of datagrams, a priority, or a whole stream with its machine.
pub(crate) fn fuzz_one(data: &[u8]) {
    let [what, data @ ..] = data else { return };
    match what {
        b'f' => decoder::fuzz_one(data),
        b's' => settings::fuzz_one(data),
        b'd' => datagram::fuzz_one(data),
        b'g' => datagram_group::fuzz_one(data),
        b'p' => priority::fuzz_one(data),
        b'h' => heads(data),
        _ => streams(data),
    }
}

/// A reader for a section without a dynamic table.
fn received<'a>(section: &'a [u8], decoder: &'a mut QpackDecoder) -> Received<'a> {
    Received {
        section,
        stream: 0,
        limits: LIMITS,
        decoder,
    }
}

/// An accepted head can be written, and is then read as the same; it never holds bytes that could
/// fool HTTP/1.1.
fn heads(data: &[u8]) {
    let decoder = &mut QpackDecoder::default();
    let encoder = &mut QpackEncoder::default();
    let mut output = BytesMut::new();

    if let Ok(head) = decode_request(received(data, decoder)) {
        assert!(!head.fields.contains_key(HOST));
        assert!(
            head.fields
                .iter()
                .all(|(_, value)| !value.as_bytes().iter().any(|byte| b"\r\n\0".contains(byte)))
        );

        // A scheme that is not of the web may go without an authority, which is not written.
        let parts = RequestParts::from(&head);
        if encode_request(&parts, encoder.section(0, &mut output)).is_ok() {
            assert_eq!(decode_request(received(&output, decoder)), Ok(head));
        }
    }

    output.clear();
    if let Ok(head) = decode_response(received(data, decoder))
        && !head.fields.contains_key(HOST)
    {
        let section = encoder.section(0, &mut output);
        assert_eq!(encode_response(head.status, &head.fields, section), Ok(()));
        assert_eq!(decode_response(received(&output, decoder)), Ok(head));
    }

    output.clear();
    if let Ok(fields) = decode_trailers(received(data, decoder))
        && !fields.contains_key(HOST)
    {
        let section = encoder.section(0, &mut output);
        assert_eq!(encode_trailers(&fields, section), Ok(()));
        assert_eq!(decode_trailers(received(&output, decoder)), Ok(fields));
    }
}

/// Both kinds of stream at both ends: nothing panics.
fn streams(data: &[u8]) {
    for role in [Role::Server, Role::Client] {
        let mut frames = FrameDecoder::control();
        let mut control = Control::new(role);
        frames.push(Bytes::copy_from_slice(data));

        while let Ok(Some(Piece::Frame(frame))) = frames.next() {
            if control.handle_frame(&frame).is_err() {
                break;
            }
        }

        let mut frames = FrameDecoder::request(LIMITS.bytes);
        let mut sequence = Sequence::new(role);
        frames.push(Bytes::copy_from_slice(data));

        while let Ok(Some(piece)) = frames.next() {
            let taken = match piece {
                Piece::Data(data) => sequence.handle_data(data.len()),
                Piece::Frame(Frame::Headers(section)) => sequence.handle_headers().map(|_| {
                    if decode_request(received(&section, &mut QpackDecoder::default())).is_ok() {
                        sequence.begin_content(None);
                    }
                }),
                Piece::Frame(_) => Err(sequence.handle_push()),
            };
            if taken.is_err() {
                break;
            }
        }

        let _ = (frames.finish(), sequence.handle_end());
    }
}
