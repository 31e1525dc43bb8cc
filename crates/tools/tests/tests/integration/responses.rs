//! Responses of origins that err or lie: the client gets either the truth or an error, and no one else's response.

use hermes_tests::h2c::Client;
use hermes_tests::raw::Raw;
use hermes_tests::{Node, curl, eventually, origins};
use http::Request;

/// What the client gets for this answer of the origin: status, and the error in `Proxy-Status`.
fn got(node: &Node, answer: &str) -> (u16, String) {
    let origin = origins::scripted_once(answer);
    let got = curl(&[
        "-x",
        &node.url("web"),
        &format!("http://{}/", origin.address()),
    ]);
    let status = got.field("proxy-status").unwrap_or_default();
    let error = status
        .split(';')
        .find_map(|part| part.trim().strip_prefix("error="))
        .unwrap_or_default();
    (got.status, error.to_owned())
}

#[test]
fn responses_that_can_be_read_in_two_ways_are_bad_gateways() {
    let node = Node::forward_proxy();
    let cases = [
        (
            "CL and TE",
            "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ),
        (
            "two lengths",
            "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nbody",
        ),
        (
            "a negative length",
            "HTTP/1.1 200 OK\r\nContent-Length: -4\r\n\r\nbody",
        ),
        ("bare LF", "HTTP/1.1 200 OK\nContent-Length: 4\n\nbody"),
        (
            "a fold before all fields",
            "HTTP/1.1 200 OK\r\n 2\r\nContent-Length: 0\r\n\r\n",
        ),
        ("no status", "HTTP/1.1 OK\r\nContent-Length: 0\r\n\r\n"),
        (
            "a status of four digits",
            "HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n",
        ),
        ("no HTTP", "SSH-2.0-OpenSSH_9.9\r\n\r\n"),
        (
            "an unasked 101",
            "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
        ),
    ];
    for (case, answer) in cases {
        assert_eq!(
            got(&node, answer),
            (502, "http_protocol_error".to_owned()),
            "{case}"
        );
    }
    assert_eq!(
        got(&node, "HTTP/1.1 200 OK\r\nContent-").0,
        502,
        "a head that breaks off"
    );
    assert_eq!(got(&node, "").0, 502, "no answer at all");
    let long = format!(
        "HTTP/1.1 200 OK\r\nx: {}\r\nContent-Length: 0\r\n\r\n",
        "y".repeat(300_000)
    );
    assert_eq!(got(&node, &long).0, 502, "a head without end");
}

#[test]
fn content_that_ends_with_the_connection_arrives_whole() {
    let node = Node::forward_proxy();
    let origin = origins::scripted_once("HTTP/1.1 200 OK\r\n\r\nto the end\n");
    let url = format!("http://{}/", origin.address());
    let answer = curl(&["-x", &node.url("web"), &url]);
    assert_eq!(
        (answer.exit, answer.text().as_str()),
        (0, "to the end\n"),
        "{answer:?}"
    );
    let origin = origins::scripted_once("HTTP/1.0 200 OK\r\n\r\nto the end\n");
    let answer = curl(&[
        "-0",
        "-x",
        &node.url("web"),
        &format!("http://{}/", origin.address()),
    ]);
    assert_eq!(
        (answer.exit, answer.text().as_str()),
        (0, "to the end\n"),
        "{answer:?}"
    );
}

#[test]
fn a_length_that_is_not_kept_is_no_orderly_end() {
    let node = Node::forward_proxy();
    let origin = origins::scripted_once("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
    let uri = format!("http://{}/", origin.address());
    let answer = curl(&["-x", &node.url("web"), &uri]);
    assert_ne!(answer.exit, 0, "{answer:?}");
    let origin = origins::scripted_once("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
    let uri = format!("http://{}/", origin.address());
    let client = Client::connect(node.address("web"));
    assert!(
        client
            .send(Request::get(&uri).body(()).unwrap(), b"")
            .is_err(),
        "a stream is reset"
    );
}

#[test]
fn what_an_origin_says_unasked_is_no_response() {
    let node = Node::forward_proxy();
    let origin = origins::scripted(
        "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nmineHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison",
    );
    for _ in 0..5 {
        let answer = curl(&[
            "-x",
            &node.url("web"),
            &format!("http://{}/", origin.address()),
        ]);
        assert_eq!(
            (answer.status, answer.text().as_str()),
            (200, "mine"),
            "{answer:?}"
        );
    }
    assert_eq!(
        origin.connections(),
        5,
        "a connection with more than was asked for is not kept"
    );
}

#[test]
fn a_kept_connection_that_died_is_replaced_unseen() {
    let node = Node::forward_proxy();
    let origin = origins::scripted_once("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody");
    for _ in 0..5 {
        let answer = curl(&[
            "-x",
            &node.url("web"),
            &format!("http://{}/", origin.address()),
        ]);
        assert_eq!(
            (answer.status, answer.text().as_str()),
            (200, "body"),
            "{answer:?}"
        );
    }
}

#[test]
fn a_response_before_the_end_of_the_request_arrives() {
    let node = Node::forward_proxy();
    let origin = origins::scripted(
        "HTTP/1.1 413 Content Too Large\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbig\n",
    );
    let authority = origin.address();
    let mut raw = Raw::connect(node.address("web"));
    raw.send(format!("POST http://{authority}/ HTTP/1.1\r\nHost: {authority}\r\nContent-Length: 1000000\r\n\r\nfirst"));
    let (head, body) = raw.response();
    assert_eq!((head.status(), body.as_slice()), (413, b"big\n".as_slice()));
}

#[test]
fn a_refusal_arrives_although_content_is_still_on_its_way() {
    let node = Node::start(
        "alice",
        "listeners: { web: { http: 127.0.0.1:0 } }\nroutes: [ { respond: { status: 403 } } ]\n",
    );
    let file = node.folder().join("upload");
    std::fs::write(&file, vec![b'u'; 3_000_000]).unwrap();
    for _ in 0..10 {
        let answer = curl(&[
            "-x",
            &node.url("web"),
            "-H",
            "Expect:",
            "-T",
            file.to_str().unwrap(),
            "http://a/",
        ]);
        assert_eq!(
            answer.status, 403,
            "the answer is not lost to a reset: {answer:?}"
        );
    }
}

#[test]
fn a_head_request_and_204_have_no_content_whatever_the_origin_says() {
    let node = Node::forward_proxy();
    let origin = origins::scripted("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n");
    let authority = origin.address();
    let mut raw = Raw::connect(node.address("web"));
    for _ in 0..2 {
        raw.send(format!(
            "HEAD http://{authority}/ HTTP/1.1\r\nHost: {authority}\r\n\r\n"
        ));
        let head = raw.head();
        assert_eq!(
            (head.status(), head.field("content-length").as_deref()),
            (200, Some("4")),
            "{head:?}"
        );
    }
    assert_eq!(origin.connections(), 1);
    let origin = origins::scripted("HTTP/1.1 204 No Content\r\n\r\n");
    let answer = curl(&[
        "-x",
        &node.url("web"),
        &format!("http://{}/", origin.address()),
    ]);
    assert_eq!(
        (answer.status, answer.field("content-length")),
        (204, None),
        "{answer:?}"
    );
}

#[test]
fn an_origin_that_falls_silent_is_given_up() {
    let node = Node::start(
        "alice",
        r#"
        listeners: { web: { http: 127.0.0.1:0 } }
        routes: [ { terminate: true, timeouts: { idle: 200ms } } ]
        egress: { allow: [127.0.0.0/8] }
        "#,
    );
    let origin = origins::http();
    let answer = curl(&[
        "-x",
        &node.url("web"),
        &format!("http://{}/slow", origin.address()),
    ]);
    assert_ne!(answer.exit, 0, "{answer:?}");
    assert_eq!(answer.text(), "first\n");
    let record = node.record(|_| true);
    assert!(
        record["reason"].as_str().unwrap().starts_with("idle"),
        "{record}"
    );
}

#[test]
fn many_clients_at_once_each_get_their_own() {
    let (node, origin) = (Node::forward_proxy(), origins::http());
    let (authority, web) = (origin.address(), node.address("web"));
    std::thread::scope(|scope| {
        for client in 0..16 {
            scope.spawn(move || {
                let mut raw = Raw::connect(web);
                for round in 0..20 {
                    raw.send(format!("GET http://{authority}/{client}/{round} HTTP/1.1\r\nHost: {authority}\r\n\r\n"));
                    let (head, body) = raw.response();
                    assert_eq!(head.status(), 200);
                    let seen: serde_json::Value = serde_json::from_slice(&body).unwrap();
                    assert_eq!(seen["uri"], format!("/{client}/{round}"));
                }
            });
        }
    });
    assert_eq!(
        eventually("every record", || (node.access().len() == 320)
            .then(|| node.access().len())),
        320
    );
}

#[test]
fn an_upload_that_stops_is_given_up() {
    let node = Node::start(
        "alice",
        r#"
        listeners: { web: { http: 127.0.0.1:0 } }
        routes: [ { terminate: true, timeouts: { idle: 200ms } } ]
        egress: { allow: [127.0.0.0/8] }
        "#,
    );
    let origin = origins::http();
    let authority = origin.address();
    let mut raw = Raw::connect(node.address("web"));
    raw.send(format!("POST http://{authority}/post HTTP/1.1\r\nHost: {authority}\r\nContent-Length: 10\r\n\r\nhalf"));
    assert_eq!(raw.head().status(), 408);
    raw.rest();
    node.idle();
}

#[test]
fn a_client_that_leaves_over_http_2_ends_the_exchange_at_the_origin() {
    let (node, origin) = (Node::forward_proxy(), origins::http());
    let client = Client::connect(node.address("web"));
    let mut request = client.begin(&format!("http://{}/slow", origin.address()));
    eventually("the response has begun", || {
        (node.exchanges().first()?["target_to_client"] == 6).then_some(())
    });
    request.send_reset(h2::Reason::CANCEL);
    node.idle();
    let record = node.record(|_| true);
    assert!(
        record["reason"].as_str().unwrap().starts_with("client_"),
        "{record}"
    );
}

#[test]
fn a_client_that_leaves_ends_the_exchange_at_every_hop_over_http_1() {
    let (last, origin) = (Node::forward_proxy(), origins::http());
    let first = Node::start(
        "first",
        &format!(
            "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\nroutes: [ {{ to: last }} ]\n\
             upstreams: {{ last: {{ endpoints: [\"{}\"], http: 1 }} }}\n",
            last.address("web")
        ),
    );
    // The origin is silent: before its head, and within its content.
    for (path, came) in [("hang", 0), ("slow", 6)] {
        let mut raw = Raw::connect(first.address("web"));
        raw.send(format!(
            "GET http://{0}/{path} HTTP/1.1\r\nHost: {0}\r\n\r\n",
            origin.address()
        ));
        let begun = || {
            last.exchanges().first()?["endpoint"]
                .is_string()
                .then_some(())
        };
        eventually("the last node asks the origin", begun);
        eventually("all that came is passed on", || {
            (first.exchanges().first()?["target_to_client"] == came).then_some(())
        });
        raw.reset();
        first.idle();
        last.idle();
    }
}

#[test]
fn an_endpoint_in_a_unix_socket_is_reached() {
    let folder = tempfile::tempdir().unwrap();
    let inner = Node::start(
        "inner",
        &format!(
            "listeners: {{ door: {{ http: \"unix:{}/door.sock\" }} }}\nroutes: [ {{ respond: {{ status: 200, body: inner }} }} ]\n",
            folder.path().display()
        ),
    );
    let outer = Node::start(
        "outer",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
            routes: [ {{ to: inner }} ]
            upstreams: {{ inner: {{ endpoints: ["unix:{}/door.sock"], http: 2 }} }}
            "#,
            folder.path().display()
        ),
    );
    let got = curl(&["-x", &outer.url("web"), "http://video/"]);
    assert_eq!((got.status, got.text().as_str()), (200, "inner"), "{got:?}");
    assert_eq!(inner.record(|_| true)["protocol"], "h2");
}

#[test]
fn a_refused_upload_is_not_asked_for_first() {
    let node = Node::start(
        "alice",
        "listeners: { web: { http: 127.0.0.1:0 } }\nroutes: [ { respond: { status: 403 } } ]\n",
    );
    let mut raw = Raw::connect(node.address("web"));
    raw.send("POST http://a/ HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\nExpect: 100-continue\r\n\r\n");
    let (head, _) = raw.response();
    assert_eq!(
        (head.status(), head.field("connection").as_deref()),
        (403, Some("close")),
        "{head:?}"
    );
    assert_eq!(raw.rest().0, b"");
}
