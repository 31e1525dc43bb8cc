//! Endpoints that are not healthy get no copy, and trailers.

use hermes_tests::eventually::eventually_true;
use hermes_tests::origins;
use hermes_tests::raw::Raw;

use super::{Node, Origins, broadcast, node, node_with};

/// Three endpoints of which the last is found ill.
fn with_one_ill(rule: &str) -> (Origins, Node) {
    let origins = Origins::start();
    let health =
        "health: { kind: http, path: /status/204, interval: 50ms, timeout: 1s, unhealthy: 1 }";
    let gone = origins::http();
    let address = gone.address();
    let [one, two, _] = origins.0.each_ref().map(origins::Origin::address);
    let node = node_with(
        &format!("endpoints: [\"{one}\", \"{two}\", \"{address}\"], {health}"),
        rule,
    );
    drop(gone);
    unhealthy(&node, 1);
    (origins, node)
}

/// Waits until this many endpoints are unhealthy.
fn unhealthy(node: &Node, count: usize) {
    eventually_true("they are unhealthy", || {
        let status = node.status();
        let endpoints = status["upstreams"][0]["endpoints"]
            .as_array()
            .unwrap()
            .clone();
        endpoints
            .iter()
            .filter(|endpoint| endpoint["health"] == "unhealthy")
            .count()
            == count
    });
}

/// Copies that the origins have seen; checks do not count.
fn copies(origins: &Origins) -> usize {
    let all = origins.0.iter().flat_map(origins::Origin::seen);
    all.filter(|request| request.path != "/status/204").count()
}

#[test]
fn an_endpoint_that_is_not_healthy_gets_no_copy_and_does_not_count() {
    let (origins, node) = with_one_ill("{ users: [alice], reply: { quorum: 2 } }");
    assert_eq!(broadcast(&node, &["http://video/x"]).status, 200);
    assert_eq!(copies(&origins), 2);
    let record = node.record(|record| record["status"] == 200);
    assert_eq!(
        record["reason"],
        "done: 2 of 2 copies succeeded, 1 not asked"
    );
    let metrics = node.metrics();
    let unasked = "hermes_broadcast_copies_total{route=\"routes[0]\",outcome=\"unasked\"} 1";
    assert!(metrics.contains(unasked), "{metrics}");
    let status = node.status();
    assert_eq!(
        status["upstreams"][0]["endpoints"][2]["failures"], 0,
        "no copy tried it"
    );
}

#[test]
fn a_quorum_that_cannot_be_reached_is_refused_before_anybody_is_asked() {
    let (origins, node) = with_one_ill("{ users: [alice], reply: { quorum: 3 } }");
    let got = broadcast(&node, &["-d", "x", "http://video/x"]);
    assert_eq!(got.status, 503);
    let status = got.field("proxy-status").unwrap();
    assert!(status.contains("error=destination_unavailable"), "{status}");
    assert!(
        status.contains("2 of 3 endpoints are healthy, 3 wanted"),
        "{status}"
    );
    assert_eq!(copies(&origins), 0);
}

#[test]
fn all_replies_have_a_part_for_who_was_not_asked() {
    let (_origins, node) = with_one_ill("{ users: [alice], reply: all }");
    let got = broadcast(&node, &["http://video/x"]);
    let text = got.text();
    let ill = "X-Hermes-Copy: shards/2\r\nX-Hermes-Status: 503\r\n";
    assert!(got.status == 200 && text.contains(ill), "{text}");
    assert!(
        text.contains("not asked, the endpoint is not healthy: check: "),
        "{text}"
    );
    assert_eq!(text.matches("X-Hermes-Status: 200").count(), 2);
}

#[test]
fn where_no_endpoint_is_healthy_the_request_fails_at_once() {
    for reply in ["first", "all", "{ quorum: 1 }"] {
        let gone = [origins::http(), origins::http()];
        let [one, two] = gone.each_ref().map(origins::Origin::address);
        let health = "health: { kind: tcp, interval: 50ms, timeout: 1s, unhealthy: 1 }";
        let rule = format!("{{ users: [alice], reply: {reply} }}");
        let node = node_with(
            &format!("endpoints: [\"{one}\", \"{two}\"], {health}"),
            &rule,
        );
        drop(gone);
        unhealthy(&node, 2);
        let got = broadcast(&node, &["http://video/x"]);
        assert_eq!(got.status, 503);
        assert!(
            got.field("proxy-status")
                .unwrap()
                .contains("0 of 2 endpoints are healthy, 1 wanted"),
            "{got:?}"
        );
    }
}

#[test]
fn trailers_go_both_ways_except_into_parts() {
    let origins = Origins::start();
    let ask = |rule: &str, path: &str, content: &str| {
        let node = node(&origins, rule);
        let mut raw = Raw::connect(node.address("web"));
        raw.send(format!(
            "POST http://video{path} HTTP/1.1\r\nHost: video\r\nConnection: close\r\nX-Hermes-Broadcast: true\r\n\
             Transfer-Encoding: chunked\r\nTE: trailers\r\n\r\n{content}"
        ));
        let head = raw.head();
        assert_eq!(head.status(), 200);
        String::from_utf8(raw.until(|_| false)).unwrap()
    };
    let (empty, first) = ("0\r\n\r\n", "{ users: [alice] }");
    let got = ask(first, "/trailers", empty);
    assert!(got.ends_with("0\r\nx-checksum: 42\r\n\r\n"), "{got}");
    let got = ask(
        first,
        "/post",
        "2\r\nhi\r\n0\r\nx-sum: 7\r\nuser: mallory\r\n\r\n",
    );
    assert!(
        got.contains(r#""bytes": 2"#) && got.contains("x-sum"),
        "{got}"
    );
    assert!(
        !got.contains("mallory"),
        "an overlay field is no trailer: {got}"
    );
    let got = ask("{ users: [alice], reply: all }", "/trailers", empty);
    assert!(
        got.contains("body\n") && !got.contains("x-checksum: 42"),
        "{got}"
    );
}
