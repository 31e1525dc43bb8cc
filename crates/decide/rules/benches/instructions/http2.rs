//! Heads of HTTP/2.

use std::hint::black_box;

use bytes::BytesMut;
use hermes_proto::h2::hpack::{HpackDecoder, HpackEncoder};
use hermes_proto::h2::{FieldSectionLimits, HeadLines, HeadParts};
use http::uri::Scheme;
use http::{Method, StatusCode};

use crate::http1::fields;

const LIMITS: FieldSectionLimits = FieldSectionLimits {
    bytes: 4096,
    lines: 64,
};

fn encode(rounds: usize, encoder: &mut HpackEncoder, head: &HeadParts<'_>) -> BytesMut {
    let mut out = BytesMut::with_capacity(4096);
    for _ in 0..rounds {
        out.clear();
        black_box(head).encode(encoder, &mut out).unwrap();
        black_box(&out);
    }
    out
}

fn encode_requests(rounds: usize, encoder: &mut HpackEncoder) -> BytesMut {
    let [authority, path] = ["video:443", "/films/one?from=10"];
    let (authority, path, fields) = (authority.parse().unwrap(), path.parse().unwrap(), fields());
    let request = HeadParts::Request {
        method: &Method::GET,
        scheme: Some(&Scheme::HTTPS),
        authority: Some(&authority),
        path: Some(&path),
        protocol: None,
        fields: &fields,
    };
    encode(rounds, encoder, &request)
}

fn encode_responses(rounds: usize) -> BytesMut {
    let mut encoder = HpackEncoder::new(0);
    encode(
        rounds,
        &mut encoder,
        &HeadParts::Response(StatusCode::OK, &fields()),
    )
}

/// Runs `take` for each round on the lines of a section, which one connection brings.
fn decode(rounds: usize, section: &[u8], take: impl Fn(HeadLines)) {
    decode_with(rounds, HpackDecoder::default(), section, take);
}

fn decode_with(rounds: usize, mut decoder: HpackDecoder, section: &[u8], take: impl Fn(HeadLines)) {
    for _ in 0..rounds {
        let mut lines = HeadLines::new(LIMITS);
        decoder
            .decode(black_box(section), |name, value| lines.push(name, value))
            .unwrap();
        take(lines);
    }
}

pub fn request_encode(rounds: usize) {
    encode_requests(rounds, &mut HpackEncoder::new(0));
}

/// On a link, where such requests have come before.
pub fn repeated_encode(rounds: usize) {
    encode_requests(rounds, &mut HpackEncoder::new(4096));
}

pub fn repeated_decode(rounds: usize) {
    let (mut encoder, mut decoder) = (HpackEncoder::new(4096), HpackDecoder::default());
    for _ in 0..2 {
        let section = encode_requests(1, &mut encoder);
        decoder.decode(&section, |_, _| {}).unwrap();
    }

    let section = encode_requests(1, &mut encoder);
    decode_with(rounds, decoder, &section, |lines| {
        black_box(lines.request().unwrap());
    });
}

pub fn request_decode(rounds: usize) {
    decode(
        rounds,
        &encode_requests(1, &mut HpackEncoder::new(0)),
        |lines| {
            black_box(lines.request().unwrap());
        },
    );
}

pub fn response_encode(rounds: usize) {
    encode_responses(rounds);
}

pub fn response_decode(rounds: usize) {
    decode(rounds, &encode_responses(1), |lines| {
        black_box(lines.response().unwrap());
    });
}
