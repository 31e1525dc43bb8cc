//! Properties of the HTTP/1.1 codec over generated messages and arbitrary bytes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use bytes::{Bytes, BytesMut};
use hermes_proto::fields::Fields;
use hermes_proto::h1::{
    BodyDecoder, BodyEncoder, BodyEvent, Framing, MessageLimits, RequestTarget, decode_request,
    decode_response, encode_request, encode_response,
};
use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue, Method, StatusCode};
use proptest::collection::vec;
use proptest::prelude::{
    Just, ProptestConfig, Strategy, any, prop_assert_eq, prop_oneof, proptest,
};

/// End-to-end fields with any value that HTTP allows, without white space around it.
fn fields() -> impl Strategy<Value = Fields> {
    vec(("x-[a-z0-9_.~!#$%&'*+|^`-]{0,70}", value()), 0..20).prop_map(|lines| {
        let mut fields = Fields::new();
        for (name, value) in lines {
            fields.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value);
        }
        fields
    })
}

fn value() -> impl Strategy<Value = HeaderValue> {
    vec(prop_oneof![Just(b'\t'), 32..127u8, 128..=255u8], 0..40)
        .prop_map(|bytes| HeaderValue::from_bytes(bytes.trim_ascii()).unwrap())
}

fn authority() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-zA-Z0-9._~-]{1,20}:[1-9][0-9]{0,3}",
        "\\[[0-9a-f]{1,4}::[0-9a-f]{1,4}\\]:[1-9][0-9]{0,3}",
    ]
}

/// A path as routes compare it: decoding resolves its dot segments (`h1_request` tests that).
fn path() -> impl Strategy<Value = PathAndQuery> {
    "/[a-zA-Z0-9/?:@!$&'()*+,;=%._~-]{0,60}"
        .prop_filter("dot segments are resolved", |text| {
            let path = text.split('?').next().unwrap_or_default();
            !path.split('/').any(is_dot_segment)
        })
        .prop_map(|text| text.parse().unwrap())
}

/// `.` or `..`; the dots may be percent-encoded (RFC 3986, section 6.2.2.2).
fn is_dot_segment(segment: &str) -> bool {
    let plain = segment.replace("%2e", ".").replace("%2E", ".");
    plain == "." || plain == ".."
}

/// A method and a target that fits it.
fn line() -> impl Strategy<Value = (Method, RequestTarget)> {
    let method = "[A-Z!#$%&'*+.^_`|~-]{1,20}"
        .prop_map(|name| Method::from_bytes(name.as_bytes()).unwrap())
        .prop_filter("CONNECT has its own form", |method| {
            method != Method::CONNECT
        });
    let origin = path().prop_map(RequestTarget::Origin);
    let absolute = (authority(), path()).prop_map(|(authority, path)| RequestTarget::Absolute {
        scheme: http::uri::Scheme::HTTPS,
        authority: authority.parse().unwrap(),
        path,
    });
    let connect =
        authority().prop_map(|authority| RequestTarget::Authority(authority.parse().unwrap()));
    prop_oneof![
        (method.clone(), origin),
        (method, absolute),
        (Just(Method::CONNECT), connect),
        Just((Method::OPTIONS, RequestTarget::Asterisk)),
    ]
}

/// Content in pieces; the trailers count only with the chunked coding.
fn pieces() -> impl Strategy<Value = Vec<Vec<u8>>> {
    vec(vec(any::<u8>(), 0..300), 0..5)
}

fn encode_body(framing: Framing, pieces: &[Vec<u8>], trailers: &Fields, out: &mut BytesMut) {
    let mut encoder = BodyEncoder::new(framing);
    let mut parts = Vec::new();
    for piece in pieces {
        let piece = Bytes::copy_from_slice(piece);
        encoder.data(piece, &mut parts).unwrap();
    }
    encoder.finish(Some(trailers), &mut parts).unwrap();
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

/// Reads content that arrives in two parts.
fn decode_body(framing: Framing, input: &[u8], cut: usize) -> (Vec<u8>, Fields, BytesMut) {
    let mut decoder = BodyDecoder::new(framing, &MessageLimits::default());
    let (mut data, mut trailers) = (Vec::new(), Fields::new());
    let mut buf = BytesMut::new();
    let (first, second) = input.split_at(cut % (input.len() + 1));
    for part in [first, second] {
        buf.extend_from_slice(part);
        while !decoder.is_done() {
            match decoder.decode(&mut buf).unwrap() {
                Some(BodyEvent::Data(bytes)) => data.extend_from_slice(&bytes),
                Some(BodyEvent::Trailers(fields)) => trailers = fields,
                Some(BodyEvent::End) => {}
                None => break,
            }
        }
    }
    decoder.end_of_input().unwrap();
    (data, trailers, buf)
}

/// Two ways to frame the same content.
fn framings(pieces: &[Vec<u8>]) -> [Framing; 2] {
    [
        Framing::Length(pieces.concat().len() as u64),
        Framing::Chunked,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_written_request_reads_the_same(
        (method, target) in line(), mut fields in fields(), pieces in pieces(), chunked: bool,
    ) {
        let framing = match method {
            Method::CONNECT => Framing::Empty,
            _ => framings(&pieces)[usize::from(chunked)],
        };
        let host = target.authority().map_or("a.example", |authority| authority.as_str());
        fields.insert("host", HeaderValue::from_str(host).unwrap());
        let mut wire = BytesMut::new();
        encode_request(&method, &target, &fields, framing, &mut wire).unwrap();
        let head = decode_request(&mut wire, &MessageLimits::default()).unwrap().unwrap();
        let mut read = head.fields.clone();
        read.remove("content-length");
        read.remove("transfer-encoding");
        prop_assert_eq!((head.method, head.target, head.framing), (method, target, framing));
        prop_assert_eq!(read, fields);
        prop_assert_eq!(wire.len(), 0);
    }

    #[test]
    fn a_written_response_reads_the_same(
        status in 200..600u16, fields in fields(), pieces in pieces(), chunked: bool,
    ) {
        let status = StatusCode::from_u16(status).unwrap();
        let framing = match status.as_u16() {
            204 | 304 => Framing::Empty,
            _ => framings(&pieces)[usize::from(chunked)],
        };
        let mut wire = BytesMut::new();
        encode_response(status, &fields, framing, &Method::GET, &mut wire).unwrap();
        let head = decode_response(&mut wire, &MessageLimits::default(), &Method::GET).unwrap().unwrap();
        let mut read = head.fields.clone();
        read.remove("content-length");
        read.remove("transfer-encoding");
        prop_assert_eq!((head.status, head.framing), (status, framing));
        prop_assert_eq!(read, fields);
        prop_assert_eq!(wire.len(), 0);
    }

    #[test]
    fn written_content_reads_the_same_however_it_is_cut(
        pieces in pieces(), trailers in fields(), cut: usize,
    ) {
        for framing in framings(&pieces) {
            let mut wire = BytesMut::new();
            encode_body(framing, &pieces, &trailers, &mut wire);
            let chunked = framing == Framing::Chunked;
            wire.extend_from_slice(b"next");
            let (data, read, rest) = decode_body(framing, &wire, cut);
            prop_assert_eq!(data, pieces.concat());
            prop_assert_eq!(read, if chunked { trailers.clone() } else { Fields::new() });
            prop_assert_eq!(&rest[..], b"next");
        }
    }
}
