//! Response heads: accepted forms, and each rule that refuses one.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use bytes::BytesMut;
use hermes_proto::h1::{
    DecodeErrorKind as Kind, Framing, MessageLimits, ResponseHead, decode_response,
};
use http::{Method, Version};

fn decode(text: &str, method: &Method) -> Result<Option<ResponseHead>, Kind> {
    let mut buf = BytesMut::from(text);
    decode_response(&mut buf, &MessageLimits::default(), method).map_err(|error| error.kind())
}

fn head(text: &str, method: &Method) -> ResponseHead {
    decode(text, method).unwrap().unwrap()
}

fn framing(text: &str, method: &Method) -> Framing {
    head(text, method).framing
}

/// One test for each rule: name, text, kind.
macro_rules! refuses {
    ($($name:ident: $text:expr => $kind:ident;)*) => {$(
        #[test]
        fn $name() {
            assert_eq!(decode($text, &Method::GET), Err(Kind::$kind));
        }
    )*};
}

refuses! {
    refuses_something_else_at_once: "SSH-2.0" => BadStatusLine;
    refuses_a_leading_empty_line: "\r\nHTTP/1.1 200 OK\r\n\r\n" => BadStatusLine;
    refuses_two_digits: "HTTP/1.1 20 OK\r\n\r\n" => BadStatusLine;
    refuses_four_digits: "HTTP/1.1 2000 OK\r\n\r\n" => BadStatusLine;
    refuses_status_099: "HTTP/1.1 099 OK\r\n\r\n" => BadStatusLine;
    refuses_a_signed_status: "HTTP/1.1 +20 OK\r\n\r\n" => BadStatusLine;
    refuses_two_spaces_before_the_status: "HTTP/1.1  200 OK\r\n\r\n" => BadStatusLine;
    refuses_a_control_in_the_reason: "HTTP/1.1 200 O\0K\r\n\r\n" => BadStatusLine;
    refuses_bare_cr_in_the_reason: "HTTP/1.1 200 O\rK\r\n\r\n" => BareCr;
    refuses_bare_lf: "HTTP/1.1 200 OK\n\n" => BareLf;
    refuses_http2: "HTTP/2.0 200 OK\r\n\r\n" => UnsupportedVersion;
    refuses_a_malformed_version: "HTTP/1,1 200 OK\r\n\r\n" => BadVersion;
    refuses_length_with_transfer_encoding: "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n" => LengthAndTransferEncoding;
    refuses_a_fold_before_all_fields: "HTTP/1.1 200 OK\r\n c\r\nA: b\r\n\r\n" => ObsFold;
    refuses_bare_cr_in_a_value: "HTTP/1.1 200 OK\r\nA: b\rC: d\r\n\r\n" => BareCr;
    refuses_a_name_of_blanks: "HTTP/1.1 200 OK\r\nA: b\r\n : c\rd\r\n\r\n" => BareCr;
    refuses_different_lengths: "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n" => SeveralLengths;
    refuses_a_list_of_different_lengths: "HTTP/1.1 200 OK\r\nContent-Length: 1, 2\r\n\r\n" => LengthList;
    refuses_equal_lengths_that_are_no_numbers: "HTTP/1.1 200 OK\r\nContent-Length: +1, +1\r\n\r\n" => LengthList;
    refuses_another_coding: "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n" => UnknownTransferCoding;
    refuses_transfer_encoding_in_http10: "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" => TransferEncodingInHttp10;
}

#[test]
fn a_response_without_declared_length_ends_with_the_connection() {
    let head = head("HTTP/1.1 200 OK\r\n\r\n", &Method::GET);
    assert_eq!(head.framing, Framing::UntilClose);
    assert!(!head.keep_alive);
}

#[test]
fn reads_length_and_chunked() {
    let length = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n";
    assert_eq!(framing(length, &Method::GET), Framing::Length(7));
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(framing(chunked, &Method::GET), Framing::Chunked);
}

#[test]
fn head_and_304_keep_the_length_but_have_no_content() {
    for (text, method) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n", Method::HEAD),
        (
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n",
            Method::GET,
        ),
    ] {
        let head = head(text, &method);
        assert_eq!(head.framing, Framing::Empty);
        assert_eq!(head.fields.get("content-length").unwrap(), "7");
        assert!(head.keep_alive);
    }
}

#[test]
fn informational_and_204_are_empty() {
    for line in [
        "100 Continue",
        "101 Switching Protocols",
        "103 Early Hints",
        "204 No Content",
    ] {
        let text = format!("HTTP/1.1 {line}\r\n\r\n");
        assert_eq!(framing(&text, &Method::GET), Framing::Empty, "{line}");
    }
}

/// RFC 9112, 6.3: they end at the empty line, even if they announce content. After such an
/// announcement, no other response is read.
#[test]
fn informational_and_204_end_at_the_empty_line_whatever_they_announce() {
    for line in ["100 Continue", "101 x", "103 Early Hints", "204 No Content"] {
        for (announced, reusable) in [
            ("Content-Length: 0", true),
            ("Content-Length: 5", false),
            ("Transfer-Encoding: chunked", false),
            ("Content-Length: 5\r\nTransfer-Encoding: gzip", false),
        ] {
            let text = format!("HTTP/1.1 {line}\r\n{announced}\r\n\r\n");
            let head = head(&text, &Method::GET);
            assert_eq!(head.framing, Framing::Empty, "{text}");
            assert!(head.fields.is_empty(), "{text}");
            assert_eq!(head.keep_alive, reusable, "{text}");
        }
    }
}

#[test]
fn an_answer_to_head_ends_at_the_empty_line_with_an_unreadable_length() {
    let text = "HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n";
    let head = head(text, &Method::HEAD);
    assert_eq!(head.framing, Framing::Empty);
    assert!(head.fields.is_empty() && !head.keep_alive);
}

/// RFC 9110, 15.
#[test]
fn statuses_from_600_pass() {
    for status in [600, 999] {
        let text = format!("HTTP/1.1 {status} Denied\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(head(&text, &Method::GET).status, status);
    }
}

/// RFC 9110, 6.2.
#[test]
fn a_higher_minor_version_is_the_highest_known() {
    let text = "HTTP/1.2 200 OK\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(head(text, &Method::GET).version, Version::HTTP_11);
}

/// RFC 9112, 6.3.
#[test]
fn equal_lengths_are_one() {
    for lengths in [
        "Content-Length: 7\r\nContent-Length: 7",
        "Content-Length: 7, 7",
    ] {
        let text = format!("HTTP/1.1 200 OK\r\n{lengths}\r\n\r\n");
        let head = head(&text, &Method::GET);
        assert_eq!(head.framing, Framing::Length(7), "{lengths}");
        let values: Vec<_> = head
            .fields
            .values("content-length")
            .map(|value| value.to_value())
            .collect();
        assert_eq!(values, ["7"], "{lengths}");
    }
}

/// RFC 9112, 5.1 and 5.2; RFC 9110, 5.5.
#[test]
fn fields_are_mended() {
    for (line, name, value) in [
        ("A: b\r\n c\r\n\td", "a", "b   c  \td"),
        ("A:\r\n b", "a", "b"),
        ("A: b\r\n x: y", "a", "b   x: y"),
        ("A \t: b", "a", "b"),
        ("A: b\u{1}c\0d", "a", "b c d"),
    ] {
        let text = format!("HTTP/1.1 200 OK\r\nBefore: 1\r\n{line}\r\nContent-Length : 7\r\n\r\n");
        let head = head(&text, &Method::GET);
        assert_eq!(head.fields.get(name).unwrap(), value, "{line:?}");
        assert_eq!(head.fields.get("before").unwrap(), "1", "{line:?}");
        assert_eq!(
            (head.framing, head.fields.len()),
            (Framing::Length(7), 3),
            "{line:?}"
        );
    }
}

#[test]
fn a_connection_that_is_no_token_list_ends_with_the_response() {
    let text = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: \"keep-alive\"\r\n\r\n";
    let head = head(text, &Method::GET);
    assert!(!head.keep_alive && !head.fields.contains_key("connection"));
}

#[test]
fn a_successful_connect_ignores_framing_fields() {
    let text = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nTransfer-Encoding: chunked\r\n\r\n";
    let opened = head(text, &Method::CONNECT);
    assert_eq!(opened.framing, Framing::Empty);
    assert!(opened.fields.is_empty());
    let refused = "HTTP/1.1 403 Forbidden\r\nContent-Length: 7\r\n\r\n";
    assert_eq!(framing(refused, &Method::CONNECT), Framing::Length(7));
}

#[test]
fn an_http10_response_keeps_alive_only_when_it_says_so() {
    let keeps = |version: &str, connection: &str| {
        let text = format!("{version} 200 OK\r\nContent-Length: 0\r\n{connection}\r\n");
        head(&text, &Method::GET).keep_alive
    };
    assert!(!keeps("HTTP/1.0", ""));
    assert!(keeps("HTTP/1.0", "Connection: Keep-Alive\r\n"));
    assert!(keeps("HTTP/1.1", ""));
    assert!(!keeps("HTTP/1.1", "Connection: x\r\nConnection: close\r\n"));
}

#[test]
fn the_reason_may_be_absent_with_or_without_its_space() {
    for text in ["HTTP/1.1 200 \r\n\r\n", "HTTP/1.1 200\r\n\r\n"] {
        assert_eq!(head(text, &Method::GET).status, 200);
    }
}

#[test]
fn takes_exactly_the_head() {
    let mut buf = BytesMut::from("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\ntunnel");
    decode_response(&mut buf, &MessageLimits::default(), &Method::GET).unwrap();
    assert_eq!(buf, "tunnel");
}

#[test]
fn an_endless_head_is_refused() {
    let text = format!("HTTP/1.1 200 {}", "a".repeat(70_000));
    assert_eq!(decode(&text, &Method::GET), Err(Kind::HeadTooLarge));
}
