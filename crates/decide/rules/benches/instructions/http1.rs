//! Heads and chunked content of HTTP/1.1.

use std::hint::black_box;

use bytes::{Bytes, BytesMut};
use hermes_proto::fields::Fields;
use hermes_proto::h1::{
    BodyDecoder, BodyEncoder, BodyEvent, Framing, MessageLimits, RequestTarget, decode_request,
    decode_response, encode_request, encode_response,
};
use http::uri::Scheme;
use http::{HeaderName, HeaderValue, Method, StatusCode};

/// Fields that many requests have.
pub const FIELDS: [(&str, &str); 6] = [
    ("accept", "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"),
    ("accept-encoding", "gzip, deflate, br"),
    ("accept-language", "en-GB,en;q=0.5"),
    (
        "user-agent",
        "Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101",
    ),
    ("cookie", "session=0123456789abcdef"),
    ("x-request-id", "5b0ddd3c-0000-4000-8000-1f24a0b7c5aa"),
];

/// Chunks of one message, and the bytes in each.
const CHUNKS: usize = 16;
const CHUNK: [u8; 32] = [b'c'; 32];

pub fn fields() -> Fields {
    let field = |(name, value)| {
        (
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        )
    };
    FIELDS.into_iter().map(field).collect()
}

fn head(first: &str) -> Vec<u8> {
    let lines: String = FIELDS
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    format!("{first}\r\n{lines}\r\n").into_bytes()
}

pub fn request_decode(rounds: usize) {
    let (head, limits) = (
        head("GET http://video/films/one?from=10 HTTP/1.1\r\nHost: video"),
        MessageLimits::default(),
    );
    for _ in 0..rounds {
        let mut buffer = BytesMut::from(&black_box(&head)[..]);
        black_box(decode_request(&mut buffer, &limits).unwrap().unwrap());
    }
}

pub fn response_decode(rounds: usize) {
    let (head, limits) = (
        head("HTTP/1.1 200 OK\r\nContent-Length: 5"),
        MessageLimits::default(),
    );
    for _ in 0..rounds {
        let mut buffer = BytesMut::from(&black_box(&head)[..]);
        black_box(
            decode_response(&mut buffer, &limits, &Method::GET)
                .unwrap()
                .unwrap(),
        );
    }
}

pub fn request_encode(rounds: usize) {
    let (fields, mut out) = (fields(), BytesMut::with_capacity(4096));
    let target = RequestTarget::Absolute {
        scheme: Scheme::HTTP,
        authority: "video".parse().unwrap(),
        path: "/films/one?from=10".parse().unwrap(),
    };
    for _ in 0..rounds {
        encode_request(
            &Method::GET,
            black_box(&target),
            &fields,
            Framing::Empty,
            &mut out,
        )
        .unwrap();
        black_box(&out);
        out.clear();
    }
}

pub fn response_encode(rounds: usize) {
    let (fields, mut out) = (fields(), BytesMut::with_capacity(4096));
    for _ in 0..rounds {
        encode_response(
            StatusCode::OK,
            black_box(&fields),
            Framing::Length(5),
            &Method::GET,
            &mut out,
        )
        .unwrap();
        black_box(&out);
        out.clear();
    }
}

fn encode_chunks(content: &Bytes, out: &mut Vec<Bytes>) {
    let mut encoder = BodyEncoder::new(Framing::Chunked);
    (0..CHUNKS).for_each(|_| encoder.data(content.clone(), out).unwrap());
    encoder.finish(None, out).unwrap();
}

pub fn chunks_encode(rounds: usize) {
    let (content, mut out) = (Bytes::from_static(&CHUNK), Vec::with_capacity(4 * CHUNKS));
    for _ in 0..rounds {
        encode_chunks(&content, &mut out);
        black_box(&out);
        out.clear();
    }
}

pub fn chunks_decode(rounds: usize) {
    let (mut pieces, limits) = (Vec::new(), MessageLimits::default());
    encode_chunks(&Bytes::from_static(&CHUNK), &mut pieces);
    let wire = pieces.concat();
    for _ in 0..rounds {
        let mut buffer = BytesMut::from(&black_box(&wire)[..]);
        let mut decoder = BodyDecoder::new(Framing::Chunked, &limits);
        while let Some(BodyEvent::Data(data)) = decoder.decode(&mut buffer).unwrap() {
            black_box(data);
        }
        assert!(decoder.is_done());
    }
}
