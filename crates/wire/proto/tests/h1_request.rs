//! Request heads: accepted forms, and each rule that refuses one.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use bytes::BytesMut;
use hermes_proto::h1::{
    DecodeErrorKind as Kind, Framing, MessageLimits, RequestHead, RequestTarget, decode_request,
};
use hermes_proto::path::BadPath;
use hermes_proto::upgrade::Protocol;
use http::{Method, Version};

fn decode(bytes: &[u8]) -> Result<Option<RequestHead>, Kind> {
    let mut buf = BytesMut::from(bytes);
    decode_request(&mut buf, &MessageLimits::default()).map_err(|error| error.kind())
}

fn head(text: &str) -> RequestHead {
    decode(text.as_bytes()).unwrap().unwrap()
}

fn refusal(bytes: &[u8], limits: &MessageLimits) -> (Kind, u16) {
    let mut buf = BytesMut::from(bytes);
    let error = decode_request(&mut buf, limits).unwrap_err();
    assert!(!error.to_string().is_empty());
    (error.kind(), error.status().as_u16())
}

/// One test for each rule: name, bytes, kind, status.
macro_rules! refuses {
    ($($name:ident: $bytes:expr => $kind:ident $status:literal;)*) => {$(
        #[test]
        fn $name() {
            assert_eq!(refusal($bytes, &MessageLimits::default()), (Kind::$kind, $status));
        }
    )*};
}

refuses! {
    refuses_bare_lf_after_the_request_line: b"GET / HTTP/1.1\nHost: a\r\n\r\n" => BareLf 400;
    refuses_bare_lf_before_the_head_is_complete: b"GET / HTTP/1.1\n" => BareLf 400;
    refuses_bare_lf_after_a_field: b"GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n" => BareLf 400;
    refuses_bare_lf_as_the_empty_line: b"GET / HTTP/1.1\r\nHost: a\r\n\n" => BareLf 400;
    refuses_bare_lf_before_the_request_line: b"\nGET / HTTP/1.1\r\nHost: a\r\n\r\n" => BareLf 400;
    refuses_bare_cr_in_the_request_line: b"GET /\r HTTP/1.1\r\nHost: a\r\n\r\n" => BareCr 400;
    refuses_bare_cr_in_a_value: b"GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n" => BareCr 400;
    refuses_bare_cr_in_a_name: b"GET / HTTP/1.1\r\nHost: a\r\nX\r: b\r\n\r\n" => BareCr 400;
    refuses_bare_cr_before_the_request_line: b"\rGET / HTTP/1.1\r\nHost: a\r\n\r\n" => BareCr 400;
    refuses_doubled_cr_at_a_line_end: b"GET / HTTP/1.1\r\nHost: a\r\r\n\r\n" => BareCr 400;
    refuses_two_empty_lines_before_the_request_line: b"\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n" => LeadingEmptyLines 400;

    refuses_a_folded_value: b"GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n" => ObsFold 400;
    refuses_white_space_before_the_first_field: b"GET / HTTP/1.1\r\n\tX: b\r\nHost: a\r\n\r\n" => ObsFold 400;
    refuses_a_space_before_the_colon: b"GET / HTTP/1.1\r\nHost : a\r\n\r\n" => SpaceBeforeColon 400;
    refuses_a_tab_before_the_colon: b"GET / HTTP/1.1\r\nHost\t: a\r\n\r\n" => SpaceBeforeColon 400;
    refuses_an_empty_name: b"GET / HTTP/1.1\r\n: a\r\n\r\n" => EmptyName 400;
    refuses_a_field_without_colon: b"GET / HTTP/1.1\r\nHost a\r\n\r\n" => MissingColon 400;
    refuses_a_space_in_a_name: b"GET / HTTP/1.1\r\nHo st: a\r\n\r\n" => BadName 400;
    refuses_nul_in_a_value: b"GET / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n" => BadValue 400;
    refuses_vertical_tab_before_chunked: b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \x0bchunked\r\n\r\n" => BadValue 400;

    refuses_two_spaces_after_the_method: b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n" => BadRequestLine 400;
    refuses_two_spaces_after_the_target: b"GET /  HTTP/1.1\r\nHost: a\r\n\r\n" => BadRequestLine 400;
    refuses_a_space_in_the_target: b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n" => BadRequestLine 400;
    refuses_a_space_after_the_version: b"GET / HTTP/1.1 \r\nHost: a\r\n\r\n" => BadRequestLine 400;
    refuses_a_request_line_without_version: b"GET /\r\n\r\n" => BadRequestLine 400;
    refuses_a_method_with_a_separator: b"GE(T / HTTP/1.1\r\nHost: a\r\n\r\n" => BadMethod 400;
    refuses_a_tls_hello_at_its_first_byte: b"\x16" => BadMethod 400;
    refuses_http2: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" => UnsupportedVersion 505;
    refuses_http12: b"GET / HTTP/1.2\r\nHost: a\r\n\r\n" => UnsupportedVersion 505;
    refuses_a_lower_case_version: b"GET / http/1.1\r\nHost: a\r\n\r\n" => BadVersion 400;
    refuses_a_version_of_three_digits: b"GET / HTTP/1.10\r\nHost: a\r\n\r\n" => BadVersion 400;

    refuses_authority_form_without_connect: b"GET a:80 HTTP/1.1\r\nHost: a\r\n\r\n" => TargetForm 400;
    refuses_asterisk_without_options: b"GET * HTTP/1.1\r\nHost: a\r\n\r\n" => TargetForm 400;
    refuses_a_path_without_slash: b"GET a/b HTTP/1.1\r\nHost: a\r\n\r\n" => TargetForm 400;
    refuses_another_scheme: b"GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n" => Scheme 400;
    refuses_an_empty_authority: b"GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n" => BadAuthority 400;
    refuses_userinfo_in_the_target: b"GET http://u:p@a/ HTTP/1.1\r\nHost: a\r\n\r\n" => Userinfo 400;
    refuses_connect_to_a_path: b"CONNECT / HTTP/1.1\r\nHost: a\r\n\r\n" => BadAuthority 400;
    refuses_connect_with_a_scheme: b"CONNECT http://a:80 HTTP/1.1\r\nHost: a\r\n\r\n" => BadPort 400;
    refuses_connect_with_userinfo: b"CONNECT u@a:80 HTTP/1.1\r\nHost: a\r\n\r\n" => Userinfo 400;
    refuses_connect_without_port: b"CONNECT a HTTP/1.1\r\nHost: a\r\n\r\n" => BadPort 400;
    refuses_connect_with_an_empty_port: b"CONNECT a: HTTP/1.1\r\nHost: a\r\n\r\n" => BadPort 400;
    refuses_connect_to_port_zero: b"CONNECT a:0 HTTP/1.1\r\nHost: a\r\n\r\n" => BadPort 400;
    refuses_connect_to_port_65536: b"CONNECT a:65536 HTTP/1.1\r\nHost: a\r\n\r\n" => BadPort 400;
    refuses_connect_to_a_signed_port: b"CONNECT a:+80 HTTP/1.1\r\nHost: a\r\n\r\n" => BadPort 400;
    refuses_connect_to_a_malformed_literal: b"CONNECT [::g]:80 HTTP/1.1\r\nHost: a\r\n\r\n" => BadAuthority 400;

    refuses_a_missing_host: b"GET / HTTP/1.1\r\n\r\n" => MissingHost 400;
    refuses_a_missing_host_in_absolute_form: b"GET http://a/ HTTP/1.1\r\n\r\n" => MissingHost 400;
    refuses_two_hosts: b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n" => SeveralHosts 400;
    refuses_two_hosts_in_http10: b"GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n" => SeveralHosts 400;
    refuses_an_empty_host: b"GET / HTTP/1.1\r\nHost:\r\n\r\n" => BadHost 400;
    refuses_userinfo_in_host: b"GET / HTTP/1.1\r\nHost: u@a\r\n\r\n" => BadHost 400;
    refuses_a_path_in_host: b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n" => BadHost 400;
    refuses_a_space_in_host: b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n" => BadHost 400;
    refuses_a_malformed_port_in_host: b"GET / HTTP/1.1\r\nHost: a:8x\r\n\r\n" => BadHost 400;

    refuses_length_with_transfer_encoding: b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" => LengthAndTransferEncoding 400;
    refuses_differing_lengths: b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n" => SeveralLengths 400;
    refuses_equal_lengths: b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n" => SeveralLengths 400;
    refuses_a_length_list: b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\n" => LengthList 400;
    refuses_a_plus_in_the_length: b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\n" => BadLength 400;
    refuses_a_minus_in_the_length: b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n" => BadLength 400;
    refuses_a_space_in_the_length: b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5 5\r\n\r\n" => BadLength 400;
    refuses_a_hexadecimal_length: b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x5\r\n\r\n" => BadLength 400;
    refuses_an_empty_length: b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n" => BadLength 400;
    refuses_a_length_over_64_bits: b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551616\r\n\r\n" => LengthOverflow 400;
    refuses_transfer_encoding_in_http10: b"POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" => TransferEncodingInHttp10 400;
    refuses_gzip_coding: b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n" => UnknownTransferCoding 501;
    refuses_chunked_not_last: b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n" => UnknownTransferCoding 501;
    refuses_identity_coding: b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n" => UnknownTransferCoding 501;
    refuses_xchunked: b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n" => UnknownTransferCoding 501;
    refuses_chunked_twice: b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n" => RepeatedChunked 400;
    refuses_chunked_on_two_lines: b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" => RepeatedChunked 400;
    refuses_chunked_with_a_parameter: b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked;a=b\r\n\r\n" => BadTransferEncoding 400;
    refuses_an_empty_transfer_encoding: b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n\r\n" => BadTransferEncoding 400;
    refuses_a_trailing_comma_after_chunked: b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked,\r\n\r\n" => BadTransferEncoding 400;
    refuses_connect_with_a_length: b"CONNECT a:80 HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n" => ConnectWithContent 400;
    refuses_connect_with_chunked: b"CONNECT a:80 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" => ConnectWithContent 400;

    refuses_a_connection_that_is_no_token_list: b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close keep-alive\r\n\r\n" => BadConnection 400;
    refuses_a_malformed_upgrade: b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: a b\r\n\r\n" => BadUpgrade 400;
    refuses_an_upgrade_with_an_empty_version: b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: a/\r\n\r\n" => BadUpgrade 400;
}

#[test]
fn a_path_that_cannot_be_taken_is_refused_with_its_byte_and_offset() {
    for (target, bad) in [
        ("/\x01", BadPath::Byte { byte: 1, at: 1 }),
        ("/\ta", BadPath::Byte { byte: b'\t', at: 1 }),
        ("/\u{fc}", BadPath::Byte { byte: 0xc3, at: 1 }),
        ("http://a/b?\u{fc}", BadPath::Byte { byte: 0xc3, at: 3 }),
        ("/\x7f", BadPath::Byte { byte: 0x7f, at: 1 }),
        ("/a#b", BadPath::Fragment { at: 2 }),
        ("http://a/#b", BadPath::Fragment { at: 1 }),
        ("http://a#b", BadPath::Fragment { at: 1 }),
    ] {
        let text = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(
            refusal(text.as_bytes(), &MessageLimits::default()),
            (Kind::Path(bad), 400),
            "{target}"
        );
    }
}

#[test]
fn what_is_only_impolite_passes_encoded_and_dot_segments_are_resolved() {
    let target = |target: &str| head(&format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")).target;
    let path = |text: &str| text.parse().unwrap();
    assert_eq!(
        target("/deb/./Packages"),
        RequestTarget::Origin(path("/deb/Packages"))
    );
    assert_eq!(
        target("/q?query={job=\"node\"}"),
        RequestTarget::Origin(path("/q?query=%7Bjob=%22node%22%7D"))
    );
    let RequestTarget::Absolute { path, .. } = target("http://a/x/%2e%2e/y|z") else {
        panic!("no absolute form")
    };
    assert_eq!(path.as_str(), "/y%7Cz");
}

#[test]
fn reads_a_get_in_origin_form() {
    let head =
        head("GET /a?b=c HTTP/1.1\r\nHost: example.com:8080\r\nX-A:  one\t\r\nx-a: \r\n\r\n");
    assert_eq!(head.method, Method::GET);
    assert_eq!(
        head.target,
        RequestTarget::Origin("/a?b=c".parse().unwrap())
    );
    assert_eq!(head.version, Version::HTTP_11);
    let values: Vec<_> = head.fields.values("x-a").collect();
    assert_eq!(values, ["one", ""]);
    assert_eq!(head.framing, Framing::Empty);
    assert!(head.keep_alive);
    assert_eq!(head.upgrade, None);
}

#[test]
fn takes_exactly_the_head() {
    let mut buf =
        BytesMut::from("\r\nPOST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nokGET");
    let head = decode_request(&mut buf, &MessageLimits::default())
        .unwrap()
        .unwrap();
    assert_eq!(head.framing, Framing::Length(2));
    assert_eq!(buf, "okGET");
}

#[test]
fn an_incomplete_head_takes_nothing() {
    let whole = b"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n";
    for end in 0..whole.len() {
        let mut buf = BytesMut::from(&whole[..end]);
        assert_eq!(
            decode_request(&mut buf, &MessageLimits::default()),
            Ok(None)
        );
        assert_eq!(buf, whole[..end]);
    }
}

#[test]
fn the_absolute_form_wins_over_host() {
    let head = head("GET HTTPS://b:81?q HTTP/1.1\r\nHost: a\r\n\r\n");
    let RequestTarget::Absolute {
        scheme,
        authority,
        path,
    } = &head.target
    else {
        panic!("{:?}", head.target);
    };
    assert_eq!((scheme.as_str(), authority.as_str()), ("https", "b:81"));
    assert_eq!(path.as_str(), "/?q");
    assert_eq!(head.fields.get("host").unwrap(), "b:81");
}

#[test]
fn an_http10_request_in_absolute_form_gets_a_host() {
    assert_eq!(
        head("GET http://a/ HTTP/1.0\r\n\r\n")
            .fields
            .get("host")
            .unwrap(),
        "a"
    );
}

#[test]
fn options_reads_the_asterisk_and_the_empty_absolute_path() {
    let asterisk = head("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(asterisk.target, RequestTarget::Asterisk);
    let absolute = head("OPTIONS http://a HTTP/1.1\r\nHost: a\r\n\r\n");
    let RequestTarget::Absolute { path, .. } = absolute.target else {
        panic!("not absolute");
    };
    assert_eq!(path.as_str(), "*");
}

#[test]
fn connect_names_a_host_and_a_port() {
    for authority in ["a:1", "10.0.0.1:65535", "[::1]:443"] {
        let head = head(&format!(
            "CONNECT {authority} HTTP/1.1\r\nHost: other\r\n\r\n"
        ));
        assert_eq!(
            head.target,
            RequestTarget::Authority(authority.parse().unwrap())
        );
        assert_eq!(head.framing, Framing::Empty);
        assert_eq!(head.fields.get("host").unwrap(), authority);
        assert!(!head.keep_alive, "a refused CONNECT closes (RFC 9931)");
    }
}

#[test]
fn keep_alive_follows_version_and_connection() {
    let keeps = |version: &str, connection: &str| {
        head(&format!(
            "GET / {version}\r\nHost: a\r\nConnection: {connection}\r\n\r\n"
        ))
        .keep_alive
    };
    assert!(keeps("HTTP/1.1", ""));
    assert!(keeps("HTTP/1.1", "x, , keep-alive"));
    assert!(!keeps("HTTP/1.1", "keep-alive, Close"));
    assert!(!keeps("HTTP/1.0", ""));
    assert!(
        !keeps("HTTP/1.0", "keep-alive"),
        "RFC 9112 9.3: not a proxy"
    );
}

#[test]
fn upgrade_needs_the_connection_option_and_http11() {
    let offered = |version: &str, connection: &str| {
        head(&format!("GET / {version}\r\nHost: a\r\nConnection: {connection}\r\nUpgrade: h2c, WebSocket\r\n\r\n"))
            .upgrade
    };
    assert_eq!(offered("HTTP/1.1", "Upgrade"), Some(Protocol::WebSocket));
    assert_eq!(offered("HTTP/1.1", "close"), None);
    assert_eq!(offered("HTTP/1.0", "upgrade"), None);
}

#[test]
fn chunked_is_read_in_any_case() {
    let head = head("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\t CHUNKED \r\n\r\n");
    assert_eq!(head.framing, Framing::Chunked);
}

#[test]
fn a_name_or_a_method_is_read_only_when_it_is_a_token() {
    for byte in 0..=255u8 {
        let token = byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        for long in ["", &"x".repeat(80)] {
            let name = [b"n", &[byte][..], long.as_bytes()].concat();
            let field = [b"GET / HTTP/1.1\r\nHost: a\r\n", &name[..], b": v\r\n\r\n"].concat();
            assert_eq!(decode(&field).is_ok(), token || byte == b':', "{byte:#x}");
            let method = [&name[..], b" / HTTP/1.1\r\nHost: a\r\n\r\n"].concat();
            assert_eq!(decode(&method).is_ok(), token, "{byte:#x}");
        }
    }
}

#[test]
fn a_value_may_hold_tabs_and_obs_text_but_no_other_control() {
    for byte in 0..=255u8 {
        let text = byte == b'\t' || (byte >= b' ' && byte != 127);
        let bytes = [
            b"GET / HTTP/1.1\r\nHost: a\r\nX: a",
            &[byte][..],
            b"b\r\n\r\n",
        ]
        .concat();
        assert_eq!(decode(&bytes).is_ok(), text, "{byte:#x}");
    }
}

#[test]
fn limits_are_exact() {
    let bytes = b"GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n\r\n";
    let mut limits = MessageLimits {
        head_bytes: bytes.len(),
        fields: 2,
        ..MessageLimits::default()
    };
    assert!(decode_request(&mut BytesMut::from(&bytes[..]), &limits).is_ok());
    let unfinished = &bytes[..bytes.len() - 2];
    limits.head_bytes = unfinished.len();
    assert_eq!(refusal(unfinished, &limits), (Kind::HeadTooLarge, 431));
    limits.head_bytes = bytes.len() - 1;
    assert_eq!(refusal(bytes, &limits), (Kind::HeadTooLarge, 431));
    limits = MessageLimits {
        fields: 1,
        ..MessageLimits::default()
    };
    assert_eq!(refusal(bytes, &limits), (Kind::TooManyFields, 431));
}

#[test]
fn a_target_that_fills_the_head_is_too_long() {
    let endless = format!("GET /{}", "a".repeat(70_000));
    let limits = MessageLimits::default();
    assert_eq!(
        refusal(endless.as_bytes(), &limits),
        (Kind::TargetTooLong, 414)
    );
    let wide = MessageLimits {
        head_bytes: 1 << 20,
        ..limits
    };
    let whole = format!("{endless} HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(refusal(whole.as_bytes(), &wide), (Kind::TargetTooLong, 414));
}

#[test]
fn a_length_of_zero_is_none_where_a_tunnel_begins() {
    for text in [
        "CONNECT a:80 HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 0\r\n\r\n",
    ] {
        let mut buf = BytesMut::from(text);
        let head = decode_request(&mut buf, &MessageLimits::default())
            .unwrap()
            .unwrap();
        assert_eq!(head.framing, Framing::Empty, "{text}");
        assert!(!head.fields.contains_key("content-length"), "{text}");
    }
}
