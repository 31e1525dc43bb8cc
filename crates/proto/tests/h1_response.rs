//! Response heads: what is read, and each rule that refuses one.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use bytes::BytesMut;
use hermes_proto::h1::{
    DecodeErrorKind as Kind, Framing, MessageLimits, ResponseHead, decode_response,
};
use http::Method;

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
    refuses_status_600: "HTTP/1.1 600 OK\r\n\r\n" => BadStatusLine;
    refuses_a_signed_status: "HTTP/1.1 +20 OK\r\n\r\n" => BadStatusLine;
    refuses_two_spaces_before_the_status: "HTTP/1.1  200 OK\r\n\r\n" => BadStatusLine;
    refuses_a_control_in_the_reason: "HTTP/1.1 200 O\0K\r\n\r\n" => BadStatusLine;
    refuses_bare_cr_in_the_reason: "HTTP/1.1 200 O\rK\r\n\r\n" => BareCr;
    refuses_bare_lf: "HTTP/1.1 200 OK\n\n" => BareLf;
    refuses_http2: "HTTP/2.0 200 OK\r\n\r\n" => UnsupportedVersion;
    refuses_a_malformed_version: "HTTP/1,1 200 OK\r\n\r\n" => BadVersion;
    refuses_a_fold: "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n" => ObsFold;
    refuses_length_with_transfer_encoding: "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n" => LengthAndTransferEncoding;
    refuses_several_lengths: "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n" => SeveralLengths;
    refuses_a_length_list: "HTTP/1.1 200 OK\r\nContent-Length: 1,1\r\n\r\n" => LengthList;
    refuses_another_coding: "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n" => UnknownTransferCoding;
    refuses_transfer_encoding_in_http10: "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" => TransferEncodingInHttp10;
    refuses_100_with_a_length: "HTTP/1.1 100 Continue\r\nContent-Length: 0\r\n\r\n" => ContentNotAllowed;
    refuses_103_with_chunked: "HTTP/1.1 103 Early Hints\r\nTransfer-Encoding: chunked\r\n\r\n" => ContentNotAllowed;
    refuses_101_with_a_length: "HTTP/1.1 101 Switching Protocols\r\nContent-Length: 5\r\n\r\n" => ContentNotAllowed;
    refuses_204_with_content: "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n" => ContentNotAllowed;
    refuses_204_with_chunked: "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n" => ContentNotAllowed;
    refuses_a_connection_that_is_no_token_list: "HTTP/1.1 200 OK\r\nConnection: \"close\"\r\n\r\n" => BadConnection;
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

#[test]
fn a_needless_zero_length_of_204_is_removed() {
    let head = head("HTTP/1.1 204 x\r\nContent-Length: 0\r\n\r\n", &Method::GET);
    assert_eq!(head.framing, Framing::Empty);
    assert!(!head.fields.contains_key("content-length"));
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
