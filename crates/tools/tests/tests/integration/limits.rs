//! What strangers can cost: bounds on connections, streams, heads and time.

use hermes_tests::eventually::eventually_true;
use hermes_tests::h2c::Client;
use hermes_tests::raw::{End, Raw};
use hermes_tests::{Node, curl, origins};
use http::Request;

/// A node of one worker whose listener has these limits.
fn node(limits: &str) -> Node {
    Node::start(
        "alice",
        &format!(
            "workers: 1\nlisteners: {{ web: {{ http: 127.0.0.1:0, limits: {limits} }} }}\n\
             routes: [ {{ match: {{ path: /here }}, respond: {{ status: 200 }} }}, {{ terminate: true }} ]\n\
             egress: {{ allow: [127.0.0.0/8] }}\n"
        ),
    )
}

#[test]
fn connections_above_the_limit_are_refused_and_room_is_given_back() {
    let node = node("{ connections: 3 }");
    let ask = |raw: &mut Raw| {
        raw.send("GET http://a/here HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(raw.head().status(), 200);
    };
    let mut held: Vec<_> = (0..3).map(|_| Raw::connect(node.address("web"))).collect();
    held.iter_mut().for_each(ask);
    let mut above = Raw::connect(node.address("web"));
    assert_eq!(above.rest(), (Vec::new(), End::Reset));
    held.clear();
    eventually_true("there is room again", || {
        curl(&["-x", &node.url("web"), "http://a/here"]).status == 200
    });
}

#[test]
fn streams_above_the_limit_wait_or_are_refused() {
    let (node, origin) = (node("{ streams: 4 }"), origins::tcp_echo());
    let client = Client::connect(node.address("web"));
    let authority = origin.address().to_string();
    let mut open: Vec<_> = (0..4)
        .map(|_| client.tunnel(&authority, &[]).unwrap())
        .collect();
    for tunnel in &mut open {
        tunnel.send("x");
        assert_eq!(tunnel.exactly(1), b"x");
    }
    assert_eq!(client.streams(), 4, "the setting is announced");
}

#[test]
fn an_idle_connection_is_closed_and_one_in_use_is_not() {
    let (node, origin) = (node("{ idle_time: 200ms }"), origins::tcp_echo());
    let mut tunnel = Raw::tunnel(node.address("web"), &origin.address().to_string(), "").unwrap();
    let mut idle = Raw::connect(node.address("web"));
    idle.send("GET http://a/here HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(idle.head().status(), 200);
    assert_eq!(idle.rest(), (Vec::new(), End::Closed));
    tunnel.send("still here");
    assert_eq!(tunnel.exactly(10), b"still here");
}

#[test]
fn a_client_that_says_nothing_is_not_waited_for() {
    let node = node("{ head_time: 200ms, idle_time: 200ms }");
    let mut silent = Raw::connect(node.address("web"));
    let (said, _) = silent.rest();
    assert!(
        said.is_empty() || said.starts_with(b"HTTP/1.1 408"),
        "{said:?}"
    );
    let mut half = Raw::connect(node.address("web"));
    half.send("PRI * HTTP/2.0\r\n");
    half.rest();
}

#[test]
fn heads_are_bounded_over_http_2_too() {
    let node = node("{ head_bytes: 8KiB, fields: 20 }");
    let client = Client::connect(node.address("web"));
    let request = |fields: usize, length: usize| {
        let mut request = Request::get("http://a/here");
        for number in 0..fields {
            request = request.header(format!("x-{number}"), "y".repeat(length));
        }
        client
            .send(request.body(()).unwrap(), b"")
            .map(|answer| answer.status)
    };
    assert_eq!(request(1, 10).unwrap(), 200);
    for (fields, length) in [(1, 20_000), (60, 10)] {
        let answer = request(fields, length);
        assert!(
            answer.as_ref().map_or(true, |status| *status == 431),
            "{fields} of {length}: {answer:?}"
        );
    }
    assert_eq!(request(1, 10).unwrap(), 200, "the connection goes on");
}

#[test]
fn a_storm_of_resets_does_not_stop_others() {
    let (node, origin) = (node("{ streams: 100 }"), origins::http());
    let attacker = Client::connect(node.address("web"));
    let authority = origin.address().to_string();
    for _ in 0..300 {
        // Rapid reset (CVE-2023-44487): the connection may be ended for it, the node may not.
        if attacker
            .reset_at_once(&format!("http://{authority}/hang"))
            .is_err()
        {
            break;
        }
    }
    let answer = curl(&["-x", &node.url("web"), &format!("http://{authority}/a")]);
    assert_eq!(answer.status, 200, "{answer:?}");
    drop(attacker);
    node.idle();
}

#[test]
fn an_idle_http_2_connection_is_closed_even_if_its_client_does_nothing() {
    let node = node("{ idle_time: 200ms }");
    let mut raw = Raw::connect(node.address("web"));
    // The preface and an empty SETTINGS frame; no frame of the proxy is ever answered.
    raw.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
    raw.rest();
}
