//! What a route changes in the answers that clients get, wherever these come from.

use hermes_tests::raw::Raw;
use hermes_tests::{Node, curl, origins};

const CHANGES: &str = r#"answer: {
    set: { strict-transport-security: max-age=63072000, server: "{node}", x-nil: "{user}" },
    append: { vary: origin },
    remove: [x-powered-by, "content-t*", "content-l*", x-nil] }"#;

#[test]
fn all_answers_of_a_route_are_changed() {
    let changes = CHANGES.replace('\n', " ");
    let origin = origins::scripted(
        "HTTP/1.1 200 OK\r\nServer: old/1.0\r\nX-Powered-By: PHP\r\nX-Nil: a\r\nVary: accept\r\n\
         Content-Type: text/plain\r\nContent-Length: 2\r\n\r\nok",
    );
    let node = Node::start(
        "edge",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0, gateway: true }} }}
            routes:
              - {{ match: {{ path: /here }}, respond: {{ status: 200, body: here, fields: {{ x-powered-by: us }} }}, {changes} }}
              - {{ match: {{ path: /there }}, redirect: {{ location: "http://b/" }}, {changes} }}
              - {{ match: {{ path: /gone }}, terminate: "127.0.0.1:1", {changes} }}
              - {{ match: {{ path: /plain }}, terminate: origin }}
              - {{ terminate: origin, {changes} }}
            upstreams: {{ origin: {{ endpoints: ["{}"] }} }}
            "#,
            origin.address()
        ),
    );

    for (path, status) in [("/here", 200), ("/there", 302), ("/gone", 502), ("/", 200)] {
        let got = curl(&[&format!("{}{path}", node.url("web"))]);
        assert_eq!(got.status, status, "{got:?}");
        let field = |name: &str| got.field(name);
        assert_eq!(
            field("strict-transport-security").as_deref(),
            Some("max-age=63072000"),
            "{path}"
        );
        assert_eq!(field("server").as_deref(), Some("edge"), "{path}");
        assert!(field("vary").unwrap().ends_with("origin"), "{path}");
        for name in ["x-powered-by", "content-type", "x-nil"] {
            assert_eq!(field(name), None, "{path}: {name}");
        }
        // What frames the message is no one's to remove.
        assert!(field("content-length").is_some(), "{path}");
    }
    let got = curl(&[&format!("{}/", node.url("web"))]);
    assert_eq!(
        (got.field("vary").as_deref(), got.text().as_str()),
        (Some("accept, origin"), "ok")
    );

    let plain = curl(&[&format!("{}/plain", node.url("web"))]);
    assert_eq!(plain.field("server").as_deref(), Some("old/1.0"));
    assert_eq!(plain.field("strict-transport-security"), None);
}

#[test]
fn a_switch_of_protocols_has_them_and_a_connect_has_not() {
    let echo = origins::tcp_upgrades();
    let tunnel = origins::tcp_echo();
    let node = Node::start(
        "edge",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0, gateway: true }} }}
            routes:
              - {{ match: {{ kind: upgrade }}, terminate: "{}", answer: {{ set: {{ x-ours: a }} }} }}
              - {{ terminate: "{}", answer: {{ set: {{ x-ours: a }} }} }}
            "#,
            echo.address(),
            tunnel.address()
        ),
    );
    let mut raw = Raw::connect(node.address("web"));
    raw.send(
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    );
    let head = raw.head();
    assert_eq!(
        (head.status(), head.field("x-ours").as_deref()),
        (101, Some("a"))
    );

    let mut raw = Raw::connect(node.address("web"));
    raw.send("CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n");
    let head = raw.head();
    assert_eq!((head.status(), head.field("x-ours")), (200, None));
}
