//! The PROXY protocol: from HAProxy, to HAProxy and nginx, and by hand.

use std::net::SocketAddr;

use hermes_tests::head::unnamed;
use hermes_tests::raw::{End, Raw};
use hermes_tests::{Haproxy, Nginx, Node, curl, free, origins};

const BINARY: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// A node that answers with 204, says in `x-peer` who asked, and takes headers from these prefixes.
fn node(from: &str) -> Node {
    Node::start(
        "edge",
        &format!(
            r#"
            listeners:
              web: {{ http: 127.0.0.1:0, gateway: true, proxy_protocol: accept, proxy_protocol_from: [{from}] }}
              port: {{ tcp: 127.0.0.1:0, target: "ECHO:7", proxy_protocol: accept, proxy_protocol_from: [{from}] }}
            routes:
              - {{ match: {{ target: "ECHO:7" }}, terminate: echo }}
              - {{ match: {{ target: CLOSED }}, terminate: closed }}
              - {{ respond: {{ status: 204 }} }}
            upstreams:
              echo: {{ endpoints: ["{}"] }}
              closed: {{ endpoints: ["127.0.0.1:1"] }}
            "#,
            ECHO.address()
        ),
    )
}

static ECHO: std::sync::LazyLock<origins::Origin<Vec<u8>>> =
    std::sync::LazyLock::new(origins::tcp_echo);

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: video\r\n\r\n";

/// Asks behind this header; who asked, or `None` if there was no answer. (A reset may show in a write or in a read.)
fn ask(node: &Node, header: &[u8]) -> Option<String> {
    let mut raw = Raw::connect(node.address("web"));
    // One packet or many make no difference.
    for piece in header.chunks(7) {
        raw.send_if_open(piece);
    }
    raw.send_if_open(GET);
    raw.finish();
    let (answer, _) = raw.rest();
    if answer.is_empty() {
        return None;
    }
    assert!(
        answer.starts_with(b"HTTP/1.1 204 "),
        "{}",
        String::from_utf8_lossy(&answer)
    );
    Some(
        node.record(|record| record["status"] == 204)["source"]
            .as_str()
            .unwrap()
            .to_owned(),
    )
}

#[test]
fn the_client_is_whom_the_header_names() {
    let four = [
        &[0x21, 0x11, 0, 12, 203, 0, 113, 9, 192, 0, 2, 1][..],
        &[0x12, 0x34, 0, 80],
    ]
    .concat();
    let tlv = [
        &[0x21, 0x11, 0, 16, 203, 0, 113, 9, 192, 0, 2, 1][..],
        &[0x12, 0x34, 0, 80],
        &[4, 0, 1, 0],
    ]
    .concat();
    for (header, client) in [
        (
            b"PROXY TCP4 203.0.113.9 192.0.2.1 4660 80\r\n".to_vec(),
            "203.0.113.9:4660",
        ),
        (
            b"PROXY TCP6 2001:db8::9 2001:db8::1 4660 80\r\n".to_vec(),
            "[2001:db8::9]:4660",
        ),
        ([BINARY, &four].concat(), "203.0.113.9:4660"),
        ([BINARY, &tlv].concat(), "203.0.113.9:4660"),
    ] {
        assert_eq!(ask(&node("127.0.0.0/8"), &header).as_deref(), Some(client));
    }
}

#[test]
fn each_client_behind_a_balancer_has_a_bound_of_its_own() {
    let node = Node::start(
        "edge",
        r#"
        listeners:
          web:
            http: 127.0.0.1:0
            gateway: true
            proxy_protocol: accept
            proxy_protocol_from: [127.0.0.0/8]
            limits: { per_source: 1 }
        routes: [ { respond: { status: 204 } } ]
        "#,
    );
    let connect = |client: &str| {
        let mut raw = Raw::connect(node.address("web"));
        raw.send(format!("PROXY TCP4 {client} 192.0.2.1 4660 80\r\n"));
        raw.send_if_open(GET);
        raw
    };
    let (mut one, mut other) = (connect("203.0.113.9"), connect("203.0.113.10"));
    assert_eq!((one.head().status(), other.head().status()), (204, 204));
    // The reset may have told the write already; then the read finds only an end.
    let (answer, end) = connect("203.0.113.9").rest();
    assert!(
        answer.is_empty() && matches!(end, End::Reset | End::Closed),
        "{answer:?} {end:?}"
    );
}

#[test]
fn a_health_check_keeps_its_own_address() {
    for header in [
        &[BINARY, &[0x20, 0, 0, 0]].concat()[..],
        b"PROXY UNKNOWN\r\n",
    ] {
        let source = ask(&node("127.0.0.0/8"), header).unwrap();
        assert!(source.starts_with("127.0.0.1:"), "{source}");
    }
}

#[test]
fn what_begins_with_something_else_is_reset() {
    let node = node("127.0.0.0/8");
    let beyond = [
        BINARY,
        &[
            0x21, 0x11, 0, 15, 1, 1, 1, 1, 2, 2, 2, 2, 0, 1, 0, 2, 4, 0, 9,
        ],
    ]
    .concat();
    for header in [
        &b""[..],
        b"PROXY TCP4 one two 3 4\r\n",
        b"PROXY TCP4 1.1.1.1 2.2.2.2 1 70000\r\n",
        &beyond,
    ] {
        assert_eq!(ask(&node, header), None, "{header:?}");
    }
    assert!(node.access().is_empty(), "nothing became an exchange");
}

#[test]
fn no_one_else_may_claim_to_be_someone() {
    let node = node("10.0.0.7/32");
    assert_eq!(ask(&node, b"PROXY TCP4 10.0.0.7 192.0.2.1 1 80\r\n"), None);
    assert_eq!(ask(&node, b""), None, "without a header, too");
    let mut raw = Raw::connect(node.address("port"));
    raw.send_if_open(b"PROXY TCP4 10.0.0.7 192.0.2.1 1 80\r\nhello");
    assert_eq!(raw.rest().0, b"");
    assert!(node.access().is_empty(), "nothing became an exchange");
}

#[test]
fn a_listener_that_does_not_accept_headers_believes_none() {
    let node = Node::start(
        "edge",
        "listeners: { web: { http: 127.0.0.1:0, gateway: true } }\nroutes: [ { respond: { status: 204 } } ]\n",
    );
    for header in [
        &b"PROXY TCP4 10.0.0.7 192.0.2.1 1 80\r\n"[..],
        &[BINARY, &[0x20, 0, 0, 0]].concat(),
    ] {
        let mut raw = Raw::connect(node.address("web"));
        raw.send_if_open([header, GET].concat());
        assert!(
            raw.head().line.starts_with("HTTP/1.1 400"),
            "a header is no request"
        );
    }
    assert!(node.access().is_empty());
}

#[test]
fn strangers_learn_the_kind_of_a_failure_and_no_more() {
    let node = node("127.0.0.0/8");
    let fail = |header: &str| {
        let mut raw = Raw::connect(node.address("web"));
        raw.send(format!(
            "{header}\r\nGET / HTTP/1.1\r\nHost: closed\r\n\r\n"
        ));
        let (head, content) = raw.response();
        assert_eq!(head.status(), 502, "{head:?}");
        (
            head.field("proxy-status").unwrap(),
            String::from_utf8(content).unwrap(),
        )
    };
    let (status, content) = fail("PROXY TCP4 203.0.113.9 192.0.2.1 4660 80");
    // With this name, the operator finds the reason.
    assert_eq!(unnamed(&status), "edge; error=connection_refused");
    assert_eq!(content, "edge: connection_refused\n");
    let (status, content) = fail("PROXY UNKNOWN");
    assert!(
        status.contains("next-hop=\"127.0.0.1:1\"; details="),
        "{status}"
    );
    assert!(
        content.starts_with("edge: connection_refused: "),
        "{content}"
    );
    let record = node.record(|record| record["source"] == "203.0.113.9:4660");
    assert!(
        record["reason"]
            .as_str()
            .unwrap()
            .starts_with("connection_refused: "),
        "{record}"
    );
}

/// An edge for strangers in front of a node inside, which explains itself to the edge.
#[test]
fn strangers_do_not_learn_what_a_node_inside_says() {
    let inside = Node::start(
        "inside",
        "listeners: { web: { http: 127.0.0.1:0 } }\nroutes: [ { terminate: closed } ]\nupstreams: { closed: { endpoints: [\"127.0.0.1:1\"] } }\n",
    );
    for explain in [false, true] {
        let edge = Node::start(
            "edge",
            &format!(
                r#"
                listeners:
                  web:
                    http: 127.0.0.1:0
                    explain: {explain}
                    proxy_protocol: accept
                    proxy_protocol_from: [127.0.0.0/8]
                routes: [ {{ to: inside }} ]
                upstreams: {{ inside: {{ endpoints: ["{}"] }} }}
                "#,
                inside.address("web")
            ),
        );
        for request in [
            "GET http://video/ HTTP/1.1\r\nHost: video",
            "CONNECT video:80 HTTP/1.1\r\nHost: video:80",
        ] {
            let mut raw = Raw::connect(edge.address("web"));
            raw.send(format!(
                "PROXY TCP4 203.0.113.9 192.0.2.1 4660 80\r\n{request}\r\n\r\n"
            ));
            let (head, content) = raw.response();
            let status = head.field("proxy-status").unwrap();
            assert_eq!(head.status(), 502, "{head:?}");
            assert_eq!(
                unnamed(&status) == "inside; error=connection_refused",
                !explain,
                "{status}"
            );
            assert_eq!(
                content.is_empty(),
                !explain,
                "{}",
                String::from_utf8_lossy(&content)
            );
        }
    }
}

#[test]
fn haproxy_introduces_its_clients() {
    for send in [
        "send-proxy",
        "send-proxy-v2",
        "send-proxy-v2 proxy-v2-options crc32c,unique-id",
    ] {
        let node = node("127.0.0.0/8");
        let balancer = |listener: &str| {
            Haproxy::start(&format!(
                "defaults\n  mode tcp\n  timeout connect 5s\n  timeout client 30s\n  timeout server 30s\n\
                 listen all\n  bind ADDRESS\n  unique-id-format %pid\n  server hermes {} {send}\n",
                node.address(listener)
            ))
        };
        let web = balancer("web");
        let mut raw = Raw::connect(web.address());
        let client = raw.local().to_string();
        raw.send(GET);
        assert_eq!(raw.head().status(), 204, "{send}");
        node.record(|record| record["source"] == *client);
        let port = balancer("port");
        let mut raw = Raw::connect(port.address());
        let client = raw.local().to_string();
        raw.send("hello");
        assert_eq!(raw.exactly(5), b"hello", "{send}");
        raw.finish();
        assert_eq!(raw.rest(), (Vec::new(), End::Closed));
        node.record(|record| record["source"] == *client);
    }
}

/// A node whose tunnels, and whose messages, end at `endpoint`, which wants headers.
fn introducing(endpoint: SocketAddr, version: u8) -> Node {
    Node::start(
        "sap",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
            routes: [ {{ terminate: origin }} ]
            upstreams: {{ origin: {{ endpoints: ["{endpoint}"], proxy_protocol: {version} }} }}
            "#
        ),
    )
}

#[test]
fn nginx_learns_whose_a_tunnel_is() {
    let port = free::tcp();
    let server = format!(
        "listen {port} proxy_protocol; location / {{ return 200 \"$proxy_protocol_addr $proxy_protocol_port\"; }}"
    );
    let _nginx = Nginx::start(&server, |_| {});
    for version in [1, 2] {
        let node = introducing(port, version);
        let mut tunnel = Raw::tunnel(node.address("web"), "nginx:80", "").unwrap();
        tunnel.send("GET / HTTP/1.1\r\nHost: nginx\r\n\r\n");
        let (head, content) = tunnel.response();
        assert_eq!(head.status(), 200, "{head:?}");
        let local = tunnel.local();
        assert_eq!(
            String::from_utf8(content).unwrap(),
            format!("{} {}", local.ip(), local.port())
        );
        // A kept connection is no one's.
        let got = curl(&["-x", &node.url("web"), "http://nginx/"]);
        assert_eq!((got.exit, got.status), (0, 200), "{got:?}");
    }
}

#[test]
fn haproxy_learns_whose_a_tunnel_is() {
    let haproxy = Haproxy::start(
        "defaults\n  mode http\n  timeout connect 5s\n  timeout client 30s\n  timeout server 30s\n\
         frontend all\n  bind ADDRESS accept-proxy\n  http-request return status 200 content-type text/plain lf-string \"%[src] %[src_port]\"\n",
    );
    for version in [1, 2] {
        let node = introducing(haproxy.address(), version);
        let mut tunnel = Raw::tunnel(node.address("web"), "haproxy:80", "").unwrap();
        tunnel.send("GET / HTTP/1.1\r\nHost: haproxy\r\n\r\n");
        let (_, content) = tunnel.response();
        let local = tunnel.local();
        assert_eq!(
            String::from_utf8(content).unwrap(),
            format!("{} {}", local.ip(), local.port())
        );
        let got = curl(&["-x", &node.url("web"), "http://haproxy/"]);
        assert_eq!((got.exit, got.status), (0, 200), "{got:?}");
    }
}
