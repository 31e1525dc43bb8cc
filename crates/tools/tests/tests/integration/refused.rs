//! What becomes of an HTTP/1.1 connection when a request on it is refused.
//!
//! It goes on only if no one can be in doubt where the next request begins: the request was framed well, all of it was read, and
//! it did not ask for a tunnel, whose bytes could be taken for requests (RFC 9112, 9.3; RFC 9931).

use hermes_tests::Node;
use hermes_tests::raw::{End, Raw};

fn node() -> Node {
    Node::start(
        "edge",
        r#"
        listeners: { web: { http: 127.0.0.1:0 } }
        routes: [ { match: { target: a, path: /here }, respond: { status: 200 } } ]
        "#,
    )
}

/// Paths that two implementations could read differently.
const AMBIGUOUS: [&str; 4] = [
    "/x/../../here",
    "/%2e%2e/here",
    "/x/..%2fhere",
    "/x/.;/here",
];

#[test]
fn a_request_refused_for_its_path_leaves_its_connection_in_use() {
    let node = node();
    let mut raw = Raw::connect(node.address("web"));
    for path in AMBIGUOUS {
        raw.send(format!("GET http://a{path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let (head, _) = raw.response();
        assert_eq!(
            (head.status(), head.field("connection")),
            (400, None),
            "{path}: {head:?}"
        );
    }
    // Nor does one that no route takes, or that has no overlay hop left.
    for (request, status) in [
        ("GET http://b/ HTTP/1.1\r\nHost: b\r\n\r\n", 404),
        (
            "GET http://a/here HTTP/1.1\r\nHost: a\r\nVia: 1.1 edge\r\n\r\n",
            508,
        ),
        ("GET http://a/here HTTP/1.1\r\nHost: a\r\n\r\n", 200),
    ] {
        raw.send(request);
        let (head, _) = raw.response();
        assert_eq!(
            (head.status(), head.field("connection")),
            (status, None),
            "{request}: {head:?}"
        );
    }
}

#[test]
fn one_whose_content_was_not_read_closes_it() {
    let node = node();
    let mut raw = Raw::connect(node.address("web"));
    let next = "GET http://a/here HTTP/1.1\r\nHost: a\r\n\r\n";
    raw.send(format!(
        "POST http://a/x/../../here HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{next}{next}",
        2 * next.len()
    ));
    let (head, _) = raw.response();
    assert_eq!(
        (head.status(), head.field("connection").as_deref()),
        (400, Some("close")),
        "{head:?}"
    );
    raw.finish();
    assert_eq!(
        raw.rest(),
        (Vec::new(), End::Closed),
        "the content is no request"
    );
}

#[test]
fn one_that_asked_for_a_tunnel_closes_it() {
    let node = node();
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n";
    let udp = "Connection: Upgrade\r\nUpgrade: connect-udp\r\nCapsule-Protocol: ?1\r\n";
    for (request, status) in [
        (
            "CONNECT b:443 HTTP/1.1\r\nHost: b:443\r\n\r\n".to_owned(),
            404,
        ),
        ("CONNECT b HTTP/1.1\r\nHost: b\r\n\r\n".to_owned(), 400),
        (
            format!("GET http://a/x/../../here HTTP/1.1\r\nHost: a\r\n{upgrade}\r\n"),
            400,
        ),
        (
            format!("GET http://b/ HTTP/1.1\r\nHost: b\r\n{upgrade}\r\n"),
            404,
        ),
        (
            format!("GET http://p/.well-known/masque/udp/b/53/ HTTP/1.1\r\nHost: p\r\n{udp}\r\n"),
            404,
        ),
    ] {
        let mut raw = Raw::connect(node.address("web"));
        // What follows at once, as RFC 9931 forbids, could be bytes that someone else has chosen.
        raw.send(request.clone() + "GET http://a/here HTTP/1.1\r\nHost: a\r\n\r\n");
        let (head, _) = raw.response();
        assert_eq!(
            (head.status(), head.field("connection").as_deref()),
            (status, Some("close")),
            "{request}: {head:?}"
        );
        raw.finish();
        assert_eq!(raw.rest(), (Vec::new(), End::Closed), "{request}");
    }
}
