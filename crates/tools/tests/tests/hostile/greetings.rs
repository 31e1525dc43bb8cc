//! Clients that speak something else than the port does.

use hermes_tests::eventually::eventually_true;
use hermes_tests::raw::{End, Raw};
use hermes_tests::{Node, curl};

fn node() -> Node {
    Node::start(
        "edge",
        "listeners: { web: { http: 127.0.0.1:0 } }\nroutes: [ { respond: { status: 204 } } ]\n",
    )
}

/// What a client that says this is answered.
fn answer(node: &Node, greeting: &[u8]) -> Vec<u8> {
    let mut raw = Raw::connect(node.address("web"));
    raw.send(greeting);
    let (answer, end) = raw.rest();
    assert_eq!(end, End::Closed);
    answer
}

#[test]
fn socks_is_refused_in_its_own_words() {
    let node = node();
    assert_eq!(answer(&node, &[5, 1, 0]), [5, 0xff]);
    assert_eq!(
        answer(&node, b"\x04\x01\0\x50\x7f\0\0\x01user\0"),
        [0, 0x5b, 0, 0, 0, 0, 0, 0]
    );
    let got = curl(&["--socks5", &node.address("web").to_string(), "http://a/"]);
    assert_eq!(got.exit, 97, "curl knows that the proxy refused: {got:?}");
    eventually_true("the log says what to do", || {
        node.log()
            .contains("set it as an HTTP proxy, or give the node a `socks` listener")
    });
    assert_eq!(
        node.log().matches("refused:").count(),
        1,
        "once in a while, not each time"
    );
}

#[test]
fn tls_and_proxy_headers_are_answered_with_400_and_said_in_the_log() {
    let node = node();
    let hello = [&[0x16, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3][..], &[7; 189]].concat();
    assert!(answer(&node, &hello).starts_with(b"HTTP/1.1 400 "));
    let got = curl(&[
        "-k",
        "-x",
        &format!("https://{}", node.address("web")),
        "http://a/",
    ]);
    assert_eq!(
        got.exit, 35,
        "a TLS error, which names the version: {got:?}"
    );
    eventually_true("the log says what to do", || {
        node.log().contains("use http:// for this proxy")
    });
    let header = "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\nGET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n";
    assert!(answer(&node, header.as_bytes()).starts_with(b"HTTP/1.1 400 "));
    assert!(node.access().is_empty(), "nothing became an exchange");
}

#[test]
fn a_websocket_in_origin_form_is_told_what_to_do() {
    let node = node();
    let mut raw = Raw::connect(node.address("web"));
    raw.send("GET http://a/plain HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(raw.head().status(), 204);
    raw.send(
        "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    );
    let (head, _) = raw.response();
    assert_eq!(head.status(), 400);
    let status = head.field("proxy-status").unwrap();
    assert!(
        status.contains("CONNECT") && status.contains("wss://"),
        "{status}"
    );
}
