//! `tunnel: { direct }` of a route: the target is reached from here, beside a next proxy or in its place.

use std::net::{SocketAddr, TcpListener};

use hermes_tests::raw::{End, Raw};
use hermes_tests::{Node, origins};

/// A node that leads tunnels to a proxy at `edge`, with these further keys of its route.
fn near(edge: SocketAddr, keys: &str) -> String {
    format!(
        r#"
        listeners: {{ web: {{ http: "127.0.0.1:0" }} }}
        upstreams: {{ edge: {{ endpoints: ["{edge}"] }} }}
        routes: [ {{ to: edge{keys} }} ]
        egress: {{ allow: [127.0.0.0/8] }}
        "#
    )
}

const FALLBACK: &str = ", tunnel: { direct: fallback }";

/// An echo through the node, and the status that it gave.
fn echo(node: &Node, target: SocketAddr) -> Result<(), u16> {
    let opened = Raw::tunnel(node.address("web"), &target.to_string(), "");
    let mut raw = opened.map_err(|head| head.status())?;
    raw.send("hello");
    assert_eq!(raw.exactly(5), b"hello");
    raw.finish();
    assert_eq!(raw.rest(), (Vec::new(), End::Closed));
    Ok(())
}

#[test]
fn a_proxy_that_is_not_there_is_passed_by_where_the_route_says_so_alone() {
    let origin = origins::tcp_echo();
    let unserved = origins::Unserved::new();
    let away = unserved.address();
    let node = Node::start("alice", &near(away, FALLBACK));
    assert_eq!(echo(&node, origin.address()), Ok(()));
    let record = node.record(|record| record["status"] == 200);
    assert_eq!(record["upstream"], "(target)", "{record}");

    let strict = Node::start("alice", &near(away, ""));
    assert_eq!(echo(&strict, origin.address()), Err(502));
    let denied = near(away, FALLBACK).replace("127.0.0.0/8", "10.0.0.0/8");
    let denied = Node::start("alice", &denied);
    assert_eq!(
        echo(&denied, origin.address()),
        Err(502),
        "`egress` counts, and the reason is that of the proxy"
    );
    assert_eq!(origin.connections(), 1);
}

#[test]
fn a_proxy_that_says_no_is_heeded_and_one_that_fails_is_not() {
    let origin = origins::tcp_echo();
    for (answer, expected) in [
        ("403 Forbidden", Err(403)),
        ("407 Proxy Authentication Required", Err(502)),
        ("503 Service Unavailable", Ok(())),
    ] {
        let answer = format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\n\r\n");
        let edge = origins::scripted(&answer);
        for keys in [FALLBACK, ", tunnel: { direct: { after: 10s } }"] {
            let node = Node::start("alice", &near(edge.address(), keys));
            assert_eq!(echo(&node, origin.address()), expected, "{answer} {keys}");
        }
    }
}

#[test]
fn a_proxy_that_is_slow_loses_the_race_and_gets_no_byte_of_the_client() {
    let origin = origins::tcp_echo();
    // It takes a connection and never answers.
    let edge = TcpListener::bind("127.0.0.1:0").unwrap();
    let keys = ", tunnel: { direct: { after: 50ms } }";
    let node = Node::start("alice", &near(edge.local_addr().unwrap(), keys));
    assert_eq!(echo(&node, origin.address()), Ok(()));
    assert_eq!(origin.connections(), 1);

    let mut asked = Raw::from(edge.accept().unwrap().0);
    let head = asked.head();
    assert!(head.line.starts_with("CONNECT"), "{head:?}");
    assert_eq!(asked.rest().0, b"", "and the end");
}

#[test]
fn a_proxy_that_answers_in_its_head_start_has_the_tunnel_alone() {
    let origin = origins::tcp_echo();
    let edge = Node::start(
        "edge",
        r#"
        listeners: { web: { http: "127.0.0.1:0" } }
        routes: [ { terminate: true } ]
        egress: { allow: [127.0.0.0/8] }
        "#,
    );
    let keys = ", tunnel: { direct: { after: 10s } }";
    let node = Node::start("alice", &near(edge.address("web"), keys));
    assert_eq!(echo(&node, origin.address()), Ok(()));
    let record = node.record(|record| record["status"] == 200);
    assert_eq!(record["upstream"], "edge", "{record}");
    assert_eq!(origin.connections(), 1);
}

#[test]
fn a_reload_keeps_connections_from_here_until_the_route_forbids_them() {
    let origin = origins::tcp_echo();
    let unserved = origins::Unserved::new();
    let away = unserved.address();
    let node = Node::start("alice", &near(away, FALLBACK));
    let target = origin.address().to_string();
    let Ok(mut raw) = Raw::tunnel(node.address("web"), &target, "") else {
        panic!("no tunnel");
    };
    raw.send("before");
    assert_eq!(raw.exactly(6), b"before");

    let changed = near(away, ", tunnel: { direct: { after: 1s } }");
    assert_eq!(node.reload(&changed).0, 200);
    raw.send("after");
    assert_eq!(raw.exactly(5), b"after");

    assert_eq!(node.reload(&near(away, "")).0, 200);
    assert_ne!(raw.rest().1, End::Closed, "it is broken off");
}

/// An answer to a request through the node: its status, and the method that the origin saw.
fn ask(node: &Node, method: &str, origin: SocketAddr) -> u16 {
    let mut raw = Raw::connect(node.address("web"));
    raw.send(format!(
        "{method} http://{origin}/page HTTP/1.1\r\nHost: {origin}\r\nContent-Length: 2\r\n\r\nhi"
    ));
    raw.response().0.status()
}

fn methods(origin: &origins::Origin<origins::Request>) -> Vec<String> {
    origin.seen().into_iter().map(|seen| seen.method).collect()
}

const REQUESTS: &str = ", tunnel: { direct: { requests: true } }, retry: { attempts: 1 }";

#[test]
fn a_request_goes_from_here_where_no_proxy_is_there_whatever_its_method() {
    let origin = origins::http();
    let unserved = origins::Unserved::new();
    let node = Node::start(
        "alice",
        &near(
            unserved.address(),
            ", tunnel: { direct: { requests: true } }",
        ),
    );
    assert_eq!(ask(&node, "GET", origin.address()), 200);
    assert_eq!(ask(&node, "POST", origin.address()), 200);
    assert_eq!(methods(&origin), ["GET", "POST"], "each of them once");
    let record = node.record(|record| record["method"] == "POST");
    assert_eq!(record["upstream"], "(target)", "{record}");
    let retries = "hermes_retries_total{upstream=\"edge\",reason=\"direct\"} 2";
    assert!(node.metrics().contains(retries), "{}", node.metrics());

    // It is for tunnels alone unless it says otherwise.
    let tunnels = Node::start("alice", &near(unserved.address(), FALLBACK));
    assert_eq!(ask(&tunnels, "GET", origin.address()), 502);
}

#[test]
fn a_request_that_has_left_goes_out_again_from_here_only_where_that_does_no_harm() {
    let origin = origins::http();
    let says = "Proxy-Status: edge; error=connection_timeout\r\n";
    for (status, fields, method, expected) in [
        ("504 Gateway Timeout", says, "PUT", 200),
        ("504 Gateway Timeout", says, "POST", 504),
        // Of the origin itself, as far as anyone can tell.
        ("500 Internal Server Error", "", "PUT", 500),
        (
            "403 Forbidden",
            "Proxy-Status: edge; error=http_request_denied\r\n",
            "PUT",
            403,
        ),
    ] {
        let answer = format!("HTTP/1.1 {status}\r\n{fields}Content-Length: 0\r\n\r\n");
        let edge = origins::acting(&[origins::Act::Say(answer)]);
        let node = Node::start("alice", &near(edge.address(), REQUESTS));
        origin.forget();
        assert_eq!(
            ask(&node, method, origin.address()),
            expected,
            "{status} {method}"
        );
        let repeated = if expected == 200 {
            vec![method.to_owned()]
        } else {
            vec![]
        };
        assert_eq!(methods(&origin), repeated, "{status} {method}");
        assert_eq!(edge.seen().len(), 1, "{status} {method}");
    }
}

#[test]
fn a_request_leaves_on_the_connection_that_is_ready_first_and_on_no_other() {
    let origin = origins::http();
    // It takes connections, and never says a word of TLS.
    let edge = TcpListener::bind("127.0.0.1:0").unwrap();
    let pki = hermes_tests::Pki::new();
    let yaml = near(
        edge.local_addr().unwrap(),
        ", tunnel: { direct: { after: 50ms, requests: true } }",
    );
    let tls = format!(
        "], http: 2, tls: {{ ca_file: {} }} }} }}",
        pki.ca().display()
    );
    let node = Node::start(
        "alice",
        &yaml.replace("] } }\n        routes", &format!("{tls}\n        routes")),
    );
    assert_eq!(ask(&node, "POST", origin.address()), 200);
    assert_eq!(methods(&origin), ["POST"]);
    let asked = Raw::from(edge.accept().unwrap().0).rest().0;
    assert!(
        !String::from_utf8_lossy(&asked).contains("POST"),
        "{asked:?}"
    );
}

#[test]
fn datagrams_go_from_here_where_the_proxy_is_away_or_slow_each_of_them_once() {
    let slow = TcpListener::bind("127.0.0.1:0").unwrap();
    let unserved = origins::Unserved::new();
    for (edge, keys) in [
        (unserved.address(), FALLBACK),
        (
            slow.local_addr().unwrap(),
            ", tunnel: { direct: { after: 50ms } }",
        ),
    ] {
        let echo = origins::udp_echo(origins::V4);
        let target = echo.address();
        let yaml = near(edge, keys).replace(
            "listeners: { web: { http: \"127.0.0.1:0\" } }",
            &format!("listeners: {{ web: {{ udp: \"127.0.0.1:0\", target: \"{target}\" }} }}"),
        );
        let node = Node::start("alice", &yaml);
        let client = hermes_tests::udp::Client::connect(node.address("web"));
        for word in ["one", "two", "three"] {
            assert_eq!(client.ask(word), word.as_bytes(), "{keys}");
        }
        let seen: Vec<_> = echo.seen().into_iter().map(|(_, word)| word).collect();
        assert_eq!(seen, [&b"one"[..], b"two", b"three"], "{keys}");
        let exchanges = node.exchanges();
        assert_eq!(exchanges[0]["upstream"], "(target)", "{exchanges:?}");
    }
}
