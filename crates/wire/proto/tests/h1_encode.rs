//! Heads as they are written.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use bytes::BytesMut;
use hermes_proto::fields::Fields;
use hermes_proto::h1::{
    Framing, MessageEncodeError, MessageLimits, RequestTarget, decode_request, encode_request,
    encode_response,
};
use http::uri::{PathAndQuery, Scheme};
use http::{HeaderName, HeaderValue, Method, StatusCode};

fn fields(lines: &[(&'static str, &'static str)]) -> Fields {
    let mut fields = Fields::new();
    for (name, value) in lines {
        fields.append(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
    }
    fields
}

fn origin(path: &'static str) -> RequestTarget {
    RequestTarget::Origin(PathAndQuery::from_static(path))
}

fn absolute(path: &'static str) -> RequestTarget {
    RequestTarget::Absolute {
        scheme: Scheme::HTTP,
        authority: "b:81".parse().unwrap(),
        path: PathAndQuery::from_static(path),
    }
}

/// Encodes behind other bytes, which must stay unchanged.
fn behind_others(
    encode: impl FnOnce(&mut BytesMut) -> Result<(), MessageEncodeError>,
) -> Result<String, MessageEncodeError> {
    let mut out = BytesMut::from("before|");
    let result = encode(&mut out);
    let text = String::from_utf8(out.to_vec()).unwrap();
    let text = text.strip_prefix("before|").unwrap().to_owned();
    assert!(result.is_ok() || text.is_empty(), "half a message: {text}");
    result.map(|()| text)
}

fn request(
    method: Method,
    target: RequestTarget,
    fields: &Fields,
    framing: Framing,
) -> Result<String, MessageEncodeError> {
    behind_others(|out| encode_request(&method, &target, fields, framing, out))
}

fn response(
    status: u16,
    lines: &[(&'static str, &'static str)],
    framing: Framing,
    method: Method,
) -> Result<String, MessageEncodeError> {
    let status = StatusCode::from_u16(status).unwrap();
    behind_others(|out| encode_response(status, &fields(lines), framing, &method, out))
}

#[test]
fn host_comes_first_and_framing_fields_are_ours() {
    let fields = fields(&[
        ("x-a", "1"),
        ("content-length", "99"),
        ("transfer-encoding", "gzip"),
        ("host", "a"),
    ]);
    let text = request(Method::POST, origin("/p?q"), &fields, Framing::Length(5)).unwrap();
    assert_eq!(
        text,
        "POST /p?q HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\nx-a: 1\r\n\r\n"
    );
}

#[test]
fn each_target_form_is_written_as_it_is() {
    let lines = fields(&[("host", "a")]);
    let line = |method: Method, target| {
        let text = request(method, target, &lines, Framing::Empty).unwrap();
        text.split("\r\n").take(2).collect::<Vec<_>>().join(" | ")
    };
    assert_eq!(
        line(Method::GET, absolute("/x?y")),
        "GET http://b:81/x?y HTTP/1.1 | host: b:81"
    );
    assert_eq!(
        line(Method::OPTIONS, absolute("*")),
        "OPTIONS http://b:81 HTTP/1.1 | host: b:81"
    );
    assert_eq!(
        line(Method::OPTIONS, RequestTarget::Asterisk),
        "OPTIONS * HTTP/1.1 | host: a"
    );
    let authority = RequestTarget::Authority("[::1]:443".parse().unwrap());
    assert_eq!(
        line(Method::CONNECT, authority),
        "CONNECT [::1]:443 HTTP/1.1 | host: [::1]:443"
    );
    assert_eq!(
        line(Method::GET, origin("?q")),
        "GET /?q HTTP/1.1 | host: a"
    );
}

#[test]
fn only_methods_that_expect_content_announce_none() {
    let lines = fields(&[("host", "a")]);
    for (method, announces) in [
        (Method::POST, true),
        (Method::PUT, true),
        (Method::PATCH, true),
        (Method::GET, false),
        (Method::DELETE, false),
    ] {
        let text = request(method, origin("/"), &lines, Framing::Empty).unwrap();
        assert_eq!(text.contains("content-length: 0\r\n"), announces, "{text}");
    }
}

#[test]
fn a_request_without_one_good_host_is_not_written() {
    let get = |lines: &[(&'static str, &'static str)]| {
        request(Method::GET, origin("/"), &fields(lines), Framing::Empty)
    };
    assert_eq!(get(&[]), Err(MessageEncodeError::MissingHost));
    assert_eq!(
        get(&[("host", "a"), ("host", "b")]),
        Err(MessageEncodeError::BadHost)
    );
    for bad in ["", "u@a", "a b", "a/b", "a:0"] {
        assert_eq!(
            get(&[("host", bad)]),
            Err(MessageEncodeError::BadHost),
            "{bad}"
        );
    }
}

#[test]
fn a_target_that_does_not_fit_the_method_is_not_written() {
    let lines = fields(&[("host", "a")]);
    let authority = |text: &str| RequestTarget::Authority(text.parse().unwrap());
    for (method, target) in [
        (Method::GET, RequestTarget::Asterisk),
        (Method::GET, authority("a:80")),
        (Method::CONNECT, authority("a")),
        (Method::CONNECT, authority("u@a:80")),
        (Method::CONNECT, origin("/")),
        (Method::CONNECT, absolute("/")),
        (Method::GET, absolute("*")),
        (Method::OPTIONS, origin("*")),
    ] {
        let result = request(method, target.clone(), &lines, Framing::Empty);
        assert_eq!(result, Err(MessageEncodeError::BadTarget), "{target:?}");
    }
}

#[test]
fn a_target_with_a_non_ascii_byte_is_not_written() {
    let path = PathAndQuery::try_from("/ü").unwrap();
    let lines = fields(&[("host", "a")]);
    let result = request(
        Method::GET,
        RequestTarget::Origin(path),
        &lines,
        Framing::Empty,
    );
    assert_eq!(result, Err(MessageEncodeError::BadTarget));
}

#[test]
fn a_request_cannot_last_until_close() {
    let lines = fields(&[("host", "a")]);
    let result = request(Method::POST, origin("/"), &lines, Framing::UntilClose);
    assert_eq!(result, Err(MessageEncodeError::BadFraming));
    let authority = RequestTarget::Authority("a:80".parse().unwrap());
    let result = request(Method::CONNECT, authority, &lines, Framing::Chunked);
    assert_eq!(result, Err(MessageEncodeError::BadFraming));
}

#[test]
fn a_response_announces_its_framing() {
    let get = |framing| response(200, &[("content-length", "9")], framing, Method::GET).unwrap();
    assert_eq!(
        get(Framing::Length(3)),
        "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n"
    );
    assert_eq!(
        get(Framing::Empty),
        "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
    );
    assert_eq!(
        get(Framing::Chunked),
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    );
    assert_eq!(
        get(Framing::UntilClose),
        "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n"
    );
}

#[test]
fn close_is_not_said_twice() {
    let text = response(
        200,
        &[("connection", "Close")],
        Framing::UntilClose,
        Method::GET,
    );
    assert_eq!(
        text.unwrap(),
        "HTTP/1.1 200 OK\r\nconnection: Close\r\n\r\n"
    );
}

#[test]
fn answers_to_head_and_304_keep_the_length_of_the_origin() {
    for (status, method) in [(200, Method::HEAD), (304, Method::GET)] {
        let lines = [("content-length", "9")];
        let text = response(status, &lines, Framing::Empty, method.clone()).unwrap();
        assert!(text.contains("\r\ncontent-length: 9\r\n"), "{text}");
        let text = response(status, &[], Framing::Empty, method.clone()).unwrap();
        assert!(!text.contains("content-length"), "{text}");
        let text = response(status, &[], Framing::Chunked, method.clone()).unwrap();
        assert!(!text.contains("transfer-encoding"), "{text}");
        let bad = response(
            status,
            &[("content-length", "9, 9")],
            Framing::Empty,
            method,
        );
        assert_eq!(bad, Err(MessageEncodeError::BadField));
    }
}

#[test]
fn responses_without_content_announce_none() {
    for (status, method) in [
        (100, Method::POST),
        (101, Method::GET),
        (103, Method::GET),
        (204, Method::GET),
        (200, Method::CONNECT),
    ] {
        let lines = [("content-length", "9"), ("transfer-encoding", "chunked")];
        let text = response(status, &lines, Framing::Empty, method.clone()).unwrap();
        assert_eq!(text.lines().count(), 2, "{text}");
        let bad = response(status, &[], Framing::Length(0), method);
        assert_eq!(bad, Err(MessageEncodeError::BadFraming));
    }
}

#[test]
fn an_unknown_status_has_no_reason_but_its_space() {
    let text = response(299, &[], Framing::Empty, Method::GET).unwrap();
    assert!(text.starts_with("HTTP/1.1 299 \r\n"));
    let text = response(999, &[], Framing::Empty, Method::GET).unwrap();
    assert!(text.starts_with("HTTP/1.1 999 \r\n"));
}

#[test]
fn names_leave_as_they_came_where_that_is_kept() {
    let head = "POST /a HTTP/1.1\r\nhOST: a\r\nSOAPAction:x\r\nX-camelCase: 1\r\nx-camelcase: 2\r\nContent-Length: 3\r\nConnection: x-gone\r\n\
                X-Gone: y\r\nCOOKIE:  a=b \r\n\r\n";
    let written = |keeps_spelling: bool| {
        let limits = MessageLimits {
            keeps_spelling,
            ..MessageLimits::default()
        };
        let decoded = decode_request(&mut BytesMut::from(head), &limits)
            .unwrap()
            .unwrap();
        let mut fields = decoded.fields;
        // A hop's edits.
        for name in ["connection", "x-gone"] {
            fields.remove(name);
        }
        fields.insert("soapaction", HeaderValue::from_static("changed"));
        fields.append("x-api-key", HeaderValue::from_static("k"));
        fields.append("via", HeaderValue::from_static("1.1 edge"));

        let mut out = BytesMut::new();
        let target = RequestTarget::Origin(PathAndQuery::from_static("/a"));
        encode_request(&decoded.method, &target, &fields, decoded.framing, &mut out).unwrap();
        assert_eq!(fields.clone(), fields);
        fields.forget_spelling();
        assert!(!fields.is_spelled());
        String::from_utf8(out.to_vec()).unwrap()
    };

    // A new line has the usual spelling: it is not the received line.
    assert_eq!(
        written(true),
        "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nSoapaction: changed\r\nX-camelCase: 1\r\nx-camelcase: 2\r\n\
         COOKIE: a=b\r\nX-Api-Key: k\r\nVia: 1.1 edge\r\n\r\n"
    );
    assert_eq!(
        written(false),
        "POST /a HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\nsoapaction: changed\r\nx-camelcase: 1\r\nx-camelcase: 2\r\n\
         cookie: a=b\r\nx-api-key: k\r\nvia: 1.1 edge\r\n\r\n"
    );
}
