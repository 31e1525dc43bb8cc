//! What is asked, and what becomes of the answers.

use hermes_tests::curl;
use hermes_tests::origins::{Answer, deciding};
use serde_json::{Value, json};

use super::{by_token, node};

#[test]
fn a_denial_is_the_clients_answer_with_its_fields_and_content() {
    let server = deciding(by_token);
    let node = node(&server, "send: [token]");
    let got = curl(&["-x", &node.url("web"), "http://video/"]);
    assert_eq!((got.status, got.text().as_str()), (401, "who are you?\n"));
    assert_eq!(got.field("www-authenticate").as_deref(), Some("Token"));
    let status = got.field("proxy-status").unwrap();
    assert!(
        status.contains("error=http_request_denied; details=\"check denied: 401\""),
        "{status}"
    );
    let record = node.record(|record| record["status"] == 401);
    assert_eq!(record["reason"], "http_request_denied: check denied: 401");
    let metrics = node.metrics();
    let line =
        "hermes_filter_decisions_total{filter=\"check\",outcome=\"denied\",remembered=\"no\"} 1";
    assert!(metrics.contains(line), "{metrics}");
    assert!(
        metrics.contains("hermes_filter_duration_seconds_count{filter=\"check\"} 1"),
        "{metrics}"
    );
}

#[test]
fn a_denial_never_looks_like_success() {
    let server = deciding(|_| Answer::new(204, &[]));
    let got = curl(&["-x", &node(&server, "").url("web"), "http://video/"]);
    assert_eq!(got.status, 403);
}

#[test]
fn credentials_are_sent_only_if_they_are_named() {
    let server = deciding(|_| Answer::new(200, &[]));
    let secret = [
        "-H",
        "authorization: Bearer x",
        "-H",
        "cookie: a=b",
        "-H",
        "x-a: 1",
        "http://video/",
    ];
    let shown = |send: &str| {
        let node = node(&server, send);
        assert_eq!(
            curl(&[&["-x", &node.url("web")][..], &secret].concat()).status,
            200
        );
        let asked = server.last().request;
        ["authorization", "cookie", "x-a"].map(|name| asked.field(name).is_some())
    };
    assert_eq!(shown(""), [false, false, false]);
    assert_eq!(shown("send: [\"*\"]"), [false, false, true]);
    assert_eq!(shown("send: [authorization]"), [true, false, false]);
}

#[test]
fn the_path_has_a_prefix_and_the_body_says_everything() {
    let server = deciding(|_| Answer::new(200, &[]));
    let node = node(&server, "path: /check/, body: json, send: [x-a]");
    let arguments = [
        "-x",
        &node.url("web"),
        "-H",
        "x-a: 1",
        "-H",
        "x-a: 2",
        "-X",
        "PUT",
        "http://video:81/a?b",
    ];
    assert_eq!(curl(&arguments).status, 200);
    let question = server.last();
    assert_eq!(
        (
            question.request.method.as_str(),
            question.request.path.as_str()
        ),
        ("POST", "/check/a?b")
    );
    let said: Value = serde_json::from_str(&question.content).unwrap();
    let expected = json!({
        "target": "video:81", "host": "video", "port": 81, "kind": "http", "method": "PUT", "path": "/a", "query": "b",
        "protocol": null, "user": "alice", "source": "127.0.0.1", "listener": "web", "fields": { "x-a": "1, 2" },
    });
    assert_eq!(said, expected);
}

#[test]
fn remembered_answers_are_not_asked_for_again() {
    let server = deciding(by_token);
    let node = node(
        &server,
        "send: [token], allow_fields: [x-secure], cache: { for: 1h }",
    );
    let url = node.url("web");
    let ask = |token: &str, path: &str| {
        curl(&[
            "-x",
            &url,
            "-H",
            &format!("token: {token}"),
            &format!("http://video{path}"),
        ])
        .text()
    };
    for _ in 0..3 {
        assert_eq!(
            (ask("admin", "/"), ask("user", "/"), ask("", "/")),
            (
                "admin".to_owned(),
                "user".to_owned(),
                "who are you?\n".to_owned()
            )
        );
    }
    assert_eq!(server.seen().len(), 3);
    assert_eq!(ask("admin", "/other"), "admin");
    assert_eq!(server.seen().len(), 4);
    assert!(
        node.metrics()
            .contains("outcome=\"allowed\",remembered=\"yes\"} 4"),
        "{}",
        node.metrics()
    );
}
