//! Heads, field sections and frames of HTTP/3.

use std::hint::black_box;

use bytes::{Bytes, BytesMut};
use hermes_proto::h3::{
    FrameDecoder, FrameType, RequestParts, decode_request, encode_request, frame,
};
use hermes_proto::qpack::{self, Limits};
use http::Method;
use http::uri::Scheme;

use crate::http1::{FIELDS, fields};

const LIMITS: Limits = Limits {
    bytes: 4096,
    lines: 64,
};

/// DATA frames of one message, and what each holds.
const FRAMES: usize = 16;
const CONTENT: [u8; 32] = [b'd'; 32];

/// Runs `with` for each round on the same output, which is empty each time.
fn encode(rounds: usize, with: impl Fn(&mut BytesMut)) -> BytesMut {
    let mut out = BytesMut::with_capacity(64 * 1024);
    for _ in 0..rounds {
        out.clear();
        with(&mut out);
        black_box(&out);
    }
    out
}

fn encode_requests(rounds: usize) -> BytesMut {
    let [authority, path] = ["video:443", "/films/one?from=10"];
    let (authority, path, fields) = (authority.parse().unwrap(), path.parse().unwrap(), fields());
    let request = RequestParts {
        method: &Method::GET,
        scheme: Some(&Scheme::HTTPS),
        authority: Some(&authority),
        path: Some(&path),
        protocol: None,
        fields: &fields,
    };
    encode(rounds, |out| {
        encode_request(black_box(&request), out).unwrap()
    })
}

pub fn request_encode(rounds: usize) {
    encode_requests(rounds);
}

pub fn request_decode(rounds: usize) {
    let section = encode_requests(1).freeze();
    for _ in 0..rounds {
        black_box(decode_request(black_box(&section).clone(), LIMITS).unwrap());
    }
}

fn encode_sections(rounds: usize) -> BytesMut {
    encode(rounds, |out| {
        qpack::encode_prefix(out);
        for (name, value) in black_box(&FIELDS) {
            qpack::encode_line(name.as_bytes(), value.as_bytes(), false, out);
        }
    })
}

pub fn qpack_encode(rounds: usize) {
    encode_sections(rounds);
}

pub fn qpack_decode(rounds: usize) {
    let section = encode_sections(1).freeze();
    for _ in 0..rounds {
        let mut lines = qpack::FieldSection::new(black_box(&section).clone(), LIMITS).unwrap();
        while let Some(line) = lines.next().unwrap() {
            black_box(line);
        }
    }
}

fn encode_frames(rounds: usize, section: &[u8]) -> BytesMut {
    encode(rounds, |out| {
        frame::encode(FrameType::Headers, black_box(section), out);
        (0..FRAMES).for_each(|_| frame::encode(FrameType::Data, black_box(&CONTENT), out));
    })
}

pub fn frames_encode(rounds: usize) {
    encode_frames(rounds, &encode_sections(1));
}

pub fn frames_decode(rounds: usize) {
    let stream: Bytes = encode_frames(1, &encode_sections(1)).freeze();
    for _ in 0..rounds {
        let mut decoder = FrameDecoder::request(LIMITS.bytes);
        decoder.push(black_box(&stream).clone());
        while let Some(piece) = decoder.next().unwrap() {
            black_box(piece);
        }
        decoder.finish().unwrap();
    }
}
