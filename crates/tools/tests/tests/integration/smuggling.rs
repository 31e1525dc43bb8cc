//! Requests that two implementations might read differently: each is refused, the connection closes, and the origin
//! sees nothing.

use hermes_tests::h2c::Client;
use hermes_tests::raw::Raw;
use hermes_tests::{Node, origins};
use http::Request;

/// Sends a request, in which `{o}` is the origin's authority, followed by a second one that must never be served.
fn refuse(cases: &[(&str, &str)]) {
    let (node, origin) = (Node::forward_proxy(), origins::http());
    let authority = origin.address().to_string();
    for (case, request) in cases {
        let mut raw = Raw::connect(node.address("web"));
        raw.send(request.replace("{o}", &authority));
        raw.send_if_open(format!(
            "GET http://{authority}/smuggled HTTP/1.1\r\nHost: {authority}\r\n\r\n"
        ));
        raw.finish();
        let head = raw.head();
        assert!((400..=505).contains(&head.status()), "{case}: {head:?}");
        let (rest, _) = raw.rest();
        let rest = String::from_utf8_lossy(&rest).into_owned();
        assert!(
            !rest.contains("HTTP/1.1 "),
            "{case}: a second answer: {rest}"
        );
        assert_eq!(origin.seen(), [], "{case}");
    }
}

#[test]
fn two_framings_are_refused() {
    refuse(&[
        (
            "CL and TE",
            "POST http://{o}/ HTTP/1.1\r\nHost: {o}\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ),
        (
            "TE and CL",
            "POST http://{o}/ HTTP/1.1\r\nHost: {o}\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
        ),
        (
            "two CL",
            "POST http://{o}/ HTTP/1.1\r\nHost: {o}\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nbody",
        ),
        (
            "a list of CL",
            "POST http://{o}/ HTTP/1.1\r\nHost: {o}\r\nContent-Length: 4, 5\r\n\r\nbody",
        ),
        (
            "CL with a sign",
            "POST http://{o}/ HTTP/1.1\r\nHost: {o}\r\nContent-Length: +4\r\n\r\nbody",
        ),
        (
            "hexadecimal CL",
            "POST http://{o}/ HTTP/1.1\r\nHost: {o}\r\nContent-Length: 0x4\r\n\r\nbody",
        ),
        (
            "negative CL",
            "POST http://{o}/ HTTP/1.1\r\nHost: {o}\r\nContent-Length: -4\r\n\r\nbody",
        ),
        (
            "CL of too many digits",
            "POST http://{o}/ HTTP/1.1\r\nHost: {o}\r\nContent-Length: 99999999999999999999\r\n\r\nbody",
        ),
        (
            "empty CL",
            "POST http://{o}/ HTTP/1.1\r\nHost: {o}\r\nContent-Length:\r\n\r\nbody",
        ),
    ]);
}

#[test]
fn transfer_codings_that_are_not_plainly_chunked_are_refused() {
    refuse(&[
        (
            "chunked twice",
            "POST http://{o}/ HTTP/1.1\r\nHost: {o}\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
        ),
        (
            "two lines",
            "POST http://{o}/ HTTP/1.1\r\nHost: {o}\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
        ),
        (
            "not last",
            "POST http://{o}/ HTTP/1.1\r\nHost: {o}\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
        ),
        (
            "unknown",
            "POST http://{o}/ HTTP/1.1\r\nHost: {o}\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        ),
        (
            "with a vertical tab",
            "POST http://{o}/ HTTP/1.1\r\nHost: {o}\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
        ),
        (
            "over HTTP/1.0",
            "POST http://{o}/ HTTP/1.0\r\nHost: {o}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ),
    ]);
}

#[test]
fn lines_that_end_oddly_are_refused() {
    refuse(&[
        (
            "bare LF after a field",
            "GET http://{o}/ HTTP/1.1\r\nHost: {o}\nx: 1\r\n\r\n",
        ),
        (
            "bare LF after the request line",
            "GET http://{o}/ HTTP/1.1\nHost: {o}\r\n\r\n",
        ),
        (
            "bare LF at the end",
            "GET http://{o}/ HTTP/1.1\r\nHost: {o}\r\n\n",
        ),
        (
            "bare CR in a value",
            "GET http://{o}/ HTTP/1.1\r\nHost: {o}\r\nx: 1\ry: 2\r\n\r\n",
        ),
        (
            "NUL in a value",
            "GET http://{o}/ HTTP/1.1\r\nHost: {o}\r\nx: 1\0\r\n\r\n",
        ),
        (
            "folded value",
            "GET http://{o}/ HTTP/1.1\r\nHost: {o}\r\nx: 1\r\n 2\r\n\r\n",
        ),
        (
            "fold with a tab",
            "GET http://{o}/ HTTP/1.1\r\nHost: {o}\r\nx: 1\r\n\t2\r\n\r\n",
        ),
        (
            "space before the first field",
            "GET http://{o}/ HTTP/1.1\r\n Host: {o}\r\nHost: {o}\r\n\r\n",
        ),
        (
            "space before the colon",
            "POST http://{o}/ HTTP/1.1\r\nHost: {o}\r\nContent-Length : 4\r\n\r\nbody",
        ),
        (
            "a line without a colon",
            "GET http://{o}/ HTTP/1.1\r\nHost: {o}\r\nnonsense\r\n\r\n",
        ),
        (
            "an empty name",
            "GET http://{o}/ HTTP/1.1\r\nHost: {o}\r\n: 1\r\n\r\n",
        ),
        (
            "a name that is no token",
            "GET http://{o}/ HTTP/1.1\r\nHost: {o}\r\nContent-Length\0: 4\r\n\r\n",
        ),
    ]);
}

#[test]
fn request_lines_that_are_no_request_lines_are_refused() {
    refuse(&[
        (
            "two spaces",
            "GET  http://{o}/ HTTP/1.1\r\nHost: {o}\r\n\r\n",
        ),
        ("a tab", "GET\thttp://{o}/ HTTP/1.1\r\nHost: {o}\r\n\r\n"),
        (
            "a space in the target",
            "GET http://{o}/a b HTTP/1.1\r\nHost: {o}\r\n\r\n",
        ),
        ("no version", "GET http://{o}/\r\nHost: {o}\r\n\r\n"),
        (
            "another version",
            "GET http://{o}/ HTTP/1.2\r\nHost: {o}\r\n\r\n",
        ),
        ("version 2", "GET http://{o}/ HTTP/2.0\r\nHost: {o}\r\n\r\n"),
        (
            "a small version",
            "GET http://{o}/ http/1.1\r\nHost: {o}\r\n\r\n",
        ),
        (
            "user information",
            "GET http://a@{o}/ HTTP/1.1\r\nHost: {o}\r\n\r\n",
        ),
        (
            "a fragment",
            "GET http://{o}/#a HTTP/1.1\r\nHost: {o}\r\n\r\n",
        ),
        (
            "another scheme",
            "GET ftp://{o}/ HTTP/1.1\r\nHost: {o}\r\n\r\n",
        ),
        ("no host", "GET http:///a HTTP/1.1\r\nHost: {o}\r\n\r\n"),
    ]);
}

#[test]
fn hosts_that_contradict_are_refused() {
    refuse(&[
        (
            "two Hosts",
            "GET http://{o}/ HTTP/1.1\r\nHost: {o}\r\nHost: evil.test\r\n\r\n",
        ),
        (
            "two equal Hosts",
            "GET http://{o}/ HTTP/1.1\r\nHost: {o}\r\nHost: {o}\r\n\r\n",
        ),
        ("no Host", "GET http://{o}/ HTTP/1.1\r\n\r\n"),
        (
            "a Host that is none",
            "GET http://{o}/ HTTP/1.1\r\nHost: a b\r\n\r\n",
        ),
        (
            "CONNECT without a port",
            "CONNECT 127.0.0.1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        ),
        (
            "CONNECT with content",
            "CONNECT {o} HTTP/1.1\r\nHost: {o}\r\nContent-Length: 4\r\n\r\nbody",
        ),
        (
            "CONNECT with chunks",
            "CONNECT {o} HTTP/1.1\r\nHost: {o}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ),
    ]);
}

#[test]
fn the_target_of_the_request_line_wins_over_host() {
    let (node, origin) = (Node::forward_proxy(), origins::http());
    let authority = origin.address();
    let mut raw = Raw::connect(node.address("web"));
    // RFC 9112, 3.2.2: the received Host is replaced.
    raw.send(format!(
        "GET http://{authority}/a HTTP/1.1\r\nHost: evil.test\r\n\r\n"
    ));
    assert_eq!(raw.response().0.status(), 200);
    assert_eq!(origin.last().field("host"), Some(authority.to_string()));
    assert_eq!(node.record(|_| true)["target"], format!("{authority}/a"));
}

#[test]
fn origin_form_is_refused_by_a_forward_proxy() {
    let node = Node::forward_proxy();
    let mut raw = Raw::connect(node.address("web"));
    raw.send("GET / HTTP/1.1\r\nHost: video\r\n\r\n");
    let (head, body) = raw.response();
    assert_eq!(head.status(), 400);
    assert!(
        String::from_utf8_lossy(&body).contains("gateway: true"),
        "it says what would mend it: {body:?}"
    );
}

/// Chunked content that is wrong after its head was taken: the origin sees no whole request.
#[test]
fn broken_chunks_end_both_connections() {
    let node = Node::forward_proxy();
    let bodies = [
        ("no size", "\r\nbody\r\n0\r\n\r\n"),
        ("a sign", "+4\r\nbody\r\n0\r\n\r\n"),
        ("a prefix", "0x4\r\nbody\r\n0\r\n\r\n"),
        ("bare LF after the size", "4\nbody\r\n0\r\n\r\n"),
        ("bare LF in an extension", "4;a\nb\r\nbody\r\n0\r\n\r\n"),
        ("CR in an extension", "4;a\rb\r\nbody\r\n0\r\n\r\n"),
        ("a space before the size", " 4\r\nbody\r\n0\r\n\r\n"),
        ("a size too large", "fffffffffffffffff\r\nbody\r\n0\r\n\r\n"),
        ("more than announced", "4\r\nbodyX\r\n0\r\n\r\n"),
        ("bare LF after the content", "4\r\nbody\n0\r\n\r\n"),
    ];
    for (case, body) in bodies {
        let origin = origins::tcp_sink();
        let authority = origin.address();
        let mut raw = Raw::connect(node.address("web"));
        raw.send(format!(
            "POST http://{authority}/ HTTP/1.1\r\nHost: {authority}\r\nTransfer-Encoding: chunked\r\n\r\n"
        ));
        raw.send_if_open(body);
        raw.send_if_open(format!(
            "GET http://{authority}/smuggled HTTP/1.1\r\nHost: {authority}\r\n\r\n"
        ));
        let head = raw.head();
        assert_eq!(head.status(), 400, "{case}: {head:?}");
        let (rest, _) = raw.rest();
        assert!(
            !String::from_utf8_lossy(&rest).contains("HTTP/1.1 "),
            "{case}: a second answer"
        );
        let heard =
            hermes_tests::eventually("the origin's connection ends", || origin.seen().pop());
        let heard = String::from_utf8_lossy(&heard).into_owned();
        assert!(
            !heard.ends_with("0\r\n\r\n") && !heard.contains("smuggled"),
            "{case}: {heard}"
        );
    }
}

#[test]
fn chunk_extensions_end_at_this_hop() {
    let (node, origin) = (Node::forward_proxy(), origins::http());
    let authority = origin.address();
    let mut raw = Raw::connect(node.address("web"));
    raw.send(format!(
        "POST http://{authority}/ HTTP/1.1\r\nHost: {authority}\r\nTransfer-Encoding: chunked\r\n\r\n\
         4;name=\"value\"\r\nbody\r\n0;last\r\n\r\n"
    ));
    let head = raw.head();
    if head.status() == 400 {
        assert_eq!(origin.seen(), [], "refused, or taken off");
    } else {
        assert_eq!(head.status(), 200, "{head:?}");
    }
}

#[test]
fn what_follows_a_refused_connect_is_never_read_as_a_request() {
    let (node, origin) = (Node::forward_proxy(), origins::http());
    let authority = origin.address();
    // RFC 9931: an optimistic client's first bytes may be chosen by someone else.
    let mut raw = Raw::connect(node.address("web"));
    raw.send(format!(
        "CONNECT 10.0.0.1:443 HTTP/1.1\r\nHost: 10.0.0.1:443\r\n\r\n\
         GET http://{authority}/smuggled HTTP/1.1\r\nHost: {authority}\r\n\r\n"
    ));
    let (head, _) = raw.response();
    assert!(head.status() >= 400, "{head:?}");
    assert_eq!(raw.rest().0, b"", "no second answer");
    assert_eq!(origin.seen(), []);
}

#[test]
fn what_follows_a_refused_upgrade_is_never_read_as_a_request() {
    let (node, origin) = (Node::forward_proxy(), origins::http());
    let (authority, proxy) = (origin.address(), node.address("web"));
    let mut raw = Raw::connect(proxy);
    raw.send(format!(
        "GET http://{proxy}/.well-known/masque/udp/10.0.0.1/53/ HTTP/1.1\r\nHost: {proxy}\r\nConnection: Upgrade\r\n\
         Upgrade: connect-udp\r\nCapsule-Protocol: ?1\r\n\r\n\
         GET http://{authority}/smuggled HTTP/1.1\r\nHost: {authority}\r\n\r\n"
    ));
    let (head, _) = raw.response();
    assert!(head.status() >= 400, "{head:?}");
    assert_eq!(raw.rest().0, b"", "no second answer");
    assert_eq!(origin.seen(), []);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let (node, origin) = (Node::forward_proxy(), origins::http());
    let authority = origin.address();
    let mut raw = Raw::connect(node.address("web"));
    let requests: String = (0..5)
        .map(|n| format!("GET http://{authority}/{n} HTTP/1.1\r\nHost: {authority}\r\n\r\n"))
        .collect();
    raw.send(requests);
    for number in 0..5 {
        let (head, body) = raw.response();
        assert_eq!(head.status(), 200);
        assert_eq!(
            serde_json::from_slice::<serde_json::Value>(&body).unwrap()["uri"],
            format!("/{number}")
        );
    }
}

#[test]
fn heads_without_end_are_refused() {
    let node = Node::start(
        "alice",
        r#"
        listeners: { web: { http: 127.0.0.1:0, limits: { head_bytes: 8KiB, fields: 20, head_time: 300ms } } }
        routes: [ { respond: { status: 200 } } ]
        "#,
    );
    let status = |fields: &str| {
        let mut raw = Raw::connect(node.address("web"));
        raw.send_if_open(format!("GET http://a/ HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
        raw.head().status()
    };
    assert_eq!(status(""), 200);
    assert_eq!(status(&format!("x: {}\r\n", "y".repeat(9000))), 431);
    assert_eq!(status(&"x: y\r\n".repeat(30)), 431);
    let mut slow = Raw::connect(node.address("web"));
    slow.send("GET http://a/ HTTP/1.1\r\nHost: a\r\n");
    let (answer, _) = slow.rest();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 408"),
        "{answer}"
    );
}

#[test]
fn hosts_that_contradict_are_refused_over_http_2() {
    let (node, origin) = (Node::forward_proxy(), origins::http());
    let client = Client::connect(node.address("web"));
    let uri = format!("http://{}/", origin.address());
    for hosts in [&["evil.test"][..], &["evil.test", "evil.test"]] {
        let request = hosts.iter().fold(Request::get(&uri), |request, host| {
            request.header("host", *host)
        });
        // Malformed (RFC 9113, 8.3.1): 400, or a reset.
        let answer = client.send(request.body(()).unwrap(), b"");
        assert!(
            answer.as_ref().map_or(true, |answer| answer.status == 400),
            "{hosts:?}: {answer:?}"
        );
    }
    assert_eq!(origin.seen(), []);
}

#[test]
fn a_length_that_a_stream_does_not_keep_poisons_no_connection() {
    let (node, origin) = (Node::forward_proxy(), origins::http());
    let client = Client::connect(node.address("web"));
    let uri = format!("http://{}/post", origin.address());
    for length in ["10", "2"] {
        let request = Request::post(&uri).header("content-length", length);
        let answer = client.send(request.body(()).unwrap(), b"four");
        assert!(
            answer.as_ref().map_or(true, |answer| answer.status >= 400),
            "{length}: {answer:?}"
        );
    }
    let answer = client
        .send(Request::post(&uri).body(()).unwrap(), b"four")
        .unwrap();
    assert_eq!(answer.status, 200);
    assert_eq!(
        serde_json::from_slice::<serde_json::Value>(&answer.body).unwrap()["bytes"],
        4
    );
}

#[test]
fn paths_and_authorities_of_http_2_are_as_strict() {
    let (node, origin) = (Node::forward_proxy(), origins::http());
    let client = Client::connect(node.address("web"));
    for path in ["/../b", "/%2e%2e/b"] {
        let uri = format!("http://{}{path}", origin.address());
        assert_eq!(
            client
                .send(Request::get(&uri).body(()).unwrap(), b"")
                .unwrap()
                .status,
            400,
            "{path}"
        );
    }
    for authority in ["127.0.0.1", "a@127.0.0.1:1", "127.0.0.1:0"] {
        let answer = client.tunnel(authority, &[]);
        assert_eq!(answer.unwrap_err().status, 400, "{authority}");
    }
    assert_eq!(origin.seen(), []);
}
