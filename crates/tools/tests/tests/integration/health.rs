//! Which endpoint an exchange goes to, and which endpoints are fit.

use hermes_tests::eventually::{eventually, eventually_true};
use hermes_tests::raw::Raw;
use hermes_tests::{Node, curl, origins, program};
use rustix::process::Signal;
use serde_json::Value;

/// A node whose only upstream has these endpoints and keys; more listeners and keys may follow.
fn node(endpoints: &[String], keys: &str) -> Node {
    Node::start("sap", &file(endpoints, keys, ""))
}

fn file(endpoints: &[String], keys: &str, routes: &str) -> String {
    format!(
        "listeners:\n  web: {{ http: 127.0.0.1:0, user: alice }}\n  side: {{ http: 127.0.0.1:0, user: bob }}\n\
         routes: [ {routes} {{ terminate: video }} ]\n\
         upstreams: {{ video: {{ endpoints: {endpoints:?}, {keys} }} }}\n"
    )
}

/// Sends `count` requests through a listener; the status of the last.
fn send(node: &Node, listener: &str, count: usize) -> u16 {
    let (url, proxy) = (format!("http://VIDEO/[1-{count}]"), node.url(listener));
    let got = curl(&["-x", &proxy, "-H", "connection: close", &url]);
    assert_eq!(got.exit, 0, "{got:?}");
    got.status
}

/// The status of one request.
fn get(node: &Node) -> u16 {
    send(node, "web", 1)
}

fn endpoint(node: &Node, index: usize) -> Value {
    node.status()["upstreams"][0]["endpoints"][index].clone()
}

#[test]
fn each_user_stays_with_one_replica() {
    let replicas = [origins::http(), origins::http()];
    let endpoints: Vec<_> = replicas
        .iter()
        .map(|replica| replica.address().to_string())
        .collect();
    let node = node(&endpoints, "balance: ring_hash, hash: { user: true }");
    for listener in ["web", "side"] {
        let before = replicas.each_ref().map(|replica| replica.seen().len());
        assert_eq!(send(&node, listener, 100), 200);
        let mut counts: Vec<_> = replicas
            .iter()
            .zip(before)
            .map(|(one, before)| one.seen().len() - before)
            .collect();
        counts.sort_unstable();
        assert_eq!(counts, [0, 100], "{listener}");
    }
}

#[test]
fn each_session_stays_with_one_replica() {
    for (keys, name) in [
        ("field: x-session", "x-session"),
        ("cookie: session", "cookie"),
    ] {
        let replicas = [origins::http(), origins::http()];
        let endpoints: Vec<_> = replicas
            .iter()
            .map(|replica| replica.address().to_string())
            .collect();
        let node = node(
            &endpoints,
            &format!("balance: ring_hash, hash: {{ {keys} }}"),
        );
        for session in 0..10 {
            let value = if name == "cookie" {
                format!("a=b; session={session}")
            } else {
                session.to_string()
            };
            let before = replicas.each_ref().map(|replica| replica.seen().len());
            let got = curl(&[
                "-x",
                &node.url("web"),
                "-H",
                &format!("{name}: {value}"),
                "http://VIDEO/[1-5]",
            ]);
            assert_eq!(got.status, 200, "{got:?}");
            let mut counts: Vec<_> = replicas
                .iter()
                .zip(before)
                .map(|(one, before)| one.seen().len() - before)
                .collect();
            counts.sort_unstable();
            assert_eq!(counts, [0, 5], "{name} {session}");
        }
        assert!(
            replicas.iter().all(|replica| !replica.seen().is_empty()),
            "sessions are spread"
        );
    }
}

#[test]
fn an_unhealthy_endpoint_gets_nothing_and_the_status_says_why() {
    let (ill, well) = (origins::http(), origins::http());
    let address = ill.address();
    let health =
        "health: { kind: http, path: /status/204, interval: 50ms, timeout: 1s, unhealthy: 2 }";
    let node = node(&[address.to_string(), well.address().to_string()], health);
    eventually_true("both were checked", || {
        !ill.seen().is_empty() && !well.seen().is_empty()
    });
    drop(ill);
    let found = eventually("it is unhealthy", || {
        Some(endpoint(&node, 0)).filter(|one| one["health"] == "unhealthy")
    });
    let reason = found["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("check: ") && reason.contains("refused"),
        "{reason}"
    );
    assert_eq!(send(&node, "web", 20), 200);
    assert_eq!(endpoint(&node, 0)["failures"], 0, "no exchange tried it");
    let metrics = node.metrics();
    for (health, count) in [("healthy", 1), ("unhealthy", 1), ("ejected", 0)] {
        let line =
            format!("hermes_upstream_endpoints{{upstream=\"video\",health=\"{health}\"}} {count}");
        assert!(metrics.contains(&line), "{line}:\n{metrics}");
    }
    let shown = program::command()
        .args(["status", "--admin"])
        .arg(node.socket())
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(
        shown.contains("unhealthy") && shown.contains("refused"),
        "{shown}"
    );
    let _back = origins::http_on(address);
    eventually_true("it is healthy again", || {
        endpoint(&node, 0)["health"] == "healthy"
    });
}

#[test]
fn an_origin_that_fails_every_request_is_ejected_also_across_a_reload() {
    let ill = origins::scripted("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n");
    let well = origins::http();
    let endpoints = [ill.address().to_string(), well.address().to_string()];
    let eject = "eject: { consecutive: 3, for: 1h }";
    let node = node(&endpoints, eject);
    let failed = (0..12).filter(|_| get(&node) == 503).count();
    assert_eq!((failed, ill.seen().len()), (3, 3));
    let ejected = endpoint(&node, 0);
    assert_eq!(ejected["health"], "ejected");
    assert!(
        ejected["reason"]
            .as_str()
            .unwrap()
            .contains("3 failures in a row, the last: status 503"),
        "{ejected}"
    );
    let more = file(
        &endpoints,
        eject,
        "{ match: { path: /new }, respond: { status: 418 } },",
    );
    let (status, report) = node.reload(&more);
    assert_eq!(
        (status, report["upstreams_changed"].as_array().map(Vec::len)),
        (200, Some(0)),
        "{report}"
    );
    assert_eq!(endpoint(&node, 0)["health"], "ejected");
    assert_eq!((send(&node, "web", 10), ill.seen().len()), (200, 3));
    assert!(node.metrics().contains("health=\"ejected\"} 1"));
}

#[test]
fn a_next_hop_that_dies_is_shown_as_failing_and_told_once() {
    let address = hermes_tests::free::tcp();
    let yaml = format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\nroutes: [ {{ to: next }} ]\nupstreams:\n  \
         users: {{ attached: \"{{target.host}}\" }}\n  next: {{ endpoints: [\"{address}\"] }}\n"
    );
    let node = Node::start("dp", &yaml);
    let next = |node: &Node| node.status()["upstreams"][1]["endpoints"][0].clone();
    let told = |words: &str| node.log().matches(words).count();
    assert_eq!(
        (send(&node, "web", 20), next(&node)["health"].as_str()),
        (502, Some("failing"))
    );
    let reason = next(&node)["reason"].as_str().unwrap().to_owned();
    assert!(
        reason.starts_with("20 of the last 20 attempts failed") && reason.contains("refused"),
        "{reason}"
    );
    assert!(
        node.metrics()
            .contains("hermes_upstream_endpoints{upstream=\"next\",health=\"failing\"} 1")
    );
    assert!(
        node.metrics()
            .contains("hermes_upstream_endpoints{upstream=\"next\",health=\"healthy\"} 0")
    );
    assert_eq!(
        (told("the next hop fails"), told("works again")),
        (1, 0),
        "{}",
        node.log()
    );
    assert!(
        node.log()
            .contains("there is no other endpoint: each exchange tries it again"),
        "{}",
        node.log()
    );
    let shown = program::command()
        .args(["status", "--admin"])
        .arg(node.socket())
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(
        shown
            .lines()
            .any(|line| line.starts_with(" next  ") && line.contains("failing")),
        "{shown}"
    );
    assert!(
        shown
            .lines()
            .any(|line| line.starts_with(" users  ") && line.contains("{target.host}")),
        "{shown}"
    );
    let _back = origins::http_on(address);
    assert_eq!(
        (send(&node, "web", 30), next(&node)["health"].as_str()),
        (200, Some("healthy"))
    );
    assert_eq!(
        (told("the next hop fails"), told("works again")),
        (1, 1),
        "{}",
        node.log()
    );
}

#[test]
fn an_exchange_above_the_limit_is_refused_with_its_reason() {
    let origin = origins::http();
    let node = node(
        &[origin.address().to_string()],
        "limits: { streams: 1, pending: 0 }",
    );
    let mut held = Raw::connect(node.address("web"));
    held.send("GET http://VIDEO/hang HTTP/1.1\r\nHost: VIDEO\r\n\r\n");
    eventually_true("it is held", || !origin.seen().is_empty());
    let refused = curl(&["-x", &node.url("web"), "http://VIDEO/"]);
    assert_eq!(refused.status, 503);
    let reason = refused.field("proxy-status").unwrap();
    assert!(
        reason.contains("error=connection_limit_reached"),
        "{reason}"
    );
    assert!(
        node.metrics()
            .contains("hermes_upstream_refused_total{upstream=\"video\"} 1")
    );
    origin.release();
    assert_eq!(held.head().status(), 200);
    eventually_true("there is room again", || {
        curl(&["-x", &node.url("web"), "http://VIDEO/"]).status == 200
    });
}

#[test]
fn exchanges_leave_a_proxy_that_says_nothing_any_more_although_no_one_asked_for_it() {
    let proxy = |name: &str| {
        let rules = "routes: [ { respond: { status: 200 } } ]\n";
        Node::start(
            name,
            &format!("listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\n{rules}"),
        )
    };
    let (silent, well) = (proxy("silent"), proxy("well"));
    let yaml = format!(
        "workers: 1\nlisteners: {{ web: {{ http: 127.0.0.1:0 }} }}\nroutes: [ {{ to: next }} ]\n\
         upstreams: {{ next: {{ endpoints: [\"{}\", \"{}\"], http: 2 }} }}\n",
        silent.address("web"),
        well.address("web")
    );
    let node = Node::start("dp", &yaml);
    assert_eq!(send(&node, "web", 4), 200);
    silent.signal(Signal::STOP);
    // One of them waits on the dead link, and moves when the PING has had no answer; later ones do not try it again.
    for _ in 0..4 {
        assert_eq!(get(&node), 200, "the proxy that is left answers");
    }
    let moved = node
        .access()
        .into_iter()
        .filter(|record| record["attempts"] == 2)
        .count();
    assert_eq!(moved, 1);
    silent.signal(Signal::CONT);
}

#[test]
fn exchanges_leave_a_peer_that_says_nothing_any_more() {
    let peer = |name: &str| {
        let routes = "routes: [ { respond: { status: 200 } } ]\n";
        Node::start(
            name,
            &format!("listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\n{routes}"),
        )
    };
    let (silent, well) = (peer("silent"), peer("well"));
    let endpoints = [
        silent.address("web").to_string(),
        well.address("web").to_string(),
    ];
    let keys = "http: 2, keepalive: { every: 50ms, timeout: 300ms }";
    let node = Node::start("dp", &format!("workers: 1\n{}", file(&endpoints, keys, "")));
    assert_eq!(send(&node, "web", 4), 200);
    silent.signal(Signal::STOP);
    for _ in 0..6 {
        assert_eq!(get(&node), 200, "the peer that is left answers");
    }
    silent.signal(Signal::CONT);
}
