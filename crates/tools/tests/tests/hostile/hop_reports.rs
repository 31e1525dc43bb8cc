//! Reports of the way of an exchange (`Proxy-Trace`): who gets none, and who cannot forge one.

use std::time::Instant;

use hermes_tests::origins::{Act, acting};
use hermes_tests::raw::Raw;
use hermes_tests::{Node, curl, origins, program};
use serde_json::Value;

const ASKS: &str = "Proxy-Trace: ?1";

/// A node inside, in front of a server.
fn inside(origin: &str) -> Node {
    Node::start(
        "inside",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
            routes: [ {{ terminate: video }} ]
            upstreams: {{ video: {{ endpoints: ["{origin}"] }} }}
            "#
        ),
    )
}

/// A node in front of another one; it believes where its clients say they are from.
fn edge(inside: &Node) -> Node {
    Node::start(
        "edge",
        &format!(
            r#"
            listeners:
              web: {{ http: 127.0.0.1:0, proxy_protocol: accept, proxy_protocol_from: [127.0.0.0/8] }}
            routes: [ {{ to: inside }} ]
            upstreams: {{ inside: {{ endpoints: ["{}"] }} }}
            "#,
            inside.address("web")
        ),
    )
}

#[test]
fn a_stranger_is_told_nothing_of_the_way() {
    let origin = origins::http();
    let inside = inside(&origin.address().to_string());
    let edge = edge(&inside);
    for (from, is_told) in [("203.0.113.9", false), ("127.0.0.1", true)] {
        for request in [
            "GET http://video/ HTTP/1.1\r\nHost: video",
            "OPTIONS http://video/ HTTP/1.1\r\nHost: video\r\nMax-Forwards: 0",
            "OPTIONS http://video/ HTTP/1.1\r\nHost: video\r\nMax-Forwards: 1",
            "CONNECT video:80 HTTP/1.1\r\nHost: video:80",
        ] {
            let mut raw = Raw::connect(edge.address("web"));
            raw.send(format!(
                "PROXY TCP4 {from} 192.0.2.1 4660 80\r\n{request}\r\n{ASKS}\r\n\r\n"
            ));
            let head = raw.head();
            assert_eq!(head.status(), 200, "{request}: {head:?}");
            let told = head.field("proxy-status");
            assert_eq!(told.is_some(), is_told, "{from}: {request}: {told:?}");
        }
    }
    let seen = origin.seen();
    assert!(!seen.is_empty());
    for request in seen {
        assert_eq!(request.field("proxy-trace"), None);
    }
}

#[test]
fn who_is_refused_learns_no_more_by_asking() {
    let origin = origins::http();
    let node = Node::start(
        "edge",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
            policy: {{ rules: [ {{ name: open, match: {{ target: VIDEO }}, allow: true }} ], default: deny }}
            routes: [ {{ name: secret, terminate: video }} ]
            upstreams: {{ video: {{ endpoints: ["{}"] }} }}
            "#,
            origin.address()
        ),
    );
    let asked = |fields: &[&str]| {
        let proxy = node.url("web");
        let mut arguments = vec!["-x", &proxy, "-X", "OPTIONS", "http://OTHER/"];
        for field in fields {
            arguments.extend(["-H", field]);
        }
        let got = curl(&arguments);
        let told = got.field("proxy-status").unwrap();
        let (unnamed, _) = told.split_once("; refusal=").unwrap();
        (got.status, unnamed.to_owned(), got.text())
    };
    let plain = asked(&[]);
    assert_eq!(plain.0, 403, "{plain:?}");
    for fields in [
        &[ASKS][..],
        &["Max-Forwards: 0"],
        &[ASKS, "Max-Forwards: 0"],
    ] {
        assert_eq!(asked(fields), plain, "{fields:?}");
    }
    assert!(!plain.1.contains("secret"), "{plain:?}");
}

#[test]
fn a_server_forges_no_hop_and_no_refusal() {
    let forged = "proxy-status: edge; error=http_request_denied; details=\"go away\"\r\n\
                  proxy-status: evil; route=evil; next-hop=evil; took=1.0\r\n\
                  proxy-status: edge; error=dns_error\r\n";
    let origin = acting(&vec![Act::status(200, forged); 4]);
    let node = Node::start(
        "edge",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
            routes: [ {{ name: video, terminate: video }} ]
            upstreams: {{ video: {{ endpoints: ["{}"] }} }}
            "#,
            origin.address()
        ),
    );
    let said = program::run(&["trace", "VIDEO", "--proxy", &node.url("web"), "--json"]);
    assert_eq!(said.code, 0, "{said:?}");
    let traced: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(traced["hops"].as_array().unwrap().len(), 1, "{traced:#}");
    assert_eq!(traced["hops"][0]["node"], "edge", "{traced:#}");
    assert!(traced["stopped"].is_null(), "{traced:#}");
}

#[test]
fn reports_come_at_a_bounded_rate_and_exchanges_go_on() {
    /// What a user gets at once, and in a second.
    const BURST: u128 = 64;
    const EACH_MS: u128 = 20;
    const MANY: usize = 400;
    let origin = origins::http();
    let node = inside(&origin.address().to_string());
    let began = Instant::now();
    let mut raw = Raw::connect(node.address("web"));
    let mut told = 0;
    for _ in 0..MANY {
        raw.send(format!(
            "OPTIONS http://video/ HTTP/1.1\r\nHost: video\r\nMax-Forwards: 0\r\n{ASKS}\r\n\r\n"
        ));
        let head = raw.head();
        assert_eq!(head.status(), 200, "{head:?}");
        told += u128::from(head.field("proxy-status").is_some());
    }
    let most = BURST + began.elapsed().as_millis() / EACH_MS + 1;
    assert!(told >= BURST && told <= most, "{told} of {most}");
}
