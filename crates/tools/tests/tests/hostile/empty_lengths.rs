//! `Content-Length: 0` where a tunnel begins, as WinINet sends it: it opens, over every version, and the next hop sees no length.

use hermes_tests::h2c::Client;
use hermes_tests::raw::Raw;
use hermes_tests::{Node, origins};

use crate::versions::Versions;

#[test]
fn connect_opens_with_a_length_of_zero_and_stays_refused_with_content() {
    let origin = origins::tcp_echo();
    let authority = origin.address().to_string();
    let end = Node::forward_proxy();
    for version in [1, 2] {
        let first = Node::start(
            "first",
            &format!(
                r#"
                listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
                routes: [ {{ to: end }} ]
                upstreams: {{ end: {{ endpoints: ["{}"], http: {version} }} }}
                "#,
                end.address("web")
            ),
        );
        let proxy = first.address("web");
        let mut tunnel = Raw::tunnel(proxy, &authority, "Content-Length: 0\r\n").unwrap();
        tunnel.send("h1");
        assert_eq!(tunnel.exactly(2), b"h1");
        let mut tunnel = Client::connect(proxy)
            .tunnel(&authority, &[("content-length", "0")])
            .unwrap();
        tunnel.send("h2");
        assert_eq!(tunnel.exactly(2), b"h2");

        for content in [
            "Content-Length: 4\r\n",
            "Transfer-Encoding: chunked\r\n",
            "Content-Length: 0\r\nContent-Length: 0\r\n",
        ] {
            let refused = Raw::tunnel(proxy, &authority, content).unwrap_err();
            assert_eq!(refused.status(), 400, "{content}");
        }
    }
}

#[test]
fn an_upgrade_happens_with_a_length_of_zero() {
    let origin = origins::scripted(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: chat\r\n\r\n",
    );
    let rest = format!(
        "routes: [ {{ terminate: origin, upgrades: [chat] }} ]\nupstreams: {{ origin: {{ endpoints: [\"{}\"] }} }}\n",
        origin.address()
    );
    let node = Versions::start("", &rest);
    let came = node.h1(
        "GET",
        "origin",
        "/",
        &[
            ("Connection", "upgrade"),
            ("Upgrade", "chat"),
            ("Content-Length", "0"),
        ],
    );
    assert_eq!(came.status, 101, "{came:?}");
    let came = node.h3_lines(&[
        (":method", "CONNECT"),
        (":protocol", "chat"),
        (":scheme", "http"),
        (":authority", "origin"),
        (":path", "/"),
        ("content-length", "0"),
    ]);
    assert_eq!(came.status, 200, "{came:?}");
    assert!(
        origin
            .seen()
            .iter()
            .all(|head| !head.to_lowercase().contains("content-length")),
        "{:?}",
        origin.seen()
    );
}

#[test]
fn connect_udp_opens_with_a_length_of_zero() {
    let echo = origins::udp_echo(origins::V4);
    let node = Node::forward_proxy();
    let mut raw = Raw::connect(node.address("web"));
    raw.send(format!(
        "GET /.well-known/masque/udp/127.0.0.1/{}/ HTTP/1.1\r\nHost: proxy\r\nConnection: upgrade\r\n\
         Upgrade: connect-udp\r\nCapsule-Protocol: ?1\r\nContent-Length: 0\r\n\r\n",
        echo.address().port()
    ));
    assert_eq!(raw.head().status(), 101);
}
