//! The opening handshake (RFC 6455, section 4) at one hop.

use hermes_tests::raw::Raw;
use hermes_tests::{Node, h2c, origins};

/// RFC 6455, section 1.3.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

fn ask(node: &Node, authority: &str, key: &str) -> Raw {
    let mut raw = Raw::connect(node.address("web"));
    raw.send(format!(
        "GET http://{authority}/chat HTTP/1.1\r\nHost: {authority}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\n{key}\r\n"
    ));
    raw
}

#[test]
fn the_key_of_the_client_is_answered() {
    let (node, origin) = (Node::forward_proxy(), origins::tcp_upgrades());
    let mut raw = ask(
        &node,
        &origin.address().to_string(),
        &format!("Sec-WebSocket-Key: {KEY}\r\n"),
    );
    let head = raw.head();
    assert_eq!(
        (head.status(), head.field("sec-websocket-accept").as_deref()),
        (101, Some(ACCEPT)),
        "{head:?}"
    );
}

#[test]
fn a_bad_key_is_refused() {
    let (node, origin) = (Node::forward_proxy(), origins::tcp_upgrades());
    let authority = origin.address().to_string();
    for key in [
        "Sec-WebSocket-Key: short\r\n".to_owned(),
        format!("Sec-WebSocket-Key: {KEY}\r\n").repeat(2),
    ] {
        let head = ask(&node, &authority, &key).head();
        assert_eq!(head.status(), 400, "{head:?}");
    }
    assert_eq!(origin.connections(), 0);
}

#[test]
fn an_origin_with_the_wrong_answer_is_a_failure() {
    let node = Node::forward_proxy();
    for accept in ["", "Sec-WebSocket-Accept: AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\n"] {
        let origin = origins::scripted(&format!(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n{accept}\r\n"
        ));
        let authority = origin.address().to_string();
        let head = ask(&node, &authority, &format!("Sec-WebSocket-Key: {KEY}\r\n")).head();
        assert_eq!(head.status(), 502, "{head:?}");
        assert!(
            head.field("proxy-status")
                .unwrap()
                .contains("error=http_protocol_error"),
            "{head:?}"
        );
        let client = h2c::Client::connect(node.address("web"));
        let answer = client
            .extended("websocket", &format!("http://{authority}/chat"), &[])
            .unwrap_err();
        assert_eq!(answer.status, 502, "{answer:?}");
    }
}

#[test]
fn a_key_that_a_proxy_carried_through_h2_is_answered() {
    let (node, origin) = (Node::forward_proxy(), origins::tcp_upgrades());
    let client = h2c::Client::connect(node.address("web"));
    let uri = format!("http://{}/chat", origin.address());
    let tunnel = client
        .extended("websocket", &uri, &[("sec-websocket-key", KEY)])
        .unwrap();
    assert_eq!(tunnel.fields.get("sec-websocket-accept").unwrap(), ACCEPT);
    let tunnel = client.extended("websocket", &uri, &[]).unwrap();
    assert!(
        tunnel.fields.get("sec-websocket-accept").is_none(),
        "{:?}",
        tunnel.fields
    );
}

#[test]
fn a_refused_handshake_keeps_its_answer() {
    let node = Node::forward_proxy();
    let origin = origins::scripted(
        "HTTP/1.1 426 Upgrade Required\r\nSec-WebSocket-Version: 13\r\nContent-Length: 0\r\n\r\n",
    );
    let head = ask(
        &node,
        &origin.address().to_string(),
        &format!("Sec-WebSocket-Key: {KEY}\r\n"),
    )
    .head();
    assert_eq!(
        (
            head.status(),
            head.field("sec-websocket-version").as_deref()
        ),
        (426, Some("13")),
        "{head:?}"
    );
}
