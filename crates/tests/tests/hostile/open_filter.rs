//! `fail: open` of a filter is for servers that are gone. Nothing that a client can write makes it open.

use hermes_tests::h2c::Client;
use hermes_tests::origins::{Answer, Origin, Question, deciding};
use hermes_tests::raw::Raw;
use hermes_tests::{Node, curl};
use http::Request;
use serde_json::Value;

/// A node before which `server` decides; whatever passes is answered with `secret`.
fn node(server: &Origin<Question>, keys: &str) -> Node {
    let yaml = format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0, limits: {{ head_bytes: 256KiB }} }} }}\n\
         authorize: [ {{ name: check, upstream: authority, timeout: 300ms, fail: open, send: [\"x-*\"], {keys} }} ]\n\
         routes: [ {{ respond: {{ status: 200, body: secret }} }} ]\n\
         upstreams: {{ authority: {{ endpoints: [\"{}\"] }} }}\n",
        server.address()
    );
    Node::start("sap", &yaml)
}

/// The status for a request with these whole lines of fields.
fn asked(node: &Node, method: &str, fields: &str) -> u16 {
    let mut raw = Raw::connect(node.address("web"));
    raw.send(format!(
        "{method} http://site/admin HTTP/1.1\r\nhost: site\r\n{fields}\r\n"
    ));
    raw.head().status()
}

/// What the request said in this field: OPA is told it within the content.
fn said(question: &Question, name: &str) -> Option<String> {
    let told: Value = serde_json::from_str(&question.content).unwrap_or_default();
    question
        .request
        .field(name)
        .or_else(|| Some(told["input"]["fields"][name].as_str()?.to_owned()))
}

fn large_field(bytes: usize) -> String {
    format!("x-large: {}\r\n", "a".repeat(bytes))
}

#[test]
fn a_path_that_cannot_be_asked_about_is_refused() {
    let server = deciding(|question| match question.request.path.as_str() {
        "/v1/data/allow" => Answer {
            content: "{ \"result\": false }".to_owned(),
            ..Answer::new(200, &[])
        },
        _ => Answer::new(403, &[]),
    });
    for keys in ["", "kind: opa, path: /v1/data/allow", "body: json"] {
        let node = node(&server, keys);
        let client = Client::connect(node.address("web"));
        for byte in ["\u{e9}", "\u{fffd}"] {
            let uri = format!("http://site/admin/secret?{byte}");
            let Ok(request) = Request::get(&uri).body(()) else {
                continue;
            };
            let answered = client.send(request, b"").map_or(0, |answer| answer.status);
            assert_ne!(answered, 200, "{keys} {uri}");
        }
    }
}

#[test]
fn answers_that_speak_of_the_request_open_nothing() {
    // 400, 414, 431 and 501 are what servers say to requests that they cannot read.
    let server = deciding(|question| {
        let status = said(question, "x-status").and_then(|status| status.parse().ok());
        Answer::new(status.unwrap_or(500), &[])
    });
    for keys in ["", "kind: opa, path: /v1/data/allow"] {
        let node = node(&server, keys);
        assert_eq!(
            asked(&node, "GET", ""),
            200,
            "a server that fails is what it is for"
        );
        for status in [400, 413, 414, 431, 501, 505] {
            let got = asked(&node, "GET", &format!("x-status: {status}\r\n"));
            assert!((400..500).contains(&got), "{keys}: {status} became {got}");
        }
    }
}

#[test]
fn answers_that_the_client_s_own_words_broke_open_nothing() {
    // A policy that shows the request in its answer.
    let server = deciding(|question| {
        let content = match said(question, "x-case").as_deref() {
            Some("words") => {
                "{ \"result\": { \"allow\": true, \"fields\": { \"x-role\": \"a\\r\\nb\" } } }"
                    .to_owned()
            }
            Some("form") => "{ \"result\": \"it".to_owned(),
            _ => "x".repeat(100 * 1024),
        };
        let status = if said(question, "x-case").as_deref() == Some("page") {
            403
        } else {
            200
        };
        Answer {
            content,
            ..Answer::new(status, &[])
        }
    });
    let opa = node(
        &server,
        "kind: opa, path: /v1/data/allow, allow_fields: [x-role]",
    );
    for case in ["words", "form", "long"] {
        assert_eq!(
            asked(&opa, "GET", &format!("x-case: {case}\r\n")),
            503,
            "{case}"
        );
    }
    let http = node(&server, "");
    assert_eq!(asked(&http, "GET", "x-case: page\r\n"), 503);
}

#[test]
fn a_request_that_is_too_large_to_be_asked_about_is_no_failure_of_the_server() {
    // It breaks off without a word where the head is larger than it takes.
    let server = deciding(|question| match question.request.field("x-large") {
        Some(_) => Answer::default(),
        None => Answer::new(403, &[]),
    });
    let node = node(&server, "");
    assert_eq!(asked(&node, "GET", ""), 403);
    assert_eq!(asked(&node, "GET", &large_field(8 * 1024)), 503);
    // One that hyper does not take at all.
    assert_ne!(asked(&node, "GET", &large_field(100 * 1024)), 200);
    let got = curl(&["-x", &node.url("web"), "-X", "BREW", "http://site/"]);
    assert_eq!(got.status, 403);
}
