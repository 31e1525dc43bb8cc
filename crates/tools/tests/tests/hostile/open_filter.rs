//! `fail: open` of a filter is for servers that are gone. Nothing that a client can write makes it open.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::thread;
use std::time::Duration;

use hermes_tests::attacks::crowded_filter::{crowd, slow_denials};
use hermes_tests::eventually::eventually_true;
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
        for status in [400, 413, 414, 431, 501, 505] {
            let got = asked(&node, "GET", &format!("x-status: {status}\r\n"));
            assert!((400..500).contains(&got), "{keys}: {status} became {got}");
        }
        // OPA says 500 of a policy that contradicts itself about this input.
        for status in [500, 502, 503, 504, 429, 302] {
            let got = asked(&node, "GET", &format!("x-status: {status}\r\n"));
            assert_ne!(got, 200, "{keys}: {status}");
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

#[test]
fn a_crowd_of_one_client_opens_nothing() {
    let server = slow_denials();
    for keys in ["", "kind: opa, path: /v1/data/allow", "concurrency: 32"] {
        let node = node(&server, keys);
        let statuses = crowd(node.address("web"), "http://site/admin");
        let passed = statuses.iter().filter(|status| **status == 200).count();
        assert_eq!(passed, 0, "{keys}: of {}", statuses.len());
        eventually_true("the server decides again", || {
            asked(&node, "GET", "") == 403
        });
    }
}

#[test]
fn questions_that_take_the_server_long_open_nothing() {
    // It takes each longer than the filter's time, and one after the other.
    let server = deciding(|question| Answer {
        after: Duration::from_millis(if said(question, "x-heavy").is_some() {
            400
        } else {
            1
        }),
        in_a_row: true,
        ..Answer::new(403, &[])
    });
    let node = node(&server, "");
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..4 {
                    assert_ne!(asked(&node, "GET", "x-heavy: 1\r\n"), 200);
                }
            });
        }
    });
    eventually_true("the server decides again", || {
        asked(&node, "GET", "") == 403
    });
}

#[test]
fn one_question_that_costs_the_server_many_times_its_time_opens_nothing() {
    let server = deciding(|question| Answer {
        after: Duration::from_millis(if said(question, "x-heavy").is_some() {
            2000
        } else {
            1
        }),
        in_a_row: true,
        ..Answer::new(403, &[])
    });
    let node = node(&server, "");
    for _ in 0..2 {
        assert_eq!(asked(&node, "GET", "x-heavy: 1\r\n"), 503);
        // Nor does it for anyone else, for as long as the server is busy with it.
        eventually_true("the server decides again", || {
            let status = asked(&node, "GET", "");
            assert_ne!(status, 200);
            status == 403
        });
    }
}

#[test]
fn a_tunnel_whose_right_was_withdrawn_ends_however_its_user_crowds_the_server() {
    let withdrawn = Arc::new(AtomicBool::new(false));
    let asked_about = withdrawn.clone();
    let server = deciding(move |_| {
        let status = if asked_about.load(Ordering::SeqCst) {
            403
        } else {
            200
        };
        Answer {
            after: Duration::from_millis(2),
            in_a_row: true,
            ..Answer::new(status, &[])
        }
    });
    let echo = hermes_tests::origins::tcp_echo();
    let yaml = format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0, user: alice }} }}\n\
         authorize: [ {{ name: check, upstream: authority, fail: open, recheck: 1s, grace: 1s }} ]\n\
         routes: [ {{ match: {{ method: CONNECT }}, terminate: true }}, {{ respond: {{ status: 200 }} }} ]\n\
         egress: {{ allow: [127.0.0.0/8] }}\n\
         upstreams: {{ authority: {{ endpoints: [\"{}\"] }} }}\n",
        server.address()
    );
    let node = Node::start("sap", &yaml);
    let mut tunnel = Raw::tunnel(node.address("web"), &echo.address().to_string(), "").unwrap();
    tunnel.send("here");
    assert_eq!(tunnel.exactly(4), b"here");

    withdrawn.store(true, Ordering::SeqCst);
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::SeqCst) {
                Client::connect(node.address("web")).statuses("http://site/admin", 600);
            }
        });
        drop(tunnel.rest());
        ended.store(true, Ordering::SeqCst);
    });
}

#[test]
fn a_server_that_hangs_is_away_soon_and_there_again_with_its_first_answer() {
    let status = Arc::new(AtomicU16::new(403));
    let says = status.clone();
    let server = deciding(move |_| Answer::new(says.load(Ordering::SeqCst), &[]));
    let node = node(&server, "");
    assert_eq!(asked(&node, "GET", ""), 403);

    status.store(0, Ordering::SeqCst);
    assert_eq!(asked(&node, "GET", ""), 503, "one question proves nothing");
    eventually_true("it is away", || asked(&node, "GET", "") == 200);
    status.store(403, Ordering::SeqCst);
    eventually_true("it decides again", || asked(&node, "GET", "") == 403);
}
