//! Servers of gRPC that answer in every way, and clients whose words they are told.

use std::time::Duration;

use hermes_tests::attacks::crowded_filter::crowd;
use hermes_tests::eventually::eventually_true;
use hermes_tests::h2c::Client;
use hermes_tests::origins::{self, Call, Origin, called, framed};
use hermes_tests::raw::Raw;
use hermes_tests::{Node, curl};
use http::Request;

/// `status { code: 0 }`, `ok_response {}`.
const ALLOWED: &[u8] = b"\x0a\x00\x1a\x00";

/// `status { code: 7 }`.
const DENIED: &[u8] = b"\x0a\x02\x08\x07";

fn node(server: &Origin<Vec<u8>>, to: &str) -> Node {
    let yaml = format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\n\
         authorize: [ {{ name: check, kind: grpc, url: \"http://{}\", timeout: 500ms, fail: open, send: [\"x-*\", cookie] }} ]\n\
         routes: [ {to} ]\n\
         egress: {{ allow: [127.0.0.0/8] }}\n",
        server.address()
    );
    Node::start("sap", &yaml)
}

/// What the client wrote in `x-case`, in a question.
fn case(call: &[u8]) -> String {
    let text = String::from_utf8_lossy(call);
    let after = text.split("x-case").nth(1).unwrap_or_default();
    let word = after.trim_start_matches(|letter: char| !letter.is_ascii_alphabetic());
    word.chars().take_while(char::is_ascii_alphabetic).collect()
}

fn answer(content: Vec<u8>, result: &str) -> Call {
    Call::Answer {
        head: (200, Vec::new()),
        content,
        trailers: vec![("grpc-status", result.to_owned())],
    }
}

/// A length-delimited field of a message.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let length = u8::try_from(content.len()).unwrap();
    assert!(length < 128);
    [&[number << 3 | 2, length][..], content].concat()
}

/// `ok_response` with a header.
fn header(name: &str, value: &str) -> Vec<u8> {
    let pair = [field(1, name.as_bytes()), field(2, value.as_bytes())].concat();
    field(3, &field(2, &field(1, &pair)))
}

/// What a server says in each case; a client chooses the case, which is the worst that it could bring about.
fn bent(case: &str) -> Call {
    match case {
        "unknown" => Call::failed(2),
        "internal" => Call::failed(13),
        "unavailable" => Call::failed(14),
        "unimplemented" => Call::failed(12),
        "deadline" => Call::failed(4),
        "odd" => Call::failed(99),
        "late" => answer(framed(ALLOWED), "13"),
        "text" => answer(framed(ALLOWED), "zero"),
        "compressed" => answer([&[1, 0, 0, 0, 4][..], ALLOWED].concat(), "0"),
        "longer" => answer([&[0, 0, 0, 0, 9][..], ALLOWED].concat(), "0"),
        "shorter" => answer([&[0, 0, 0, 0, 2][..], ALLOWED].concat(), "0"),
        "twice" => answer([framed(DENIED), framed(ALLOWED)].concat(), "0"),
        "both" => answer(framed(&[ALLOWED, &field(2, b"")].concat()), "0"),
        "empty" => answer(framed(b""), "0"),
        "nothing" => answer(Vec::new(), "0"),
        "garbage" => answer(framed(b"\xff\xff\xff\xff"), "0"),
        "endless" => answer(framed(&vec![0; 100 * 1024]), "0"),
        "pseudo" => answer(framed(&header(":path", "/other")), "0"),
        "lines" => answer(framed(&header("x-a", "a\r\nb: c")), "0"),
        "html" => Call::Answer {
            head: (502, Vec::new()),
            content: b"<html>".to_vec(),
            trailers: Vec::new(),
        },
        "open" => Call::Answer {
            head: (200, Vec::new()),
            content: framed(ALLOWED),
            trailers: Vec::new(),
        },
        "reset" => Call::Reset(8),
        "refused" => Call::Reset(7),
        "broken" => Call::Broken(framed(ALLOWED)),
        "silence" => Call::Silence,
        "close" => Call::Close,
        _ => Call::message(DENIED),
    }
}

#[test]
fn no_answer_to_one_question_opens_anything() {
    let cases = [
        "unknown",
        "internal",
        "unavailable",
        "unimplemented",
        "deadline",
        "odd",
        "late",
        "text",
        "compressed",
        "longer",
        "shorter",
        "twice",
        "both",
        "empty",
        "nothing",
        "garbage",
        "endless",
        "pseudo",
        "lines",
        "html",
        "open",
        "reset",
        "refused",
        "broken",
        "silence",
        "close",
    ];
    let server = called(|call| bent(&case(call)));
    let node = node(&server, "{ respond: { status: 200, body: secret } }");
    for case in cases {
        let mut raw = Raw::connect(node.address("web"));
        raw.send(format!(
            "GET http://site/admin HTTP/1.1\r\nhost: site\r\nx-case: {case}\r\n\r\n"
        ));
        let status = raw.head().status();
        assert!((400..600).contains(&status), "{case}: {status}");

        // And nothing is left of it for those who come after.
        let got = curl(&["-x", &node.url("web"), "http://site/"]);
        assert_eq!(got.status, 403, "after {case}");
    }
}

#[test]
fn a_crowd_of_one_client_opens_nothing() {
    // A question that has to wait for its turn has less time left than the server takes.
    let denied = Call::After(Duration::from_millis(300), Box::new(Call::message(DENIED)));
    let server = called(move |_| denied.clone());
    let node = node(&server, "{ respond: { status: 200, body: secret } }");
    let statuses = crowd(node.address("web"), "http://site/admin");
    assert!(statuses.contains(&503), "it is crowded");
    let passed = statuses.iter().filter(|status| **status == 200).count();
    assert_eq!(passed, 0, "of {}", statuses.len());
    eventually_true("the server decides again", || {
        curl(&["-x", &node.url("web"), "http://site/admin"]).status == 403
    });
}

#[test]
fn a_server_is_told_what_is_forwarded() {
    let origin = origins::http();
    let server = called(|_| Call::message(ALLOWED));
    let node = node(&server, "{ terminate: true }");
    let site = origin.address();
    let ask = |lines: &str, path: &str| {
        let mut raw = Raw::connect(node.address("web"));
        raw.send(format!(
            "GET http://{site}{path} HTTP/1.1\r\nhost: other.example\r\n{lines}\r\n"
        ));
        (
            raw.head().status(),
            String::from_utf8_lossy(&server.last()).into_owned(),
        )
    };

    // The host of the target, not the one beside it.
    let (status, told) = ask("", "/a");
    assert_eq!(status, 200);
    assert!(
        told.contains(&site.to_string()) && !told.contains("other.example"),
        "{told}"
    );
    assert_eq!(origin.last().field("host"), Some(site.to_string()));

    // Two lines are one list, there and here.
    let (_, told) = ask("x-role: user\r\nx-other: 1\r\nX-Role: admin\r\n", "/a");
    assert!(told.contains("user,admin"), "{told}");
    let forwarded = origin.last().field("x-role").unwrap();
    assert_eq!(forwarded.replace(' ', ""), "user,admin");

    // Other writings of a path are told in the form in which routes compare them.
    let (_, told) = ask("", "/%61dmin/./x?q=%61");
    assert!(told.contains("/admin/x?q=%61"), "{told}");

    // Cookies in pieces are one field (RFC 9113, 8.2.3).
    let client = Client::connect(node.address("web"));
    let request = Request::get(format!("http://{site}/c"))
        .header("cookie", "a=1")
        .header("cookie", "b=2");
    client.send(request.body(()).unwrap(), b"").unwrap();
    let told = String::from_utf8_lossy(&server.last()).into_owned();
    let forwarded = origin.last().field("cookie").unwrap();
    assert_eq!(forwarded, "a=1; b=2");
    assert!(told.contains("a=1; b=2"), "{told}");

    // A name of a pseudo-field or one of the node's own is no client's to write.
    let (status, told) = ask("x-forwarded-user: root\r\nx_forwarded_user: root\r\n", "/a");
    assert_eq!(status, 200);
    assert!(!told.contains("root"), "{told}");
}

#[test]
fn a_denial_is_one_answer_whatever_its_status_and_fields() {
    // Statuses that have no content, that open tunnels, or that mean something to clients.
    let denial = |status: u16, fields: &[(&str, &str)]| {
        let code = if status < 128 {
            vec![8, u8::try_from(status).unwrap()]
        } else {
            vec![8, (status & 127) as u8 | 128, (status >> 7) as u8]
        };
        let mut denied = field(1, &code);
        for (name, value) in fields {
            let pair = [field(1, name.as_bytes()), field(2, value.as_bytes())].concat();
            denied.extend(field(2, &field(1, &pair)));
        }
        denied.extend(field(3, b"HTTP/1.1 200 OK\r\n\r\n"));
        [DENIED, &field(2, &denied)].concat()
    };
    let framings = [("content-length", "3"), ("transfer-encoding", "x")];
    for status in [100, 101, 103, 200, 204, 205, 304, 407, 421, 999] {
        let message = denial(status, &framings);
        let server = called(move |_| Call::message(&message));
        let node = node(&server, "{ respond: { status: 200, body: secret } }");
        let mut raw = Raw::connect(node.address("web"));
        for _ in 0..2 {
            raw.send("GET http://site/admin HTTP/1.1\r\nhost: site\r\n\r\n");
            let (head, content) = raw.response();
            let got = head.status();
            assert!((300..600).contains(&got), "{status} became {got}");
            assert!(got != 304 || content.is_empty(), "{status}");
        }
    }
}
