//! Requests and their responses.

use hermes_tests::eventually::eventually_true;
use hermes_tests::origins::{Act, acting, refusing};
use hermes_tests::raw::Raw;
use hermes_tests::{Node, free};

use super::{gateway, get, send};

#[test]
fn an_origin_that_fails_twice_is_asked_a_third_time() {
    let origin = acting(&[
        Act::status(503, ""),
        Act::status(502, ""),
        Act::status(200, ""),
    ]);
    let node = gateway(&[origin.address()], ", retry: { on: gateway-error }");
    let (status, _, content) = get(&node);
    assert_eq!(
        (status, content.as_str(), origin.seen().len()),
        (200, "200\n", 3)
    );
    let record = node.record(|_| true);
    let endpoint = origin.address().to_string();
    assert_eq!(record["attempts"], 3, "{record}");
    assert_eq!(
        record["tried"],
        serde_json::json!([endpoint, endpoint, endpoint]),
        "{record}"
    );
    let metrics = node.metrics();
    let counted = r#"hermes_retries_total{upstream="origin",reason="gateway-error"} 2"#;
    assert!(metrics.contains(counted), "{metrics}");
}

/// Whether a request that fails like this first is answered by a second attempt under this condition.
fn is_repeated(on: &str, act: Act) -> bool {
    let origin = acting(&[act, Act::status(200, "")]);
    let node = gateway(
        &[origin.address()],
        &format!(", retry: {{ on: {on}, backoff: {{ base: 1ms }} }}"),
    );
    let status = get(&node).0;
    assert_eq!(
        origin.seen().len(),
        if status == 200 { 2 } else { 1 },
        "{on}"
    );
    status == 200
}

#[test]
fn each_condition_repeats_what_it_names_and_nothing_else() {
    let cases = [
        ("5xx", Act::status(500, ""), true),
        ("5xx", Act::status(503, ""), true),
        ("5xx", Act::status(429, ""), false),
        ("gateway-error", Act::status(502, ""), true),
        ("gateway-error", Act::status(503, ""), true),
        ("gateway-error", Act::status(504, ""), true),
        ("gateway-error", Act::status(500, ""), false),
        ("reset", Act::Reset, true),
        ("reset", Act::status(503, ""), false),
        ("connect-failure", Act::Reset, false),
        ("connect-failure", Act::status(503, ""), false),
        ("refused-stream", Act::status(503, ""), false),
    ];
    for (on, act, repeated) in cases {
        assert_eq!(is_repeated(on, act.clone()), repeated, "{on}: {act:?}");
    }
}

#[test]
fn a_connection_that_fails_is_tried_again_where_the_policy_says_so() {
    for (on, attempts) in [("connect-failure", 3), ("gateway-error", 3), ("reset", 1)] {
        let node = gateway(
            &[free::tcp()],
            &format!(", retry: {{ on: {on}, attempts: 3 }}"),
        );
        assert_eq!(get(&node).0, 502);
        assert_eq!(node.record(|_| true)["attempts"], attempts, "{on}");
    }
}

#[test]
fn when_all_attempts_fail_the_last_response_goes_to_the_client() {
    let origin = acting(&[
        Act::status(500, "X-Try: 1\r\n"),
        Act::status(503, "X-Try: 2\r\n"),
    ]);
    let node = gateway(&[origin.address()], ", retry: { on: 5xx, attempts: 2 }");
    let (status, fields, content) = get(&node);
    assert_eq!(
        (status, content.as_str(), origin.seen().len()),
        (503, "503\n", 2)
    );
    assert!(fields.contains(r#"("x-try", "2")"#), "{fields}");
}

#[test]
fn a_request_whose_connection_was_reset_is_sent_again() {
    let origin = acting(&[Act::Reset, Act::Reset, Act::status(200, "")]);
    let node = gateway(&[origin.address()], ", retry: { on: reset }");
    assert_eq!((get(&node).0, origin.seen().len()), (200, 3));
}

#[test]
fn the_final_failure_says_how_many_attempts_there_were() {
    let origin = acting(&[Act::Reset]);
    let node = gateway(&[origin.address()], ", retry: { on: reset, attempts: 3 }");
    let (status, fields, _) = get(&node);
    assert_eq!((status, origin.seen().len()), (502, 3));
    assert!(fields.contains("(3 attempts)"), "{fields}");
    let record = node.record(|_| true);
    assert!(
        record["reason"].as_str().unwrap().ends_with("(3 attempts)"),
        "{record}"
    );
}

#[test]
fn without_a_policy_a_failure_is_final() {
    for act in [Act::Reset, Act::status(503, "")] {
        let origin = acting(&[act, Act::status(200, "")]);
        let node = gateway(&[origin.address()], "");
        let (status, fields, _) = get(&node);
        assert!(status >= 500 && origin.seen().len() == 1, "{status}");
        assert!(!fields.contains("attempt"), "{fields}");
    }
}

#[test]
fn a_post_that_was_reset_after_its_head_went_out_is_not_repeated() {
    for content in [&b""[..], b"content"] {
        let origin = acting(&[Act::Reset, Act::status(200, "")]);
        let node = gateway(
            &[origin.address()],
            ", retry: { on: [5xx, reset, gateway-error], attempts: 5 }",
        );
        let (status, fields, _) = send(&node, "POST", content);
        assert_eq!((status, origin.seen().len()), (502, 1));
        assert!(
            fields.contains("(1 attempt; it may have been processed and is not idempotent)"),
            "{fields}"
        );
    }
}

#[test]
fn a_post_that_was_answered_503_is_not_repeated() {
    let origin = acting(&[Act::status(503, "Retry-After: 0\r\n"), Act::status(200, "")]);
    let node = gateway(&[origin.address()], ", retry: { on: 5xx }");
    let (status, _, content) = send(&node, "POST", b"content");
    assert_eq!(
        (status, content.as_str(), origin.seen().len()),
        (503, "503\n", 1)
    );
}

#[test]
fn a_post_on_a_refused_stream_is_sent_again() {
    for retry in ["", ", retry: { on: refused-stream }"] {
        let origin = refusing(2);
        let node = gateway(&[origin.address()], &format!(", http: 2{retry}"));
        // Without a policy nothing is kept, so nothing may have been sent.
        let content: &[u8] = if retry.is_empty() { b"" } else { b"content" };
        let (status, _, echo) = send(&node, "POST", content);
        assert_eq!((status, echo.as_bytes()), (200, content));
        assert_eq!(origin.seen(), ["refused POST", "refused POST", "POST"]);
    }
}

#[test]
fn content_is_sent_again_as_it_was() {
    let origin = acting(&[Act::status(503, ""), Act::Reset, Act::status(200, "")]);
    let node = gateway(&[origin.address()], ", retry: { on: 5xx }");
    let content = vec![b'c'; 64 << 10];
    let (status, ..) = send(&node, "PUT", &content);
    assert_eq!(status, 200);
    let (seen, content) = (origin.seen(), String::from_utf8(content).unwrap());
    assert_eq!(seen.len(), 3);
    assert!(
        seen.iter()
            .all(|request| request.ends_with(&format!("\r\n\r\n{content}")))
    );
    let record = node.record(|_| true);
    assert_eq!(
        record["bytes"]["client_to_target"],
        64 << 10,
        "what is sent again is not counted again: {record}"
    );
}

#[test]
fn content_above_the_bound_is_not_sent_again() {
    let origin = acting(&[Act::status(503, ""), Act::status(200, "")]);
    let node = gateway(
        &[origin.address()],
        ", retry: { on: 5xx, keep_bytes: 1KiB }",
    );
    assert_eq!(
        (send(&node, "PUT", &[b'c'; 1025]).0, origin.seen().len()),
        (503, 1)
    );
    assert_eq!(
        (send(&node, "PUT", &[b'c'; 1024]).0, origin.seen().len()),
        (200, 2)
    );
}

#[test]
fn after_a_short_retry_after_the_origin_is_asked_again() {
    let fields = "Retry-After: 1\r\n";
    let origin = acting(&[
        Act::status(503, fields),
        Act::status(429, fields),
        Act::status(200, ""),
    ]);
    let node = gateway(
        &[origin.address()],
        ", retry: { on: [gateway-error, rate-limited] }",
    );
    assert_eq!((get(&node).0, origin.seen().len()), (200, 3));
}

#[test]
fn an_origin_that_says_retry_after_is_left_alone_until_then() {
    let origin = acting(&[Act::status(503, "Retry-After: 2\r\n"), Act::status(200, "")]);
    let node = gateway(
        &[origin.address()],
        ", retry: { on: gateway-error, backoff: { base: 1ms, max: 1ms } }",
    );
    std::thread::scope(|scope| {
        let first = scope.spawn(|| get(&node));
        eventually_true("it was asked", || origin.seen().len() == 1);
        // The back-off of a millisecond is long over when the other request has its answer.
        assert_eq!(
            hermes_tests::curl(&[&format!("{}/other", node.url("web"))]).status,
            200
        );
        assert_eq!(first.join().unwrap().0, 200);
    });
    let asked: Vec<_> = origin
        .seen()
        .iter()
        .map(|request| request.split(' ').nth(1).unwrap().to_owned())
        .collect();
    assert_eq!(asked, ["/a", "/other", "/a"]);
}

#[test]
fn a_long_retry_after_goes_to_the_client() {
    let origin = acting(&[Act::status(503, "Retry-After: 3\r\n"), Act::status(200, "")]);
    let node = gateway(&[origin.address()], ", retry: { on: 5xx }");
    let (status, fields, _) = get(&node);
    assert_eq!((status, origin.seen().len()), (503, 1));
    assert!(fields.contains(r#"("retry-after", "3")"#), "{fields}");
}

#[test]
fn a_route_says_more_than_its_upstream() {
    let origin = acting(&[Act::status(503, ""), Act::status(200, "")]);
    let yaml = format!(
        r#"
        listeners: {{ web: {{ http: 127.0.0.1:0, gateway: true }} }}
        routes:
          - {{ match: {{ method: PUT }}, terminate: origin, retry: {{ attempts: 1 }} }}
          - {{ terminate: origin }}
        upstreams: {{ origin: {{ endpoints: ["{}"], retry: {{ on: 5xx }} }} }}
        "#,
        origin.address()
    );
    let node = Node::start("gate", &yaml);
    assert_eq!((send(&node, "PUT", b"").0, origin.seen().len()), (503, 1));
}

#[test]
fn no_one_is_asked_again_for_a_client_that_left() {
    let origin = acting(&[Act::status(503, "Retry-After: 2\r\n"), Act::status(200, "")]);
    let node = gateway(&[origin.address()], ", retry: { on: 5xx }");
    let mut raw = Raw::connect(node.address("web"));
    raw.send("GET /a HTTP/1.1\r\nHost: video\r\n\r\n");
    eventually_true("the origin was asked", || origin.seen().len() == 1);
    raw.reset();
    node.idle();
    assert_eq!(origin.seen().len(), 1);
    assert_eq!(node.record(|_| true)["attempts"], 1);
}

#[test]
fn a_reload_changes_the_policy_of_an_upstream_and_keeps_its_connections() {
    let origin = acting(&[
        Act::status(200, ""),
        Act::status(503, ""),
        Act::status(503, ""),
        Act::status(200, ""),
    ]);
    let yaml = |keys: &str| {
        format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0, gateway: true }} }}
            routes: [ {{ terminate: origin }} ]
            upstreams: {{ origin: {{ endpoints: ["{}"]{keys} }} }}
            workers: 1
            "#,
            origin.address()
        )
    };
    let node = Node::start("gate", &yaml(""));
    assert_eq!(get(&node).0, 200);
    assert_eq!(get(&node).0, 503);
    let (status, said) = node.reload(&yaml(", retry: { on: 5xx }"));
    assert_eq!(status, 200, "{said}");
    let mut raw = Raw::connect(node.address("web"));
    raw.send("GET /a HTTP/1.1\r\nHost: video\r\n\r\n");
    assert_eq!((raw.head().status(), origin.seen().len()), (200, 4));
    assert_eq!(
        origin.connections(),
        2,
        "one was kept over the reload, one followed the response that no one read"
    );
}
