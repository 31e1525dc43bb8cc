//! Bounds of what origins answer: the operator's, and the same over each version of HTTP.

use hermes_tests::raw::Raw;
use hermes_tests::{Node, Pki, curl, origins};

/// A node whose answers have this many fields, over each version of HTTP.
fn origin(fields: usize, pki: &Pki) -> Node {
    let lines: String = (0..fields)
        .map(|number| format!("x-{number}: y, "))
        .collect();
    let tls = pki.issue(&["127.0.0.1"]).yaml();
    Node::start(
        "origin",
        &format!(
            r#"
            listeners:
              web: {{ http: 127.0.0.1:0, gateway: true }}
              quic: {{ http: 127.0.0.1:0, gateway: true, tls: {{ {tls} }} }}
            routes: [ {{ respond: {{ status: 200, body: ok, fields: {{ {lines} }} }} }} ]
            "#
        ),
    )
}

/// The status with which a node answers that reaches this origin over this version, with these limits.
fn status(origin: &Node, version: u8, pki: &Pki, limits: &str) -> u16 {
    let (address, tls) = if version == 3 {
        let ca = pki.ca();
        (
            origin.address("quic"),
            format!(", tls: {{ ca_file: \"{}\" }}", ca.display()),
        )
    } else {
        (origin.address("web"), String::new())
    };
    let node = Node::start(
        "edge",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
            routes: [ {{ terminate: origin }} ]
            upstreams: {{ origin: {{ endpoints: ["{address}"], http: {version}{tls}{limits} }} }}
            "#
        ),
    );
    curl(&["-x", &node.url("web"), "http://origin/"]).status
}

#[test]
fn fields_of_answers_have_one_bound_over_each_version() {
    let pki = Pki::new();
    let origin = origin(300, &pki);
    for version in [1, 2, 3] {
        for (limits, expected) in [
            ("", 200),
            (", limits: { fields: 400 }", 200),
            (", limits: { fields: 200 }", 502),
            (", limits: { head_bytes: 1KiB }", 502),
        ] {
            assert_eq!(
                status(&origin, version, &pki, limits),
                expected,
                "HTTP/{version}{limits}"
            );
        }
    }
}

#[test]
fn a_connection_is_left_before_its_origin_closes_it() {
    for (keep_alive, limits, connections) in [
        ("", "", 1),
        ("Keep-Alive: timeout=60, max=100\r\n", "", 1),
        ("Keep-Alive: timeout=1, max=100\r\n", "", 3),
        ("Keep-Alive: max=100,timeout=0\r\n", "", 3),
        ("", ", limits: { idle_time: 1ms }", 3),
    ] {
        let origin = origins::scripted(&format!(
            "HTTP/1.1 200 OK\r\n{keep_alive}Content-Length: 2\r\n\r\nok"
        ));
        let node = Node::start(
            "edge",
            &format!(
                r#"
                workers: 1
                listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
                routes: [ {{ terminate: origin }} ]
                upstreams: {{ origin: {{ endpoints: ["{}"], http: 1{limits} }} }}
                "#,
                origin.address()
            ),
        );
        for _ in 0..3 {
            assert_eq!(
                curl(&["-x", &node.url("web"), "http://origin/"]).status,
                200
            );
        }
        assert_eq!(origin.connections(), connections, "{keep_alive}{limits}");
    }
}

/// A gateway over each version of HTTP before `origin`; `limits` are those of its listeners. Its own answers are bounded by nothing small.
fn gateway(pki: &Pki, origin: std::net::SocketAddr, limits: &str) -> Node {
    let tls = pki.issue(&["127.0.0.1"]).yaml();
    Node::start(
        "next",
        &format!(
            r#"
            listeners:
              web: {{ http: 127.0.0.1:0, gateway: true{limits} }}
              quic: {{ http: 127.0.0.1:0, gateway: true, tls: {{ {tls} }}{limits} }}
            routes: [ {{ terminate: origin }} ]
            upstreams: {{ origin: {{ endpoints: ["{origin}"], limits: {{ trailer_bytes: 1MiB }} }} }}
            "#
        ),
    )
}

/// A proxy that reaches this gateway over this version, with these limits of its upstream.
fn edge(pki: &Pki, next: &Node, version: u8, limits: &str) -> Node {
    let (address, tls) = if version == 3 {
        let tls = format!(", tls: {{ ca_file: \"{}\" }}", pki.ca().display());
        (next.address("quic"), tls)
    } else {
        (next.address("web"), String::new())
    };
    Node::start(
        "edge",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0, limits: {{ trailer_bytes: 1MiB }} }} }}
            routes: [ {{ terminate: next }} ]
            upstreams: {{ next: {{ endpoints: ["{address}"], http: {version}{tls}{limits} }} }}
            "#
        ),
    )
}

/// Limits, and whether trailers of 2 KiB and of 20 KiB are within them.
const TRAILERS: [(&str, bool, bool); 3] = [
    ("", true, false),
    (", limits: { trailer_bytes: 1KiB }", false, false),
    (", limits: { trailer_bytes: 64KiB }", true, true),
];

#[test]
fn trailers_of_answers_have_one_bound_over_each_version() {
    let pki = Pki::new();
    for (bytes, is_long) in [(2 * 1024, false), (20 * 1024, true)] {
        let sum = "7".repeat(bytes);
        let origin = origins::scripted(&format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-checksum\r\n\r\n2\r\nok\r\n0\r\nx-checksum: {sum}\r\n\r\n"
        ));
        let next = gateway(&pki, origin.address(), "");
        for version in [1, 2, 3] {
            for (limits, short, long) in TRAILERS {
                let node = edge(&pki, &next, version, limits);
                let mut raw = Raw::connect(node.address("web"));
                raw.send("GET http://origin/ HTTP/1.1\r\nHost: origin\r\nTE: trailers\r\nConnection: TE, close\r\n\r\n");
                let answer = String::from_utf8_lossy(&raw.rest().0).into_owned();
                let is_whole = answer.starts_with("HTTP/1.1 200")
                    && answer.ends_with("\r\n\r\n")
                    && answer.contains(&sum);
                let expected = if is_long { long } else { short };
                assert_eq!(
                    is_whole, expected,
                    "HTTP/{version}{limits} {bytes}: {answer:.300}"
                );
            }
        }
    }
}

#[test]
fn trailers_of_requests_have_one_bound_over_each_version() {
    let pki = Pki::new();
    let origin = origins::http();
    for (limits, short, long) in TRAILERS {
        let next = gateway(&pki, origin.address(), limits);
        for version in [1, 2, 3] {
            let node = edge(&pki, &next, version, "");
            for (bytes, expected) in [(2 * 1024, short), (20 * 1024, long)] {
                let sum = "7".repeat(bytes);
                let mut raw = Raw::connect(node.address("web"));
                raw.send(format!(
                    "POST http://origin/post HTTP/1.1\r\nHost: origin\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\
                     Trailer: x-sum\r\n\r\n3\r\nabc\r\n0\r\nx-sum: {sum}\r\n\r\n"
                ));
                let said = String::from_utf8_lossy(&raw.rest().0).into_owned();
                // The origin drops trailers that are longer than it takes itself.
                let is_whole = said.starts_with("HTTP/1.1 200");
                assert_eq!(
                    is_whole, expected,
                    "HTTP/{version}{limits} {bytes}: {said:.300}"
                );
            }
        }
    }
}
