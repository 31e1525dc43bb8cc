//! Heads, field sections and frames of HTTP/3.

use std::hint::black_box;

use bytes::{Bytes, BytesMut};
use hermes_proto::fields::LineName;
use hermes_proto::h3::{
    FrameDecoder, FrameType, Received, RequestParts, decode_request, encode_request, frame,
};
use hermes_proto::qpack::{FieldSectionLimits, QpackDecoder, QpackEncoder};
use http::Method;
use http::uri::Scheme;

use crate::http1::{FIELDS, fields};

const LIMITS: FieldSectionLimits = FieldSectionLimits {
    bytes: 4096,
    lines: 64,
};

/// DATA frames of one message, and the bytes in each.
const FRAMES: usize = 16;
const CONTENT: [u8; 32] = [b'd'; 32];

/// Runs `with` for each round on the same output, which is empty each time.
fn encode(rounds: usize, mut with: impl FnMut(&mut BytesMut)) -> BytesMut {
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
    let mut encoder = QpackEncoder::default();
    encode(rounds, |out| {
        encode_request(black_box(&request), encoder.section(0, out)).unwrap()
    })
}

pub fn request_encode(rounds: usize) {
    encode_requests(rounds);
}

pub fn request_decode(rounds: usize) {
    let section = encode_requests(1);
    let mut decoder = QpackDecoder::default();
    for _ in 0..rounds {
        let received = Received {
            section: black_box(&section),
            stream: 0,
            limits: LIMITS,
            decoder: &mut decoder,
        };
        black_box(decode_request(received).unwrap());
    }
}

fn encode_sections(rounds: usize) -> BytesMut {
    write_sections(&mut QpackEncoder::default(), rounds)
}

fn write_sections(encoder: &mut QpackEncoder, rounds: usize) -> BytesMut {
    encode(rounds, |out| {
        let mut section = encoder.section(0, out);
        for (name, value) in black_box(&FIELDS) {
            section.line(LineName::parse(name.as_bytes()), value.as_bytes(), false);
        }
        section.finish();
    })
}

/// Two ends with repeated lines in their table.
fn acquainted() -> (QpackEncoder, QpackDecoder) {
    let mut encoder = QpackEncoder::default();
    let mut decoder = QpackDecoder::new(4096);
    encoder.allow(4096);
    write_sections(&mut encoder, 2);
    decoder.handle(&encoder.take_instructions()).unwrap();
    encoder.handle(&decoder.take_instructions()).unwrap();
    (encoder, decoder)
}

/// Sections of lines that the peer knows already, each acknowledged.
pub fn repeated_encode(rounds: usize) {
    let (mut encoder, mut decoder) = acquainted();
    for _ in 0..rounds {
        let section = write_sections(&mut encoder, 1);
        decoder.section(0, &section, LIMITS).unwrap();
        encoder.handle(&decoder.take_instructions()).unwrap();
    }
}

pub fn repeated_decode(rounds: usize) {
    let (mut encoder, mut decoder) = acquainted();
    let section = write_sections(&mut encoder, 1);
    for _ in 0..rounds {
        read_lines(&mut decoder, &section);
        decoder.take_instructions();
    }
}

pub fn qpack_encode(rounds: usize) {
    encode_sections(rounds);
}

pub fn qpack_decode(rounds: usize) {
    let section = encode_sections(1);
    let mut decoder = QpackDecoder::default();
    for _ in 0..rounds {
        read_lines(&mut decoder, &section);
    }
}

fn read_lines(decoder: &mut QpackDecoder, section: &[u8]) {
    let mut lines = decoder.section(0, black_box(section), LIMITS).unwrap();
    while let Some(line) = lines.next().unwrap() {
        black_box(line);
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
