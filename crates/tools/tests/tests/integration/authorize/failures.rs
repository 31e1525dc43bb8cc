//! Servers that give no decision.

use hermes_tests::curl;
use hermes_tests::origins::{Answer, Origin, Question, deciding};

use super::node;

/// The answer, which is the same with `fail: open`: the server is there.
fn refusal(server: &Origin<Question>, keys: &str) -> (u16, String) {
    let ask = |node: &hermes_tests::Node| {
        curl(&[
            "-x",
            &node.url("web"),
            "-H",
            "x-secure: admin",
            "http://video/",
        ])
    };
    let closed = node(server, keys);
    let refused = ask(&closed);
    let word = "hermes_filter_decisions_total{filter=\"check\",outcome=\"failed_closed\",remembered=\"no\"} 1";
    assert!(closed.metrics().contains(word), "{}", closed.metrics());
    let open = node(server, &format!("{keys}, fail: open"));
    assert_eq!(ask(&open).status, refused.status);

    let reason = refused.field("proxy-status").unwrap_or_default();
    (refused.status, reason)
}

#[test]
fn a_server_that_is_down_refuses_unless_the_file_says_otherwise() {
    let server = deciding(|_| Answer::new(200, &[]));
    let gone = deciding(|_| Answer::new(200, &[]));
    let address = gone.address();
    drop(gone);
    let yaml = |fail: &str| {
        format!(
            "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\n\
             authorize: [{{ name: check, upstream: gone, timeout: 5s{fail} }}]\n\
             routes: [{{ respond: {{ status: 200 }} }}]\n\
             upstreams: {{ gone: {{ endpoints: [\"{address}\"] }} }}\n"
        )
    };
    let closed = hermes_tests::Node::start("sap", &yaml(""));
    let got = curl(&["-x", &closed.url("web"), "http://video/"]);
    assert_eq!(got.status, 503);
    let record = closed.record(|record| record["status"] == 503);
    assert!(
        record["reason"]
            .as_str()
            .unwrap()
            .starts_with("http_request_denied: check failed_closed: "),
        "{record}"
    );
    let open = hermes_tests::Node::start("sap", &yaml(", fail: open"));
    assert_eq!(curl(&["-x", &open.url("web"), "http://video/"]).status, 200);
    assert!(server.seen().is_empty());
}

#[test]
fn errors_of_the_server_and_answers_without_end_decide_nothing() {
    let broken = deciding(|_| Answer::new(500, &[("x-secure", "admin")]));
    let (status, reason) = refusal(&broken, "allow_fields: [x-secure]");
    assert_eq!(status, 503);
    assert!(
        reason.contains("check failed_closed: the server answered 500"),
        "{reason}"
    );
    let large = deciding(|_| Answer {
        content: "x".repeat(64 * 1024 + 1),
        ..Answer::new(200, &[])
    });
    let (status, reason) = refusal(&large, "allow_fields: [x-secure]");
    assert_eq!(status, 503);
    assert!(reason.contains("more than 65536 bytes"), "{reason}");
}

#[test]
fn a_server_that_says_nothing_is_not_waited_for() {
    let silent = deciding(|_| Answer::default());
    let node = node(&silent, "");
    let file = std::fs::read_to_string(node.file())
        .unwrap()
        .replace("timeout: 5s", "timeout: 50ms");
    assert_eq!(node.reload(&file).0, 200);
    let got = curl(&["-x", &node.url("web"), "http://video/"]);
    assert_eq!(got.status, 503);
    assert!(
        got.field("proxy-status")
            .unwrap()
            .contains("check failed_closed: "),
        "{got:?}"
    );
}

#[test]
fn a_connection_that_died_unseen_is_no_failure() {
    let once = hermes_tests::origins::scripted_once("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let yaml = format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\n\
         authorize: [{{ name: check, upstream: once, timeout: 5s }}]\n\
         routes: [{{ respond: {{ status: 200 }} }}]\n\
         upstreams: {{ once: {{ endpoints: [\"{}\"] }} }}\n",
        once.address()
    );
    let node = hermes_tests::Node::start("sap", &yaml);
    for _ in 0..5 {
        assert_eq!(curl(&["-x", &node.url("web"), "http://video/"]).status, 200);
    }
    assert_eq!(once.seen().len(), 5);
}
