//! A user's HTTP requests through one node.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::thread;

use hermes_tests::raw::Raw;
use hermes_tests::{Node, curl, eventually, origins, program};

#[test]
fn a_get_comes_to_the_origin_as_it_was() {
    let (node, origin) = (Node::forward_proxy(), origins::http());
    let got = curl(&[
        "-x",
        &node.url("web"),
        "-H",
        "x-own: 1",
        &format!("http://{}/a?b=c", origin.address()),
    ]);
    assert_eq!((got.exit, got.status), (0, 200), "{got:?}");
    let seen = origin.last();
    assert_eq!((seen.method.as_str(), seen.uri.as_str()), ("GET", "/a?b=c"));
    assert_eq!(seen.field("x-own").as_deref(), Some("1"));
    assert_eq!(seen.field("host"), Some(origin.address().to_string()));
}

#[test]
fn every_method_keeps_its_name_and_its_content() {
    let (node, origin) = (Node::forward_proxy(), origins::http());
    let url = format!("http://{}/form", origin.address());
    for method in ["POST", "PUT", "PATCH", "DELETE", "PURGE"] {
        let got = curl(&[
            "-x",
            &node.url("web"),
            "-X",
            method,
            "-d",
            "name=value",
            &url,
        ]);
        assert_eq!(got.json()["method"], method);
        assert_eq!(got.json()["body"], "name=value");
        assert_eq!(got.json()["fields"]["content-length"], "10");
    }
}

#[test]
fn options_for_the_whole_server_stays_an_asterisk() {
    let (node, origin) = (Node::forward_proxy(), origins::http());
    let mut raw = Raw::connect(node.address("web"));
    let authority = origin.address();
    raw.send(format!(
        "OPTIONS http://{authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n"
    ));
    assert_eq!(raw.head().status(), 200);
    assert_eq!(origin.last().uri, "*");
}

#[test]
fn a_head_response_keeps_its_content_length() {
    let (node, origin) = (Node::forward_proxy(), origins::http());
    let got = curl(&[
        "-x",
        &node.url("web"),
        "-I",
        &format!("http://{}/bytes/12345", origin.address()),
    ]);
    assert_eq!((got.exit, got.status), (0, 200), "{got:?}");
    assert_eq!(got.field("content-length").as_deref(), Some("12345"));
    assert!(
        got.body.is_empty() || got.text().starts_with("HTTP/1.1 200"),
        "{got:?}"
    );
}

#[test]
fn not_modified_passes_without_content() {
    let (node, origin) = (Node::forward_proxy(), origins::http());
    let url = format!("http://{}/etag", origin.address());
    let got = curl(&[
        "-x",
        &node.url("web"),
        "-H",
        "If-None-Match: \"v1\"",
        &url,
        &url,
        "-o",
        "/dev/null",
    ]);
    assert_eq!((got.exit, got.status, got.connects), (0, 304, 1), "{got:?}");
    assert_eq!(got.field("etag").as_deref(), Some("\"v1\""));
}

#[test]
fn a_large_download_arrives_whole() {
    let (node, origin) = (Node::forward_proxy(), origins::http());
    let got = curl(&[
        "-x",
        &node.url("web"),
        &format!("http://{}/bytes/50000000", origin.address()),
    ]);
    assert_eq!((got.exit, got.body.len()), (0, 50_000_000));
    let record = node.record(|_| true);
    assert_eq!(record["bytes"]["target_to_client"], 50_000_000);
}

#[test]
fn a_large_upload_arrives_whole() {
    let (node, origin) = (Node::forward_proxy(), origins::http());
    let file = node.folder().join("upload");
    fs::write(&file, vec![b'u'; 50_000_000]).unwrap();
    let url = format!("http://{}/post", origin.address());
    let got = curl(&["-x", &node.url("web"), "-T", file.to_str().unwrap(), &url]);
    assert_eq!((got.exit, got.status), (0, 200), "{}", got.stderr);
    assert_eq!(got.json()["bytes"], 50_000_000);
}

/// Bytes that show a loss, a doubling, a change of order, or a byte of another message.
fn pattern(seed: usize, length: usize) -> Vec<u8> {
    (0..length)
        .map(|index| (index * 7 + index / 251 + seed) as u8)
        .collect()
}

/// Answers as many requests on one connection with their own content.
fn echo(requests: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let mut raw = Raw::from(listener.accept().unwrap().0);
        for _ in 0..requests {
            let (_, content) = raw.response();
            raw.send(format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n",
                content.len()
            ));
            raw.send(&content);
        }
    });
    address
}

#[test]
fn large_messages_one_after_the_other_on_one_connection_stay_apart() {
    const LENGTHS: [usize; 5] = [3_000_017, 1, 70_000, 2_000_003, 16 * 1024];
    let (node, authority) = (Node::forward_proxy(), echo(LENGTHS.len()));
    let mut raw = Raw::connect(node.address("web"));
    let mut sender = raw.other();
    let sending = thread::spawn(move || {
        for (seed, length) in LENGTHS.into_iter().enumerate() {
            sender.send(format!(
                "POST http://{authority}/ HTTP/1.1\r\nHost: {authority}\r\nContent-Length: {length}\r\n\r\n"
            ));
            sender.send(pattern(seed, length));
        }
    });
    for (seed, length) in LENGTHS.into_iter().enumerate() {
        let (head, content) = raw.response();
        assert_eq!((head.status(), content.len()), (200, length));
        assert!(
            content == pattern(seed, length),
            "the content of {length} bytes differs"
        );
    }
    sending.join().unwrap();
    for length in LENGTHS {
        node.record(|record| {
            let bytes = &record["bytes"];
            bytes["client_to_target"] == length && bytes["target_to_client"] == length
        });
    }
}

#[test]
fn large_content_that_breaks_off_does_not_look_whole() {
    let origin = origins::scripted_once(&format!(
        "HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n\r\n{}",
        "x".repeat(2_000_000)
    ));
    let (node, authority) = (Node::forward_proxy(), origin.address());
    let mut raw = Raw::connect(node.address("web"));
    raw.send(format!(
        "GET http://{authority}/ HTTP/1.1\r\nHost: {authority}\r\n\r\n"
    ));
    assert_eq!(raw.head().status(), 200);
    let (content, _) = raw.rest();
    assert!(content.len() < 3_000_000);
    let record = node.record(|_| true);
    assert!(
        record["reason"]
            .as_str()
            .unwrap()
            .starts_with("target_reset"),
        "{record}"
    );
}

#[test]
fn content_of_unknown_length_streams_both_ways() {
    let (node, origin) = (Node::forward_proxy(), origins::http());
    let file = node.folder().join("upload");
    fs::write(&file, vec![b'u'; 300_000]).unwrap();
    let (data, url) = (
        format!("@{}", file.display()),
        format!("http://{}/echo", origin.address()),
    );
    let got = curl(&[
        "-x",
        &node.url("web"),
        "-H",
        "Transfer-Encoding: chunked",
        "--data-binary",
        &data,
        &url,
    ]);
    assert_eq!((got.exit, got.body.len()), (0, 300_000), "{}", got.stderr);
    assert_eq!(
        origin.last().field("transfer-encoding").as_deref(),
        Some("chunked")
    );
    assert_eq!(origin.last().field("content-length"), None);
    assert_eq!(got.field("transfer-encoding").as_deref(), Some("chunked"));
}

#[test]
fn content_is_passed_on_as_it_comes() {
    let (node, origin) = (Node::forward_proxy(), origins::http());
    let mut raw = Raw::connect(node.address("web"));
    let authority = origin.address();
    raw.send(format!(
        "GET http://{authority}/slow HTTP/1.1\r\nHost: {authority}\r\n\r\n"
    ));
    assert_eq!(raw.head().status(), 200);
    assert_eq!(raw.exactly(11), b"6\r\nfirst\n\r\n");
    origin.release();
    assert_eq!(raw.exactly(15), b"5\r\nlast\n\r\n0\r\n\r\n");
}

#[test]
fn trailers_pass_in_both_directions() {
    let (node, origin) = (Node::forward_proxy(), origins::http());
    let authority = origin.address();
    let mut raw = Raw::connect(node.address("web"));
    raw.send(format!(
        "POST http://{authority}/post HTTP/1.1\r\nHost: {authority}\r\nTransfer-Encoding: chunked\r\n\
         Trailer: x-sum\r\n\r\n3\r\nabc\r\n0\r\nx-sum: 7\r\n\r\n"
    ));
    let (_, body) = raw.response();
    assert_eq!(
        serde_json::from_slice::<serde_json::Value>(&body).unwrap()["trailers"]["x-sum"],
        "7"
    );

    let answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-checksum\r\n\r\n\
                  5\r\nbody\n\r\n0\r\nx-checksum: 42\r\n\r\n";
    let origin = origins::scripted(answer);
    let authority = origin.address();
    raw.send(format!(
        "GET http://{authority}/ HTTP/1.1\r\nHost: {authority}\r\nTE: trailers\r\nConnection: TE\r\n\r\n"
    ));
    assert_eq!(raw.head().status(), 200);
    let end = "5\r\nbody\n\r\n0\r\nx-checksum: 42\r\n\r\n";
    assert_eq!(String::from_utf8_lossy(&raw.exactly(end.len())), end);
}

#[test]
fn early_hints_arrive_before_the_response() {
    let (node, origin) = (Node::forward_proxy(), origins::early_hints());
    let authority = origin.address();
    let mut raw = Raw::connect(node.address("web"));
    raw.send(format!(
        "GET http://{authority}/ HTTP/1.1\r\nHost: {authority}\r\n\r\n"
    ));
    let hints = raw.head();
    assert_eq!(hints.status(), 103, "{hints:?}");
    assert_eq!(
        hints.field("link").as_deref(),
        Some("</style.css>; rel=preload")
    );
    origin.release();
    let (head, body) = raw.response();
    assert_eq!(
        (head.status(), body.as_slice()),
        (200, b"done\n".as_slice())
    );
}

#[test]
fn a_client_that_expects_100_continue_is_told_so() {
    let (node, origin) = (Node::forward_proxy(), origins::http());
    let authority = origin.address();
    let mut raw = Raw::connect(node.address("web"));
    raw.send(format!(
        "POST http://{authority}/post HTTP/1.1\r\nHost: {authority}\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n"
    ));
    assert_eq!(raw.head().status(), 100);
    raw.send("body");
    let (head, body) = raw.response();
    assert_eq!(head.status(), 200);
    assert_eq!(
        serde_json::from_slice::<serde_json::Value>(&body).unwrap()["bytes"],
        4
    );
}

#[test]
fn ipv6_serves_end_to_end() {
    let origin = origins::http_on("[::1]:0".parse().unwrap());
    let node = Node::start(
        "alice",
        r#"
        listeners: { web: { http: "[::1]:0" } }
        routes: [ { terminate: true } ]
        egress: { allow: ["::1/128"] }
        "#,
    );
    let got = curl(&[
        "-x",
        &node.url("web"),
        &format!("http://{}/a", origin.address()),
    ]);
    assert_eq!((got.exit, got.status), (0, 200), "{got:?}");
    assert_eq!(
        origin.last().field("host"),
        Some(origin.address().to_string())
    );
}

#[test]
fn a_unix_socket_serves_its_user() {
    let origin = origins::http();
    let node = Node::start(
        "gate",
        &format!(
            r#"
            listeners: {{ door: {{ http: "unix:door.sock", gateway: true }} }}
            routes: [ {{ terminate: origin }} ]
            upstreams: {{ origin: {{ endpoints: ["{}"] }} }}
            "#,
            origin.address()
        ),
    );
    let door = node.folder().join("door.sock");
    let got = curl(&["--unix-socket", door.to_str().unwrap(), "http://video/a"]);
    assert_eq!((got.exit, got.status), (0, 200), "{got:?}");
    assert_eq!(origin.last().field("host").as_deref(), Some("video"));
}

#[test]
fn connections_are_kept_on_both_sides() {
    let (node, origin) = (Node::forward_proxy(), origins::http());
    let url = format!("http://{}/a", origin.address());
    let got = curl(&[
        "-x",
        &node.url("web"),
        &url,
        &url,
        &url,
        "-o",
        "/dev/null",
        "-o",
        "/dev/null",
    ]);
    assert_eq!((got.exit, got.status, got.connects), (0, 200, 1), "{got:?}");
    assert_eq!(origin.seen().len(), 3);
    assert_eq!(origin.connections(), 1);
}

#[test]
fn a_client_that_breaks_off_breaks_off_the_origin() {
    let (node, origin) = (Node::forward_proxy(), origins::tcp_sink());
    let authority = origin.address();
    let mut raw = Raw::connect(node.address("web"));
    raw.send(format!(
        "POST http://{authority}/ HTTP/1.1\r\nHost: {authority}\r\nContent-Length: 100\r\n\r\nhalf"
    ));
    eventually("the exchange is live", || {
        node.exchanges()
            .into_iter()
            .find(|exchange| exchange["client_to_target"] == 4)
    });
    raw.reset();
    node.idle();
    let ended = eventually("the origin's connection ends", || origin.seen().pop());
    assert_eq!(
        String::from_utf8_lossy(&ended),
        "ConnectionReset",
        "an upload that breaks off is no orderly end"
    );
}

#[test]
fn a_response_that_breaks_off_is_not_ended_orderly() {
    let node = Node::forward_proxy();
    let origin = origins::scripted_once(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
    );
    let got = curl(&[
        "-x",
        &node.url("web"),
        &format!("http://{}/", origin.address()),
    ]);
    assert_ne!(got.exit, 0, "{got:?}");
    assert_eq!(got.text(), "half");
}

#[test]
fn environment_variables_lead_a_program_through_the_node() {
    let node = Node::start(
        "alice",
        "listeners: { web: { http: 127.0.0.1:0 } }\nroutes: [ { respond: { status: 418 } } ]\n",
    );
    let said = program::command()
        .args([
            "exec",
            "--proxy",
            &node.url("web"),
            "--",
            "curl",
            "-q",
            "-sS",
            "-o",
            "/dev/null",
        ])
        .args(["-w", "%{http_code}", "http://video.test:81/a"])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&said.stdout), "418", "{said:?}");
    assert_eq!(node.record(|_| true)["target"], "video.test:81/a");
}
