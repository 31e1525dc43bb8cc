//! Content: read, and written.

use bytes::{Bytes, BytesMut};
use hermes_proto::fields::Fields;
use hermes_proto::h1::{
    BodyDecoder, BodyEncoder, BodyEvent, DecodeErrorKind as Kind, Framing, MessageEncodeError,
    MessageLimits, is_forbidden_trailer,
};
use http::{HeaderName, HeaderValue};

/// Everything a decoder gives for the input, or why it refuses.
fn decode(framing: Framing, input: &[u8]) -> Result<(Vec<BodyEvent>, BytesMut), Kind> {
    let mut decoder = BodyDecoder::new(framing, &MessageLimits::default());
    let mut buf = BytesMut::from(input);
    let mut events = Vec::new();
    while !decoder.is_done() {
        match decoder.decode(&mut buf).map_err(|error| error.kind())? {
            Some(event) => events.push(event),
            None => break,
        }
    }
    Ok((events, buf))
}

fn data(bytes: &'static [u8]) -> BodyEvent {
    BodyEvent::Data(Bytes::from_static(bytes))
}

fn trailers(name: &'static str, value: &'static str) -> Fields {
    let name = HeaderName::from_static(name);
    Fields::from_iter([(name, HeaderValue::from_static(value))])
}

/// One test for each rule of the chunked coding: name, bytes, kind.
macro_rules! refuses {
    ($($name:ident: $bytes:expr => $kind:ident;)*) => {$(
        #[test]
        fn $name() {
            assert_eq!(decode(Framing::Chunked, $bytes), Err(Kind::$kind));
        }
    )*};
}

refuses! {
    refuses_a_size_that_is_not_hexadecimal: b"g\r\n" => BadChunkSize;
    refuses_an_empty_size: b"\r\n" => BadChunkSize;
    refuses_a_space_before_the_size: b" 5\r\nhello\r\n" => BadChunkSize;
    refuses_a_0x_prefix: b"0x5\r\nhello\r\n" => BadChunkSize;
    refuses_a_sign: b"+5\r\nhello\r\n" => BadChunkSize;
    refuses_a_separator_in_the_size: b"1_0\r\n" => BadChunkSize;
    refuses_seventeen_digits: b"00000000000000005\r\nhello\r\n" => ChunkSizeOverflow;
    refuses_bare_lf_after_the_size: b"5\nhello\r\n" => BareLf;
    refuses_bare_cr_after_the_size: b"5\rhello\r\n" => BareCr;
    refuses_bare_lf_in_an_extension: b"5;a\nhello\r\n" => BareLf;
    refuses_bare_cr_in_an_extension: b"5;a\rb\r\nhello\r\n" => BareCr;
    refuses_a_control_in_an_extension: b"5;a\0\r\nhello\r\n" => BadChunkExtension;
    refuses_space_after_the_size_without_extension: b"5 \r\nhello\r\n" => BadChunkExtension;
    refuses_an_extension_without_semicolon: b"5 a\r\nhello\r\n" => BadChunkExtension;
    refuses_a_long_extension: &[b"5;", &[b'a'; 256][..]].concat() => ChunkExtensionTooLong;
    refuses_data_longer_than_its_chunk: b"5\r\nhello!\r\n" => MissingChunkEnd;
    refuses_bare_lf_after_the_data: b"5\r\nhello\n0\r\n\r\n" => MissingChunkEnd;
    refuses_bare_cr_after_the_data: b"5\r\nhello\r0\r\n\r\n" => MissingChunkEnd;
    refuses_bare_lf_after_the_last_chunk: b"0\r\n\n" => BareLf;
    refuses_a_long_trailer_section: &[b"0\r\na: ", &[b'a'; 16384][..]].concat() => TrailersTooLarge;
    refuses_a_length_in_the_trailers: b"0\r\nContent-Length: 5\r\n\r\n" => ForbiddenTrailer;
    refuses_transfer_encoding_in_the_trailers: b"0\r\nTransfer-Encoding: chunked\r\n\r\n" => ForbiddenTrailer;
    refuses_host_in_the_trailers: b"0\r\nHost: a\r\n\r\n" => ForbiddenTrailer;
    refuses_connection_in_the_trailers: b"0\r\nConnection: close\r\n\r\n" => ForbiddenTrailer;
    refuses_authorization_in_the_trailers: b"0\r\nAuthorization: x\r\n\r\n" => ForbiddenTrailer;
    refuses_a_space_before_the_colon_of_a_trailer: b"0\r\na : b\r\n\r\n" => SpaceBeforeColon;
    refuses_a_folded_trailer: b"0\r\na: b\r\n c\r\n\r\n" => ObsFold;
    refuses_a_request_where_trailers_should_end: b"0\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n" => MissingColon;
}

#[test]
fn reads_chunks_and_stops_after_the_last() {
    let (events, rest) = decode(
        Framing::Chunked,
        b"5\r\nhello\r\n0A ; x=\"y\"\r\n0123456789\r\n00\r\n\r\nGET",
    )
    .unwrap();
    assert_eq!(
        events,
        [data(b"hello"), data(b"0123456789"), BodyEvent::End]
    );
    assert_eq!(rest, "GET");
}

#[test]
fn trailers_are_the_end() {
    let mut decoder = BodyDecoder::new(Framing::Chunked, &MessageLimits::default());
    let mut buf = BytesMut::from("0\r\nA: b\r\n\r\nrest");
    let event = decoder.decode(&mut buf).unwrap();
    assert_eq!(event, Some(BodyEvent::Trailers(trailers("a", "b"))));
    assert!(decoder.is_done());
    assert_eq!(decoder.decode(&mut buf), Ok(Some(BodyEvent::End)));
    assert_eq!(buf, "rest");
}

#[test]
fn too_many_trailers_are_refused() {
    let lines = "a: b\r\n".repeat(129);
    let input = format!("0\r\n{lines}\r\n");
    let refused = decode(Framing::Chunked, input.as_bytes());
    assert_eq!(refused, Err(Kind::TooManyFields));
}

#[test]
fn the_largest_chunk_size_is_read() {
    let (events, _) = decode(Framing::Chunked, b"ffffffffffffffff\r\na").unwrap();
    assert_eq!(events, [data(b"a")]);
}

#[test]
fn the_extension_limit_is_exact() {
    let input = [b"1;", &[b'a'; 255][..], b"\r\nx\r\n"].concat();
    assert_eq!(decode(Framing::Chunked, &input).unwrap().0, [data(b"x")]);
}

#[test]
fn a_length_takes_so_many_bytes_and_no_more() {
    let (events, rest) = decode(Framing::Length(3), b"abcd").unwrap();
    assert_eq!(events, [data(b"abc"), BodyEvent::End]);
    assert_eq!(rest, "d");
}

#[test]
fn empty_content_ends_at_once() {
    for framing in [Framing::Empty, Framing::Length(0)] {
        let (events, rest) = decode(framing, b"x").unwrap();
        assert_eq!(events, [BodyEvent::End]);
        assert_eq!(rest, "x");
    }
}

#[test]
fn only_content_until_close_may_end_with_the_input() {
    let end = |framing, input: &[u8]| {
        let mut decoder = BodyDecoder::new(framing, &MessageLimits::default());
        let mut buf = BytesMut::from(input);
        while let Ok(Some(BodyEvent::Data(_))) = decoder.decode(&mut buf) {}
        decoder.end_of_input().map_err(|error| error.kind())
    };
    assert_eq!(end(Framing::UntilClose, b"abc"), Ok(BodyEvent::End));
    assert_eq!(end(Framing::Length(4), b"abc"), Err(Kind::Truncated));
    assert_eq!(end(Framing::Length(3), b"abc"), Ok(BodyEvent::End));
    assert_eq!(end(Framing::Chunked, b"3\r\nabc\r\n"), Err(Kind::Truncated));
    assert_eq!(end(Framing::Chunked, b"3\r\nab"), Err(Kind::Truncated));
    assert_eq!(end(Framing::Chunked, b"0\r\n"), Err(Kind::Truncated));
    assert_eq!(end(Framing::Chunked, b"0\r\n\r\n"), Ok(BodyEvent::End));
}

#[test]
fn chunks_are_written_without_copying_the_content() {
    let content = Bytes::from_static(b"hello, here are sixteen+ bytes");
    let mut encoder = BodyEncoder::new(Framing::Chunked);
    let mut out = Vec::new();
    encoder.data(content.clone(), &mut out).unwrap();
    encoder.data(Bytes::new(), &mut out).unwrap();
    assert_eq!(out[1].as_ptr(), content.as_ptr());
    encoder.finish(None, &mut out).unwrap();
    assert_eq!(
        out.concat(),
        b"1e\r\nhello, here are sixteen+ bytes\r\n0\r\n\r\n"
    );
}

#[test]
fn lines_of_chunks_are_their_sizes() {
    let (content, mut encoder) = (
        Bytes::from(vec![b'x'; 0x1_2345]),
        BodyEncoder::new(Framing::Chunked),
    );
    // All at once, so that lines wait beside each other, and one by one, so that their room is used again.
    let (mut waiting, sizes) = (
        Vec::new(),
        [1, 9, 10, 15, 16, 255, 256, 4095, 4096, 0x1_2345],
    );
    for _ in 0..3 {
        for size in sizes {
            let mut alone = Vec::new();
            encoder.data(content.slice(..size), &mut alone).unwrap();
            assert_eq!(alone[0], format!("{size:x}\r\n"));
            encoder.data(content.slice(..size), &mut waiting).unwrap();
        }
    }
    let lines = waiting.iter().step_by(3).zip(sizes.into_iter().cycle());
    lines.for_each(|(line, size)| assert_eq!(line, &format!("{size:x}\r\n")));
}

#[test]
fn content_without_framing_can_pass_beside_the_codec() {
    let content = |length| Bytes::from(vec![b'x'; length]);
    for (framing, before, after) in [
        (Framing::Length(10), 8, 3),
        (Framing::UntilClose, u64::MAX, u64::MAX),
    ] {
        let (mut encoder, mut out) = (BodyEncoder::new(framing), Vec::new());
        let (mut decoder, mut buffer) = (
            BodyDecoder::new(framing, &MessageLimits::default()),
            BytesMut::from(&b"xx"[..]),
        );
        encoder.data(content(2), &mut out).unwrap();
        decoder.decode(&mut buffer).unwrap();
        assert_eq!((encoder.unframed(), decoder.unframed()), (before, before));
        encoder.passed(5);
        decoder.passed(5);
        assert_eq!((encoder.unframed(), decoder.unframed()), (after, after));
    }
    let (mut encoder, mut decoder) = (
        BodyEncoder::new(Framing::Length(5)),
        BodyDecoder::new(Framing::Length(5), &MessageLimits::default()),
    );
    encoder.passed(4);
    decoder.passed(4);
    assert_eq!(
        encoder.finish(None, &mut Vec::new()),
        Err(MessageEncodeError::TooLittleContent)
    );
    assert_eq!(decoder.end_of_input().unwrap_err().kind(), Kind::Truncated);
    encoder.passed(1);
    decoder.passed(1);
    assert_eq!(encoder.finish(None, &mut Vec::new()), Ok(()));
    assert_eq!(
        decoder.decode(&mut BytesMut::from(&b"HTTP"[..])),
        Ok(Some(BodyEvent::End))
    );
}

#[test]
fn chunks_pass_through_the_codec() {
    let mut buffer = BytesMut::from(&b"5\r\nhel"[..]);
    let mut decoder = BodyDecoder::new(Framing::Chunked, &MessageLimits::default());
    assert_eq!(
        (
            decoder.unframed(),
            BodyEncoder::new(Framing::Chunked).unframed()
        ),
        (0, 0)
    );
    decoder.decode(&mut buffer).unwrap();
    assert_eq!(decoder.unframed(), 0);
}

#[test]
fn trailers_are_written_after_the_last_chunk() {
    let mut encoder = BodyEncoder::new(Framing::Chunked);
    let mut out = Vec::new();
    let trailers = trailers("checksum", "1");
    encoder.finish(Some(&trailers), &mut out).unwrap();
    assert_eq!(out.concat(), b"0\r\nchecksum: 1\r\n\r\n");
}

#[test]
fn a_forbidden_trailer_is_not_written() {
    let mut encoder = BodyEncoder::new(Framing::Chunked);
    let mut out = Vec::new();
    let refused = encoder.finish(Some(&trailers("content-length", "1")), &mut out);
    assert_eq!(
        refused,
        Err(MessageEncodeError::ForbiddenTrailer(
            "content-length".into()
        ))
    );
    assert!(out.is_empty());
    assert_eq!(encoder.finish(None, &mut out), Ok(()));
    assert!(!is_forbidden_trailer("grpc-status"));
}

#[test]
fn more_content_than_announced_is_not_written() {
    for framing in [Framing::Length(2), Framing::Empty] {
        let mut encoder = BodyEncoder::new(framing);
        let mut out = Vec::new();
        let refused = encoder.data(Bytes::from_static(b"abc"), &mut out);
        assert_eq!(refused, Err(MessageEncodeError::TooMuchContent));
        assert!(out.is_empty());
    }
}

#[test]
fn less_content_than_announced_cannot_be_finished() {
    let mut encoder = BodyEncoder::new(Framing::Length(2));
    let mut out = Vec::new();
    encoder.data(Bytes::from_static(b"a"), &mut out).unwrap();
    let refused = encoder.finish(None, &mut out);
    assert_eq!(refused, Err(MessageEncodeError::TooLittleContent));
}

#[test]
fn nothing_follows_the_end() {
    for framing in [Framing::Chunked, Framing::UntilClose, Framing::Empty] {
        let mut encoder = BodyEncoder::new(framing);
        let mut out = Vec::new();
        encoder.finish(None, &mut out).unwrap();
        let written = out.len();
        let late = encoder.data(Bytes::from_static(b"a"), &mut out);
        assert_eq!(late, Err(MessageEncodeError::Finished));
        assert_eq!(
            encoder.finish(None, &mut out),
            Err(MessageEncodeError::Finished)
        );
        assert_eq!(out.len(), written);
    }
}
