//! What a proxy owes to RFC 9110 beside passing messages on: expectations, TRACE, and time-outs.

use hermes_tests::raw::Raw;
use hermes_tests::{Node, curl, h2c, origins};

/// A request that waits for 100, to an origin that says it.
#[test]
fn an_expectation_and_its_100_pass_both_ways() {
    let (node, origin) = (Node::forward_proxy(), origins::http());
    let authority = origin.address();
    let mut raw = Raw::connect(node.address("web"));
    raw.send(format!(
        "POST http://{authority}/post HTTP/1.1\r\nHost: {authority}\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
    ));
    assert_eq!(raw.head().status(), 100);
    raw.send("hello");
    let head = raw.head();
    assert_eq!(head.status(), 200, "{head:?}");
    assert_eq!(
        origin.last().field("expect").as_deref(),
        Some("100-continue")
    );
}

/// RFC 9110, 10.1.1: a proxy passes an expectation on that it does not know; the origin may refuse it.
#[test]
fn the_proxy_refuses_no_expectation_itself() {
    let node = Node::forward_proxy();
    let origin = origins::scripted("HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n");
    let got = curl(&[
        "-x",
        &node.url("web"),
        "-H",
        "Expect: a-miracle",
        &format!("http://{}/", origin.address()),
    ]);
    assert_eq!(got.status, 417, "{got:?}");
    assert!(
        origin
            .last()
            .to_ascii_lowercase()
            .contains("expect: a-miracle"),
        "{}",
        origin.last()
    );
    assert!(
        got.field("proxy-status").is_none(),
        "the answer is the origin's: {got:?}"
    );
}

/// RFC 9110, 15.2: an HTTP/1.0 client is sent no interim response.
#[test]
fn an_http_1_0_client_gets_no_100() {
    let (node, origin) = (Node::forward_proxy(), origins::http());
    let authority = origin.address();
    let mut raw = Raw::connect(node.address("web"));
    raw.send(format!(
        "POST http://{authority}/echo HTTP/1.0\r\nHost: {authority}\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello"
    ));
    assert_eq!(raw.head().status(), 200);
}

/// RFC 9110, 9.3.8 and 7.6.2.
#[test]
fn a_trace_without_a_hop_left_comes_back_without_secrets() {
    let (node, origin) = (Node::forward_proxy(), origins::http());
    let url = format!("http://{}/path", origin.address());
    let fields = [
        "-H",
        "Max-Forwards: 0",
        "-H",
        "Cookie: secret=1",
        "-H",
        "Authorization: Basic c2VjcmV0",
        "-H",
        "X-Mine: 1",
    ];
    let got = curl(&[&["-x", &node.url("web"), "-X", "TRACE", &url][..], &fields].concat());
    assert_eq!(
        (got.status, got.field("content-type").as_deref()),
        (200, Some("message/http")),
        "{got:?}"
    );
    let text = String::from_utf8(got.body).unwrap();
    assert!(
        text.starts_with("TRACE http://") && text.contains("\r\nx-mine: 1\r\n"),
        "{text}"
    );
    assert!(
        !text.contains("secret") && !text.contains("c2VjcmV0"),
        "{text}"
    );
    assert_eq!(origin.connections(), 0);
}

#[test]
fn a_trace_with_content_is_refused() {
    let (node, origin) = (Node::forward_proxy(), origins::http());
    let url = format!("http://{}/", origin.address());
    let got = curl(&["-x", &node.url("web"), "-X", "TRACE", "-d", "content", &url]);
    assert_eq!(got.status, 400, "{got:?}");
    let request = http::Request::builder()
        .method("TRACE")
        .uri(&url)
        .body(())
        .unwrap();
    assert_eq!(
        h2c::Client::connect(node.address("web"))
            .send(request, b"content")
            .unwrap()
            .status,
        400
    );
    assert_eq!(origin.connections(), 0);
}

#[test]
fn a_count_that_is_none_is_refused() {
    let (node, origin) = (Node::forward_proxy(), origins::http());
    let url = format!("http://{}/", origin.address());
    for count in ["-1", "1.5", "many", "1, 2"] {
        let got = curl(&[
            "-x",
            &node.url("web"),
            "-X",
            "OPTIONS",
            "-H",
            &format!("Max-Forwards: {count}"),
            &url,
        ]);
        assert_eq!(got.status, 400, "{count}: {got:?}");
    }
    let huge = curl(&[
        "-x",
        &node.url("web"),
        "-X",
        "OPTIONS",
        "-H",
        "Max-Forwards: 99999999999999999999",
        &url,
    ]);
    assert_eq!(huge.status, 200, "{huge:?}");
}

/// RFC 9110, 15.5.9 and 15.6.5: a request that stops halfway is the client's fault, an answer that does not come is not.
#[test]
fn a_slow_request_is_408_and_a_slow_answer_504() {
    let origin = origins::tcp_silent();
    let node = Node::start(
        "edge",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0, limits: {{ head_time: 200ms }} }} }}
            routes: [ {{ terminate: origin, timeouts: {{ header: 300ms, idle: 200ms }} }} ]
            upstreams: {{ origin: {{ endpoints: ["{}"] }} }}
            "#,
            origin.address()
        ),
    );
    let answer = |request: &str| {
        let mut raw = Raw::connect(node.address("web"));
        raw.send(request);
        raw.head()
    };
    assert_eq!(
        answer("GET http://video/ HTT").status(),
        408,
        "within the head"
    );
    let content =
        answer("POST http://video/ HTTP/1.1\r\nHost: video\r\nContent-Length: 9\r\n\r\nhalf");
    assert_eq!(content.status(), 408, "within the content: {content:?}");
    let silent = answer("GET http://video/ HTTP/1.1\r\nHost: video\r\n\r\n");
    assert_eq!(silent.status(), 504, "{silent:?}");
    assert!(
        silent
            .field("proxy-status")
            .unwrap()
            .contains("error=http_response_timeout"),
        "{silent:?}"
    );
}

/// RFC 9112, 3.2.2: the target decides, whatever `Host` says.
#[test]
fn the_absolute_form_wins_over_host() {
    let (node, origin) = (Node::forward_proxy(), origins::http());
    let authority = origin.address();
    let mut raw = Raw::connect(node.address("web"));
    raw.send(format!(
        "GET http://{authority}/a HTTP/1.1\r\nHost: elsewhere.example\r\n\r\n"
    ));
    assert_eq!(raw.head().status(), 200);
    assert_eq!(origin.last().host(), Some(authority.to_string()));
}
