//! CONNECT-IP (RFC 9484): known, and routed by what it asks for. IP packets are not carried yet.

use hermes_tests::raw::Raw;
use hermes_tests::{Node, Pki, h2c, h3c};
use serde_json::Value;

const YAML: &str = r#"
    listeners: { web: { http: 127.0.0.1:0 } }
    routes:
      - { name: bytes, match: { kind: [http, connect] }, respond: { status: 410 } }
      - { name: lab, match: { kind: connect-ip, target: 10.1.0.0/16 }, respond: { status: 403 } }
      - { name: names, match: { target: "*.example.com" }, respond: { status: 409 } }
      - { name: packets, match: { kind: connect-ip }, to: next }
    upstreams: { next: { endpoints: ["127.0.0.1:9"] } }
"#;

/// What CONNECT-IP with these values is answered over HTTP/1.1.
fn ask(node: &Node, values: &str) -> u16 {
    let mut raw = Raw::connect(node.address("web"));
    raw.send(format!(
        "GET /.well-known/masque/ip/{values}/ HTTP/1.1\r\nHost: proxy\r\nConnection: Upgrade\r\nUpgrade: connect-ip\r\n\
         Capsule-Protocol: ?1\r\n\r\n"
    ));
    raw.head().status()
}

#[test]
fn packets_are_routed_by_kind_prefix_and_name() {
    let node = Node::start("edge", YAML);
    for (values, status, route) in [
        ("10.1.2.3/6", 403, "lab"),
        ("10.1.128.0%2F17/*", 403, "lab"),
        ("10.0.0.0%2F8/*", 501, "packets"),
        ("*/*", 501, "packets"),
        ("vpn.example.com/17", 409, "names"),
        ("2001%3Adb8%3A%3A%2F32/58", 501, "packets"),
    ] {
        assert_eq!(ask(&node, values), status, "{values}");
        let record = node.record(|record| record["status"] == status && record["route"] == route);
        assert_eq!(record["kind"], "connect-ip");
    }
    let record = node.record(|record| record["target"] == "2001:db8::/32 protocol 58");
    let reason = record["reason"].as_str().unwrap();
    assert!(
        reason.contains("IP packets are not carried yet"),
        "{reason}"
    );
}

#[test]
fn what_names_no_packets_is_a_bad_request() {
    let node = Node::start("edge", YAML);
    for (values, status) in [
        ("10.1.2.3%2F16/*", 400),
        ("10.1.0.0%2F33/*", 400),
        ("*/256", 400),
        ("10.1.0.0/16/6", 404),
    ] {
        assert_eq!(ask(&node, values), status, "{values}");
    }
}

#[test]
fn every_version_knows_them() {
    let pki = Pki::new();
    let tls = pki.issue(&["127.0.0.1"]).yaml();
    let node = Node::start(
        "edge",
        &YAML.replace(
            "web: { http: 127.0.0.1:0 }",
            &format!(
                "web: {{ http: 127.0.0.1:0 }}, tls: {{ http: 127.0.0.1:0, tls: {{ {tls} }} }}"
            ),
        ),
    );
    let path = "/.well-known/masque/ip/*/*/";

    let client = h2c::Client::connect(node.address("web"));
    let refused = client.extended("connect-ip", &format!("http://proxy{path}"), &[]);
    assert_eq!(refused.err().map(|answer| answer.status), Some(501));

    let lines = [
        (":method", "CONNECT"),
        (":protocol", "connect-ip"),
        (":scheme", "https"),
        (":authority", "proxy"),
        (":path", path),
        ("capsule-protocol", "?1"),
    ];
    let answer: Value = h3c::ask(&pki.ca(), node.address("tls"), &lines);
    assert_eq!(answer["status"], 501, "{answer}");
}
