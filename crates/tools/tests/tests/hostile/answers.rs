//! Answers that break rules in ways that RFC 9110 and RFC 9112 say how to read: they pass or are mended, over every version, and no
//! byte of one becomes another's answer.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use hermes_tests::frames::{DATA, END_HEADERS, END_STREAM, HEADERS, SETTINGS, field, frame, parse};
use hermes_tests::origins;
use hermes_tests::raw::Raw;

use crate::versions::{Came, Versions};

fn node(origin: SocketAddr, version: u8) -> Versions {
    let rest = format!(
        r#"
        routes: [ {{ terminate: origin }} ]
        upstreams: {{ origin: {{ endpoints: ["{origin}"], http: {version} }} }}
        "#
    );
    Versions::start("", &rest)
}

/// What clients of each version get of an HTTP/1.1 origin that answers so and closes.
fn got(answer: &str) -> [Came; 3] {
    let origin = origins::scripted_once(answer);
    node(origin.address(), 1).get("origin", "/", &[])
}

#[test]
fn answers_without_content_end_at_the_empty_line() {
    for announced in ["Content-Length: 5", "Transfer-Encoding: chunked"] {
        for [interim, status] in [["", "204 No Content"], ["103 Early Hints", "204 x"]] {
            let interim = if interim.is_empty() {
                String::new()
            } else {
                format!("HTTP/1.1 {interim}\r\n{announced}\r\n\r\n")
            };
            let answer = format!("{interim}HTTP/1.1 {status}\r\n{announced}\r\n\r\n");
            for came in got(&answer) {
                let is_final = came.status == 204 || came.status == 103;
                assert!(
                    is_final && !came.said.contains("content-length"),
                    "{answer}: {came:?}"
                );
            }
        }
    }
}

#[test]
fn an_upgrade_is_accepted_with_a_length() {
    for announced in [
        "Content-Length: 0",
        "Content-Length: 5",
        "Transfer-Encoding: chunked",
    ] {
        let origin = origins::scripted(&format!(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: chat\r\n{announced}\r\n\r\n"
        ));
        let rest = format!(
            "routes: [ {{ terminate: origin, upgrades: [chat] }} ]\nupstreams: {{ origin: {{ endpoints: [\"{}\"] }} }}\n",
            origin.address()
        );
        let [h1, h2, h3] = Versions::start("", &rest).upgrade("chat", "origin", "/");
        assert_eq!(
            (h1.status, h2.status, h3.status),
            (101, 200, 200),
            "{announced}: {h1:?} {h2:?} {h3:?}"
        );
    }
}

#[test]
fn statuses_from_600_pass_over_every_version() {
    for came in got("HTTP/1.1 999 Request denied\r\nContent-Length: 2\r\n\r\nno") {
        assert_eq!(came.status, 999, "{came:?}");
    }
}

#[test]
fn defects_that_a_proxy_mends_are_mended() {
    for (lines, mended) in [
        ("x-note : a\r\nContent-Length: 2", "a"),
        ("x-note: a\r\n b\r\nContent-Length: 2", "a   b"),
        ("x-note: a\u{1}b\r\nContent-Length: 2", "a b"),
        ("x-note: a\r\nContent-Length: 2\r\nContent-Length: 2", "a"),
        ("x-note: a\r\nContent-Length: 2, 2", "a"),
        (
            "x-note: a\r\nConnection: \"keep-alive\"\r\nContent-Length: 2",
            "a",
        ),
    ] {
        for came in got(&format!("HTTP/1.1 200 OK\r\n{lines}\r\n\r\nok")) {
            let has_field = came.said.contains("x-note") && came.said.contains(mended);
            assert!(came.status == 200 && has_field, "{lines}: {came:?}");
        }
    }
}

/// The content has passed when they come: all that could come of a refusal is a reset.
#[test]
fn trailers_that_must_not_be_trailers_are_left_out() {
    let answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nContent-Type : a/b\r\nx-sum: 1\r\n\r\n";
    let origin = origins::scripted_once(answer);
    let node = node(origin.address(), 1);
    let mut raw = Raw::connect(node.node.address("web"));
    raw.send(
        "GET http://origin/ HTTP/1.1\r\nHost: origin\r\nConnection: close\r\nTE: trailers\r\n\r\n",
    );
    let said = String::from_utf8(raw.rest().0).unwrap();
    assert!(said.ends_with("0\r\nx-sum: 1\r\n\r\n"), "{said}");
    for came in [
        node.h2("GET", "origin", "/", &[]),
        node.h3("GET", "origin", "/", &[]),
    ] {
        assert!(came.status == 200 && came.said.contains("ok"), "{came:?}");
    }
}

/// An origin sends the content that 204 must not have; it would be read as the head of the next answer, of another client.
#[test]
fn content_that_must_not_come_is_nobodys_answer() {
    let forged = "HTTP/1.1 200 OK\r\nx-forged: 1\r\nContent-Length: 0\r\n\r\n";
    let origin = origins::scripted(&format!(
        "HTTP/1.1 204 No Content\r\nContent-Length: {}\r\n\r\n{forged}",
        forged.len()
    ));
    let node = node(origin.address(), 1);
    for _ in 0..20 {
        for came in node.get("origin", "/", &[]) {
            assert!(
                came.status == 204 && !came.said.contains("x-forged"),
                "{came:?}"
            );
        }
    }
}

/// An HTTP/2 origin that answers each request with these fields and `ok`.
fn h2_origin(fields: &[(&str, &str)]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let lines = fields
        .iter()
        .map(|(name, value)| field(name.as_bytes(), value.as_bytes()));
    let head = lines.collect::<Vec<_>>().concat();
    thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let head = head.clone();
            thread::spawn(move || answer_all(stream, &head));
        }
    });
    address
}

/// Answers each request of a connection with this head and `ok`.
fn answer_all(mut stream: TcpStream, head: &[u8]) {
    drop(stream.write_all(&frame(SETTINGS, 0, 0, b"")));
    let mut heard = Vec::new();
    let mut piece = [0; 4096];
    let mut answered = 0;
    while let Ok(length @ 1..) = stream.read(&mut piece) {
        heard.extend_from_slice(&piece[..length]);
        let frames = parse(heard.get(24..).unwrap_or_default());
        for (kind, _, number, _) in &frames[answered..] {
            if *kind == HEADERS {
                drop(stream.write_all(&frame(HEADERS, END_HEADERS, *number, head)));
                drop(stream.write_all(&frame(DATA, END_STREAM, *number, b"ok")));
            }
        }
        answered = frames.len();
    }
}

#[test]
fn answers_of_http_2_origins_are_read_alike() {
    let origin = h2_origin(&[
        (":status", "999"),
        ("content-length", "2"),
        ("content-length", "2"),
    ]);
    for came in node(origin, 2).get("origin", "/", &[]) {
        assert_eq!(came.status, 999, "{came:?}");
    }
}

#[test]
fn where_an_origin_sends_clients_the_node_does_not_go() {
    let elsewhere = origins::http();
    let trap = elsewhere.address();
    for status in ["302 x", "308 x", "200 x"] {
        let answer = format!(
            "HTTP/1.1 {status}\r\nLocation: http://{trap}/\r\nContent-Location: http://{trap}/\r\nRefresh: 0; url=http://{trap}/\r\n\
             Alt-Svc: h2c=\"{trap}\"; ma=3600; persist=1\r\nLink: <http://{trap}/>; rel=preload\r\nContent-Length: 0\r\n\r\n"
        );
        let origin = origins::scripted(&answer);
        let node = node(origin.address(), 1);
        // The second time, what the first one said could count.
        for _ in 0..2 {
            for came in node.get("origin", "/", &[]) {
                let expected: u16 = status[..3].parse().unwrap();
                assert_eq!(came.status, expected, "{came:?}");
                assert!(came.said.contains(&trap.to_string()), "{came:?}");
            }
        }
    }
    assert_eq!(elsewhere.connections(), 0);
}
