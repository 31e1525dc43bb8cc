//! Which reply the client gets, and what is bounded.

use hermes_tests::curl;
use hermes_tests::eventually::eventually_true;
use hermes_tests::origins::{self, Answer, Origin, deciding};

use super::{Origins, broadcast, node, node_with, via};

/// An origin that always answers this status.
fn always(status: u16) -> Origin<origins::Question> {
    deciding(move |_| Answer {
        content: format!("{status}\n"),
        ..Answer::new(status, &[])
    })
}

fn shards(origins: &[&Origin<origins::Question>]) -> String {
    let endpoints: Vec<String> = origins
        .iter()
        .map(|origin| format!("\"{}\"", origin.address()))
        .collect();
    format!("endpoints: [{}]", endpoints.join(", "))
}

#[test]
fn all_endpoints_get_exactly_one_copy_with_the_content_and_without_the_field() {
    let origins = Origins::start();
    let node = node(&origins, "{ users: [alice], reply: all }");
    for round in 1..=3 {
        let got = broadcast(&node, &["-d", "hello", "http://video/x"]);
        assert_eq!(got.status, 200, "{got:?}");
        assert_eq!(
            got.text().matches(r#""body": "hello""#).count(),
            3,
            "{}",
            got.text()
        );
        assert_eq!(origins.counts(), [round; 3]);
    }
    for origin in &origins.0 {
        let request = origin.last();
        assert_eq!(
            (request.method.as_str(), request.path.as_str()),
            ("POST", "/x")
        );
        assert_eq!(
            (
                request.field("x-hermes-broadcast"),
                request.field("content-length")
            ),
            (None, Some("5".to_owned()))
        );
    }
    let record = node.record(|record| record["reason"] == "done: 3 of 3 copies succeeded");
    assert_eq!(record["bytes"]["client_to_target"], 5);
}

#[test]
fn the_first_success_wins_and_the_others_are_cancelled() {
    let origins = [always(503), always(404), always(200)];
    let node = node_with(&shards(&origins.each_ref()), "{ users: [alice] }");
    let got = broadcast(&node, &["http://video/"]);
    assert_eq!((got.status, got.text().as_str()), (200, "200\n"));
    let losers = Origins::start();
    let winner = always(200);
    let endpoints = format!(
        "endpoints: [{}, \"{}\"]",
        losers.endpoints(),
        winner.address()
    );
    let node = node_with(&endpoints, "{ users: [alice] }");
    assert_eq!(broadcast(&node, &["http://video/hang"]).text(), "200\n");
    let cancelled = "hermes_broadcast_copies_total{route=\"routes[0]\",outcome=\"cancelled\"} 3";
    assert!(node.metrics().contains(cancelled), "{}", node.metrics());
    eventually_true("nothing is out any more", || {
        let status = node.status();
        let endpoints = status["upstreams"][0]["endpoints"]
            .as_array()
            .unwrap()
            .clone();
        endpoints.iter().all(|endpoint| endpoint["active"] == 0)
    });
    node.idle();
}

#[test]
fn without_any_success_the_client_gets_what_was_said_first() {
    let origins = [always(404), always(404)];
    let node = node_with(&shards(&origins.each_ref()), "{ users: [alice] }");
    let got = broadcast(&node, &["http://video/"]);
    assert_eq!((got.status, got.text().as_str()), (404, "404\n"));
}

#[test]
fn a_quorum_is_reached_or_the_request_fails_with_the_numbers() {
    let origins = [always(200), always(200), always(500)];
    let upstream = shards(&origins.each_ref());
    let two = node_with(&upstream, "{ users: [alice], reply: { quorum: 2 } }");
    let got = broadcast(&two, &["http://video/"]);
    assert_eq!((got.status, got.text().as_str()), (200, "200\n"));
    let three = node_with(&upstream, "{ users: [alice], reply: { quorum: 3 } }");
    let got = broadcast(&three, &["http://video/"]);
    assert_eq!(got.status, 502);
    let status = got.field("proxy-status").unwrap();
    assert!(
        status.contains("copies succeeded, 3 were wanted"),
        "{status}"
    );
}

#[test]
fn what_is_too_large_is_refused() {
    let origins = Origins::start();
    let node = node(
        &origins,
        "{ users: [alice], reply: all, request_bytes: 1000B, reply_bytes: 2000B }",
    );
    let content = "x".repeat(1001);
    assert_eq!(
        broadcast(&node, &["-d", &content, "http://video/"]).status,
        413
    );
    let chunked = broadcast(
        &node,
        &[
            "-H",
            "transfer-encoding: chunked",
            "-d",
            &content,
            "http://video/",
        ],
    );
    assert_eq!(chunked.status, 413);
    assert_eq!(origins.counts(), [0; 3]);
    assert_eq!(
        broadcast(&node, &["-d", &content[1..], "http://video/"]).status,
        200
    );
    assert_eq!(broadcast(&node, &["http://video/bytes/2000"]).status, 200);
    // A reply that is too large is a copy that failed; all three are.
    let got = broadcast(&node, &["http://video/bytes/2001"]);
    assert_eq!(got.status, 502);
    assert!(
        got.field("proxy-status")
            .unwrap()
            .contains("0 of 3 copies succeeded"),
        "{got:?}"
    );
}

#[test]
fn more_endpoints_than_copies_are_refused_before_any_is_asked() {
    let origins = Origins::start();
    let node = node(&origins, "{ users: [alice], copies: 2 }");
    let got = broadcast(&node, &["http://video/"]);
    assert_eq!(got.status, 503);
    assert!(
        got.field("proxy-status")
            .unwrap()
            .contains("3 copies, and may have 2"),
        "{got:?}"
    );
    assert_eq!(origins.counts(), [0; 3]);
}

#[test]
fn the_time_of_the_whole_is_bounded() {
    let origins = Origins::start();
    let node = node(&origins, "{ users: [alice], time: 100ms }");
    let got = broadcast(&node, &["http://video/hang"]);
    assert_eq!(got.status, 504);
    assert!(
        got.field("proxy-status")
            .unwrap()
            .contains("0 of 3 copies succeeded"),
        "{got:?}"
    );
}

#[test]
fn a_client_that_waits_for_100_is_told_to_go_on() {
    let origins = Origins::start();
    let node = node(&origins, "{ users: [alice] }");
    let got = broadcast(
        &node,
        &[
            "-H",
            "expect: 100-continue",
            "--expect100-timeout",
            "25",
            "-d",
            "x",
            "http://video/",
        ],
    );
    assert_eq!(got.status, 200);
    assert!(got.heads.iter().any(|head| head.status() == 100), "{got:?}");
    assert_eq!(
        origins.0[0]
            .seen()
            .iter()
            .filter(|request| request.field("expect").is_some())
            .count(),
        0
    );
}

#[test]
fn copies_go_to_several_upstreams_and_once_only() {
    let origins = Origins::start();
    let [one, two, three] = origins.0.each_ref().map(Origin::address);
    let yaml = format!(
        r#"
        listeners: {{ web: {{ http: 127.0.0.1:0, insecure_trust: [127.0.0.0/8] }} }}
        routes:
          - {{ terminate: a, broadcast: {{ users: ["*"], upstreams: [a, b], reply: all }} }}
        upstreams: {{ a: {{ endpoints: ["{one}", "{two}"] }}, b: {{ endpoints: ["{three}"] }} }}
        "#
    );
    let second = hermes_tests::Node::start("second", &yaml);
    // Another node that fans out stands before it: it consumes the field, so there is no second fan-out.
    let first = hermes_tests::Node::start(
        "first",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0, user: alice, accepts: [x-hermes-broadcast] }} }}
            routes:
              - {{ match: {{ target: deep }}, to: second, broadcast: {{ users: [alice] }} }}
              - {{ to: second }}
            upstreams: {{ second: {{ endpoints: ["{}"] }} }}
            "#,
            second.address("web")
        ),
    );
    assert_eq!(via(&first, "web", &["http://far/"]).status, 200);
    assert_eq!(origins.counts(), [1; 3]);
    assert_eq!(via(&first, "web", &["http://deep/"]).status, 200);
    assert_eq!(origins.counts().iter().sum::<usize>(), 4);
    assert_eq!(curl(&["-x", &first.url("web"), "http://far/"]).status, 200);
    assert_eq!(origins.counts().iter().sum::<usize>(), 5);
}
