//! Request and response heads over HTTP/3: accepted forms, and each rule that refuses one (RFC
//! 9114, sections 4.1 to 4.5).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use bytes::{Bytes, BytesMut};
use hermes_proto::fields::{Fields, LineName};
use hermes_proto::h3::{
    BadRequest, Code, FieldEncodeError, FieldSectionLimits, Received, RequestParts, Scope,
    content_length, decode_request, decode_response, decode_trailers, encode_request,
    encode_response, encode_trailers,
};
use hermes_proto::head::{RequestHead, ResponseHead};
use hermes_proto::path::BadPath;
use hermes_proto::qpack::{QpackDecoder, QpackEncoder, SectionEncoder};
use hermes_proto::upgrade::Protocol;
use http::{HeaderValue, Method, StatusCode, Version};
use proptest::prelude::*;

const LIMITS: FieldSectionLimits = FieldSectionLimits {
    bytes: 65_536,
    lines: 128,
};

fn section(lines: &[(&str, &str)]) -> Bytes {
    let mut output = BytesMut::new();
    let mut encoder = QpackEncoder::default();
    let mut section = encoder.section(0, &mut output);
    for (name, value) in lines {
        section.line(LineName::parse(name.as_bytes()), value.as_bytes(), false);
    }
    section.finish();
    output.freeze()
}

/// Reads a section that came on stream 0.
fn read<T>(section: &[u8], limits: FieldSectionLimits, with: impl FnOnce(Received<'_>) -> T) -> T {
    with(Received {
        section,
        stream: 0,
        limits,
        decoder: &mut QpackDecoder::default(),
    })
}

/// Writes a section for stream 0.
fn write<T>(output: &mut BytesMut, with: impl FnOnce(SectionEncoder<'_>) -> T) -> T {
    with(QpackEncoder::default().section(0, output))
}

fn request(lines: &[(&str, &str)]) -> Result<RequestHead, &'static str> {
    read(&section(lines), LIMITS, decode_request).map_err(|bad| {
        let BadRequest::Fault(fault) = bad else {
            panic!("{bad}")
        };
        assert_eq!(
            (fault.code, fault.scope),
            (Code::MessageError, Scope::Stream),
            "{fault}"
        );
        fault.reason
    })
}

fn response(lines: &[(&str, &str)]) -> Result<ResponseHead, &'static str> {
    read(&section(lines), LIMITS, decode_response).map_err(|fault| {
        assert_eq!(
            (fault.code, fault.scope),
            (Code::MessageError, Scope::Stream),
            "{fault}"
        );
        fault.reason
    })
}

/// A GET with more lines behind it.
fn get(more: &[(&str, &str)]) -> Result<RequestHead, &'static str> {
    let lines = [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "a"),
        (":path", "/"),
    ];
    request(&[&lines, more].concat())
}

const M: (&str, &str) = (":method", "GET");
const C: (&str, &str) = (":method", "CONNECT");
const S: (&str, &str) = (":scheme", "https");
const A: (&str, &str) = (":authority", "a:1");
const P: (&str, &str) = (":path", "/");

#[test]
fn reads_a_request() {
    let head = get(&[
        ("x-a", "one"),
        ("x-a", ""),
        ("te", "trailers"),
        ("host", "a"),
    ])
    .unwrap();
    assert_eq!(
        (head.method, head.scheme.unwrap().as_str()),
        (Method::GET, "https")
    );
    assert_eq!(
        (
            head.authority.unwrap().as_str(),
            head.path.unwrap().as_str()
        ),
        ("a", "/")
    );
    assert_eq!(head.fields.values("x-a").collect::<Vec<_>>(), ["one", ""]);
    assert!(!head.fields.contains_key("host") && head.protocol.is_none());
}

#[test]
fn host_stands_in_for_an_authority_and_must_not_contradict_it() {
    let head = request(&[M, S, P, ("host", "b:2")]).unwrap();
    assert_eq!(head.authority.unwrap().as_str(), "b:2");
    assert_eq!(get(&[("host", "b")]), Err("host differs from :authority"));
    assert_eq!(
        get(&[("host", "a"), ("host", "a")]),
        Err("several host fields")
    );
    assert_eq!(
        request(&[M, S, P]),
        Err("a request without :authority and Host")
    );
    assert_eq!(
        request(&[M, S, P, (":authority", "u@a")]),
        Err("the authority is malformed")
    );
    assert_eq!(
        request(&[M, S, P, (":authority", "")]),
        Err("the authority is malformed")
    );
}

#[test]
fn pseudo_fields_are_known_come_first_and_once() {
    assert_eq!(
        request(&[M, S, A, ("x", ""), P]),
        Err("a pseudo-field after a field")
    );
    assert_eq!(
        request(&[M, M, S, A, P]),
        Err("a pseudo-field appears twice")
    );
    assert_eq!(
        request(&[M, S, A, P, (":x", "")]),
        Err("an unknown pseudo-field")
    );
    assert_eq!(
        request(&[M, S, A, P, (":Path", "")]),
        Err("an unknown pseudo-field")
    );
    assert_eq!(
        request(&[M, S, A, P, (":status", "200")]),
        Err("a request with :status")
    );
    assert_eq!(request(&[S, A, P]), Err("a request without :method"));
    assert_eq!(
        request(&[M, A, P]),
        Err("a request without :scheme or :path")
    );
    assert_eq!(
        request(&[M, S, A]),
        Err("a request without :scheme or :path")
    );
    assert_eq!(
        request(&[(":method", "G T"), S, A, P]),
        Err(":method is not a token")
    );
}

#[test]
fn a_path_is_rooted_and_of_visible_bytes() {
    for path in ["", "a", "*"] {
        assert_eq!(
            request(&[M, S, A, (":path", path)]),
            Err(":path is not a path"),
            "{path:?}"
        );
    }
    for (path, bad) in [
        ("/a b", BadPath::Byte { byte: b' ', at: 2 }),
        ("/#f", BadPath::Fragment { at: 1 }),
        ("/a\r\nb", BadPath::Byte { byte: b'\r', at: 2 }),
        ("/\u{0}", BadPath::Byte { byte: 0, at: 1 }),
    ] {
        assert_eq!(
            read(
                &section(&[M, S, A, (":path", path)]),
                LIMITS,
                decode_request
            ),
            Err(bad.into()),
            "{path:?}"
        );
    }
    let polite = request(&[M, S, A, (":path", "/a/../b{?c=\"")]).unwrap();
    assert_eq!(polite.path.unwrap().as_str(), "/b%7B?c=%22");
    let options = request(&[(":method", "OPTIONS"), S, A, (":path", "*")]).unwrap();
    assert_eq!(options.path.unwrap().as_str(), "*");
}

#[test]
fn connect_has_an_authority_with_a_port_and_nothing_else() {
    let head = request(&[C, A]).unwrap();
    assert_eq!(
        (head.authority.unwrap().as_str(), head.scheme, head.path),
        ("a:1", None, None)
    );
    assert_eq!(request(&[C, S, A]), Err("CONNECT with :scheme or :path"));
    assert_eq!(request(&[C, A, P]), Err("CONNECT with :scheme or :path"));
    for authority in ["a", "a:", "a:0"] {
        assert!(
            request(&[C, (":authority", authority)]).is_err(),
            "{authority}"
        );
    }
    assert_eq!(
        request(&[C, ("host", "a:1")]),
        Err("CONNECT without a host and a port")
    );
}

#[test]
fn extended_connect_has_a_whole_target_and_any_protocol() {
    for protocol in [
        "websocket",
        "connect-udp",
        "connect-ip",
        "connect-tcp",
        "something/2",
    ] {
        let head = request(&[C, S, A, P, (":protocol", protocol)]).unwrap();
        assert_eq!(head.protocol.unwrap().as_str(), protocol);
    }
    for protocol in ["", "a b", "websocket, h2c", "a/b/c"] {
        assert_eq!(
            request(&[C, S, A, P, (":protocol", protocol)]),
            Err(":protocol is not one protocol")
        );
    }
    let p = (":protocol", "x");
    assert_eq!(request(&[M, S, A, P, p]), Err(":protocol without CONNECT"));
    assert_eq!(
        request(&[C, A, p]),
        Err("a request without :scheme or :path")
    );
    assert_eq!(
        request(&[C, S, P, p]),
        Err("a request without :authority and Host")
    );
}

#[test]
fn names_are_tokens_in_lower_case() {
    for name in ["X-A", "x a", "x:", "", "x\r\n", "\u{e9}"] {
        assert_eq!(
            get(&[(name, "")]),
            Err("a field name is not a token in lower case"),
            "{name:?}"
        );
    }
}

#[test]
fn values_hold_no_control_character_and_no_white_space_around_them() {
    for byte in (0..=31_u8).chain([127]).filter(|byte| *byte != b'\t') {
        let value = format!("a{}b", char::from(byte));
        assert_eq!(
            get(&[("x", &value)]),
            Err("a control character in a field value"),
            "{byte:#x}"
        );
    }
    for value in [" a", "a ", "\ta"] {
        assert_eq!(
            get(&[("x", value)]),
            Err("white space around a field value"),
            "{value:?}"
        );
    }
    assert!(get(&[("x", "a\tb \u{e9}")]).is_ok());
}

#[test]
fn fields_of_a_connection_are_refused_and_not_written() {
    let lines = [
        ("connection", ""),
        ("keep-alive", ""),
        ("proxy-connection", ""),
        ("transfer-encoding", "chunked"),
        ("upgrade", "x"),
        ("te", "gzip"),
    ];
    for (name, value) in lines {
        assert_eq!(
            get(&[(name, value)]),
            Err("a field that belongs to a connection of HTTP/1.1"),
            "{name}"
        );
        let mut fields = Fields::new();
        fields.insert(name, HeaderValue::from_static(value));
        let mut output = BytesMut::from("before");
        let refused = Err(FieldEncodeError::ConnectionSpecific(name.to_owned()));
        assert_eq!(
            write(&mut output, |section| encode_response(
                StatusCode::OK,
                &fields,
                section
            )),
            refused
        );
        assert_eq!(output, "before");
    }
}

#[test]
fn crumbs_of_a_cookie_become_one_field() {
    let head = get(&[("cookie", "a=1"), ("x", ""), ("cookie", "b=2")]).unwrap();
    assert_eq!(
        head.fields.values("cookie").collect::<Vec<_>>(),
        ["a=1; b=2"]
    );
}

#[test]
fn a_content_length_is_one_number() {
    let length = |values: &[&str]| {
        let lines: Vec<_> = values
            .iter()
            .map(|value| ("content-length", *value))
            .collect();
        content_length(&get(&lines).unwrap().fields).map_err(|fault| fault.code)
    };
    assert_eq!(length(&[]), Ok(None));
    assert_eq!(length(&["18446744073709551615"]), Ok(Some(u64::MAX)));
    for values in [
        &["1", "1"][..],
        &["1,1"],
        &["+1"],
        &["-1"],
        &[""],
        &["18446744073709551616"],
        &["0x1"],
    ] {
        assert_eq!(length(values), Err(Code::MessageError), "{values:?}");
    }
}

#[test]
fn a_response_has_a_status_and_no_other_pseudo_field() {
    assert_eq!(
        response(&[(":status", "204"), ("x", "y")]).unwrap().status,
        204
    );
    assert_eq!(response(&[("x", "y")]), Err("a response without :status"));
    assert_eq!(
        response(&[(":status", "200"), P]),
        Err("a response with a pseudo-field of requests")
    );
    for status in ["101", "1000", "099", "20", "2000", "+20", ""] {
        assert_eq!(
            response(&[(":status", status)]),
            Err(":status is not a status of HTTP/3"),
            "{status}"
        );
    }
    let mut output = BytesMut::new();
    let switched = write(&mut output, |section| {
        encode_response(StatusCode::SWITCHING_PROTOCOLS, &Fields::new(), section)
    });
    assert_eq!(switched, Err(FieldEncodeError::Status));
}

#[test]
fn trailers_have_no_pseudo_field() {
    let fields = read(&section(&[("x", "y")]), LIMITS, decode_trailers).unwrap();
    assert_eq!(fields.get("x").unwrap(), "y");
    for line in [P, (":status", "200")] {
        assert_eq!(
            read(&section(&[line]), LIMITS, decode_trailers)
                .unwrap_err()
                .code,
            Code::MessageError
        );
    }
    let mut output = BytesMut::new();
    write(&mut output, |section| encode_trailers(&fields, section)).unwrap();
    assert_eq!(read(&output, LIMITS, decode_trailers), Ok(fields));
}

#[test]
fn what_is_too_large_is_told_from_what_cannot_be_read() {
    let lines = section(&[(":status", "200"), ("x", "y")]);
    let refusal = |section: Bytes, bytes, lines| {
        let fault = read(
            &section,
            FieldSectionLimits { bytes, lines },
            decode_response,
        )
        .unwrap_err();
        (fault.code, fault.scope)
    };
    assert!(
        read(
            &lines,
            FieldSectionLimits {
                bytes: 76,
                lines: 2
            },
            decode_response
        )
        .is_ok()
    );
    assert_eq!(
        refusal(lines.clone(), 75, 2),
        (Code::ExcessiveLoad, Scope::Stream)
    );
    assert_eq!(refusal(lines, 76, 1), (Code::ExcessiveLoad, Scope::Stream));
    let dynamic = Bytes::from_static(b"\0\0\x80");
    assert_eq!(
        refusal(dynamic, 100, 100),
        (Code::QpackDecompressionFailed, Scope::Connection)
    );
}

#[test]
fn a_request_is_written_only_in_a_form_that_is_read() {
    let head = get(&[]).unwrap();
    let refused = |change: &dyn Fn(&mut RequestHead)| {
        let mut head = head.clone();
        change(&mut head);
        let mut output = BytesMut::new();
        let refused = write(&mut output, |section| {
            encode_request(&RequestParts::from(&head), section)
        })
        .is_err();
        assert!(!refused || output.is_empty());
        refused
    };
    assert!(!refused(&|_| {}));
    assert!(refused(&|head| head.path = None));
    assert!(refused(&|head| head.scheme = None));
    assert!(refused(&|head| head.authority = None));
    let other = || Protocol::parse(b"x").ok();
    assert!(refused(&|head| head.protocol = other()));
    assert!(refused(&|head| head.method = Method::CONNECT));
    assert!(!refused(
        &|head| (head.method, head.protocol) = (Method::CONNECT, other())
    ));
}

proptest! {
    #[test]
    fn heads_survive_a_round_trip(
        lines in proptest::collection::vec(("[a-z][a-z0-9-]{0,12}", "[!-~]([ -~]{0,20}[!-~])?"), 0..12),
        path in "/[!-\"$-~]{0,20}",
        protocol in proptest::option::of("[a-z-]{1,12}"),
    ) {
        let mut fields = Fields::new();
        let plain = |name: &str| !["connection", "upgrade", "te", "host", "cookie"].contains(&name);
        for (name, value) in lines.iter().filter(|(name, _)| plain(name)) {
            fields.append(http::HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse::<HeaderValue>().unwrap());
        }
        let head = RequestHead {
            method: if protocol.is_some() { Method::CONNECT } else { Method::POST },
            scheme: Some(http::uri::Scheme::HTTPS),
            authority: Some("example.com:8443".parse().unwrap()),
            path: hermes_proto::path::decode(path.clone().into()).ok(),
            protocol: protocol.and_then(|protocol| Protocol::parse(protocol.as_bytes()).ok()),
            fields: fields.clone(),
            version: Version::HTTP_3,
            origin_form: false,
        };
        prop_assume!(head.path.is_some());
        let mut output = BytesMut::new();
        write(&mut output, |section| encode_request(&RequestParts::from(&head), section)).unwrap();
        prop_assert_eq!(read(&output.split(), LIMITS, decode_request), Ok(head));
        write(&mut output, |section| encode_response(StatusCode::OK, &fields, section)).unwrap();
        prop_assert_eq!(read(&output, LIMITS, decode_response), Ok(ResponseHead { status: StatusCode::OK, fields, version: Version::HTTP_3 }));
    }
}
