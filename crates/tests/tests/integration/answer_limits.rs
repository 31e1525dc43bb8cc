//! Bounds of what origins answer: the operator's, and the same over each version of HTTP.

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
