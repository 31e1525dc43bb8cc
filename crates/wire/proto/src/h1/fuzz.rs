//! One entry for fuzzers: arbitrary bytes in, and a panic when the codec breaks a promise.

use bytes::{Bytes, BytesMut};
use http::{Method, Version};

use super::{
    BodyDecoder, BodyEncoder, BodyEvent, DecodeError, DecodeErrorKind, Framing, MessageEncodeError,
    MessageLimits, RequestHead, ResponseHead, decode_request, decode_response, encode_request,
    encode_response,
};
use crate::fields::Fields;
use crate::fields::names::{CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING};

/// Reads `data` as a request, as a response and as chunked content.
///
/// # Panics
/// When cutting the input in two changes the result, or when a message does not survive being written and read again.
pub(crate) fn fuzz_one(data: &[u8]) {
    let hash = hash(data);
    let limits = match hash % 4 {
        0 => tight_limits(),
        _ => MessageLimits::default(),
    };

    let method = [Method::GET, Method::HEAD, Method::CONNECT][hash as usize % 3].clone();
    let cuts = [hash >> 8, hash >> 24, hash >> 40].map(|cut| cut as usize % (data.len() + 1));
    for cut in cuts {
        let pieces = data.split_at(cut);
        same_when_cut(pieces, &limits, decode_request);
        same_when_cut(pieces, &limits, |buf, limits| {
            decode_response(buf, limits, &method)
        });
        same_when_cut(pieces, &limits, |_, _| Ok(Some(Framing::Chunked)));
    }

    request_survives(data, &limits);
    response_survives(data, &limits, &method);
}

/// The outcome of one input.
#[derive(Debug, PartialEq)]
enum Outcome<H> {
    Refused(DecodeErrorKind),
    Partial,
    Message { head: H, body: Body, left: usize },
}

/// The outcome of the content.
#[derive(Debug, Default, PartialEq)]
struct Body {
    data: Vec<u8>,
    trailers: Option<Fields>,
    complete: bool,
    refused: Option<DecodeErrorKind>,
}

/// A head says how its content is framed.
trait Framed {
    fn framing(&self) -> Framing;
}

impl Framed for RequestHead {
    fn framing(&self) -> Framing {
        self.framing
    }
}

impl Framed for ResponseHead {
    fn framing(&self) -> Framing {
        self.framing
    }
}

impl Framed for Framing {
    fn framing(&self) -> Framing {
        *self
    }
}

fn same_when_cut<H: Framed + PartialEq + std::fmt::Debug>(
    (first, second): (&[u8], &[u8]),
    limits: &MessageLimits,
    decode: impl Fn(&mut BytesMut, &MessageLimits) -> Result<Option<H>, DecodeError>,
) {
    let whole = [first, second].concat();
    let at_once = read(&[&whole], limits, &decode);
    let in_two = read(&[first, second], limits, &decode);
    assert_eq!(at_once, in_two, "cut at {}", first.len());
}

/// Feeds the pieces one by one, each time taking all that can be taken.
fn read<H: Framed>(
    pieces: &[&[u8]],
    limits: &MessageLimits,
    decode: impl Fn(&mut BytesMut, &MessageLimits) -> Result<Option<H>, DecodeError>,
) -> Outcome<H> {
    let mut buf = BytesMut::new();
    let mut started: Option<(H, BodyDecoder)> = None;
    let mut body = Body::default();

    for piece in pieces {
        buf.extend_from_slice(piece);
        if started.is_none() {
            match decode(&mut buf, limits) {
                Err(error) => return Outcome::Refused(error.kind()),
                Ok(head) => started = head.map(|head| with_decoder(head, limits)),
            }
        }

        if let Some((_, decoder)) = &mut started {
            body.read(decoder, &mut buf);
        }
    }

    match started {
        None => Outcome::Partial,
        Some((head, _)) => Outcome::Message {
            head,
            // After a refusal the content of the buffer is unspecified.
            left: if body.refused.is_some() { 0 } else { buf.len() },
            body,
        },
    }
}

fn with_decoder<H: Framed>(head: H, limits: &MessageLimits) -> (H, BodyDecoder) {
    let decoder = BodyDecoder::new(head.framing(), limits);
    (head, decoder)
}

impl Body {
    fn read(&mut self, decoder: &mut BodyDecoder, buf: &mut BytesMut) {
        while !decoder.is_done() && self.refused.is_none() {
            match decoder.decode(buf) {
                Ok(None) => return,
                Ok(Some(BodyEvent::Data(data))) => {
                    assert!(!data.is_empty(), "an empty piece of content");
                    self.data.extend_from_slice(&data);
                }
                Ok(Some(BodyEvent::Trailers(trailers))) => self.trailers = Some(trailers),
                Ok(Some(BodyEvent::End)) => {}
                Err(error) => self.refused = Some(error.kind()),
            }
        }
        self.complete = decoder.is_done();
    }
}

fn request_survives(data: &[u8], limits: &MessageLimits) {
    let Outcome::Message { head, body, .. } = read(&[data], limits, decode_request) else {
        return;
    };
    let mut out = BytesMut::new();
    let written = encode_request(
        &head.method,
        &head.target,
        &head.fields,
        head.framing,
        &mut out,
    );

    if head.version == Version::HTTP_10 && written == Err(MessageEncodeError::MissingHost) {
        return;
    }
    assert_eq!(written, Ok(()));
    put_body(head.framing, &body, &mut out);
    let again = read(&[&out], &roomy_limits(), decode_request);

    let Outcome::Message {
        head: head2,
        body: body2,
        left,
    } = again
    else {
        panic!("the request does not decode again: {again:?}");
    };

    assert_eq!((&head.method, &head.target), (&head2.method, &head2.target));
    assert_eq!(end_to_end(&head.fields), end_to_end(&head2.fields));
    assert_eq!(length(head.framing), length(head2.framing));

    if head.version == Version::HTTP_11 {
        assert_eq!(head.keep_alive, head2.keep_alive);
        assert_eq!(head.upgrade, head2.upgrade);
        assert_eq!(head.fields.get(HOST), head2.fields.get(HOST));
    }

    same_body(&body, &body2, left);
}

fn response_survives(data: &[u8], limits: &MessageLimits, method: &Method) {
    let decode = |buf: &mut BytesMut, limits: &MessageLimits| decode_response(buf, limits, method);
    let Outcome::Message { head, body, .. } = read(&[data], limits, decode) else {
        return;
    };

    let mut out = BytesMut::new();
    let written = encode_response(head.status, &head.fields, head.framing, method, &mut out);
    assert_eq!(written, Ok(()));
    put_body(head.framing, &body, &mut out);
    let again = read(&[&out], &roomy_limits(), decode);

    let Outcome::Message {
        head: head2,
        body: body2,
        left,
    } = again
    else {
        panic!("the response does not decode again: {again:?}");
    };

    assert_eq!(head.status, head2.status);
    assert_eq!(end_to_end(&head.fields), end_to_end(&head2.fields));
    assert_eq!(length(head.framing), length(head2.framing));
    assert!(head2.keep_alive || !head.keep_alive);
    same_body(&body, &body2, left);
}

/// Writes the content that was read, and its end if it had one.
fn put_body(framing: Framing, body: &Body, out: &mut BytesMut) {
    let mut encoder = BodyEncoder::new(framing);
    let mut pieces = Vec::new();
    let data = encoder.data(Bytes::copy_from_slice(&body.data), &mut pieces);
    assert_eq!(data, Ok(()));

    if body.complete {
        let end = encoder.finish(body.trailers.as_ref(), &mut pieces);
        assert_eq!(end, Ok(()));
    }

    pieces.iter().for_each(|piece| out.extend_from_slice(piece));
}

fn same_body(before: &Body, after: &Body, left: usize) {
    assert_eq!(after.refused, None);
    assert_eq!(left, 0);
    assert_eq!(before.complete, after.complete);
    assert_eq!(before.data, after.data);
    assert_eq!(before.trailers, after.trailers);
}

/// The fields that encoding may not change.
fn end_to_end(fields: &Fields) -> Fields {
    let mut fields = fields.clone();
    for name in [HOST, CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION] {
        fields.remove(name);
    }
    fields
}

/// No content and content of no length are written alike.
fn length(framing: Framing) -> Framing {
    match framing {
        Framing::Length(0) => Framing::Empty,
        other => other,
    }
}

fn tight_limits() -> MessageLimits {
    MessageLimits {
        head_bytes: 96,
        fields: 3,
        chunk_extension_bytes: 4,
        trailer_bytes: 24,
        keeps_spelling: true,
    }
}

/// Room for the bytes that encoding adds: a space after each colon, Host, and the framing.
fn roomy_limits() -> MessageLimits {
    let usual = MessageLimits::default();
    MessageLimits {
        head_bytes: usual.head_bytes * 2,
        fields: usual.fields + 3,
        trailer_bytes: usual.trailer_bytes * 2,
        ..usual
    }
}

/// FNV-1a: the input chooses limits, method and cuts, so each failure repeats.
fn hash(data: &[u8]) -> u64 {
    data.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
