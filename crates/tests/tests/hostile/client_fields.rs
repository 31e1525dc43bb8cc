//! Fields by which an origin could be told that a request comes from someone else.

use hermes_tests::frames::{
    DATA, END_HEADERS, END_STREAM, HEADERS, HELLO, field, frame, parse, request,
};
use hermes_tests::origins;
use hermes_tests::raw::Raw;

use crate::versions::Versions;

/// As origins of different makes believe them; the last ones are what CGI and its heirs make the same.
const FORGED: [(&str, &str); 14] = [
    ("x-forwarded-for", "203.0.113.9"),
    ("x-forwarded-host", "admin.example"),
    ("x-forwarded-proto", "https"),
    ("x-forwarded-client-cert", "Subject=\"CN=root\""),
    ("x-real-ip", "203.0.113.9"),
    ("x-client-ip", "203.0.113.9"),
    ("true-client-ip", "203.0.113.9"),
    ("cf-connecting-ip", "203.0.113.9"),
    ("client-cert", ":AAAA:"),
    ("client-cert-chain", ":AAAA:"),
    ("x-ssl-client-dn", "CN=root"),
    ("x-original-url", "/admin"),
    ("x_forwarded_for", "203.0.113.9"),
    ("client_cert", ":AAAA:"),
];

fn node(keys: &str, more: &str, origin: &str) -> Versions {
    let rest = format!(
        r#"
        {more}
        routes: [ {{ terminate: video, expose: [forwarded] }} ]
        upstreams: {{ video: {{ endpoints: ["{origin}"] }} }}
        "#
    );
    Versions::start(keys, &rest)
}

#[test]
fn what_a_client_says_of_its_origin_reaches_no_one() {
    let origin = origins::http();
    let node = node("", "", &origin.address().to_string());
    let fields = [
        &FORGED[..],
        &[("forwarded", "for=203.0.113.9"), ("accept", "text/plain")],
    ]
    .concat();
    for came in node.get("VIDEO", "/", &fields) {
        assert_eq!(came.status, 200, "{came:?}");
        let seen = origin.last();
        for (name, _) in FORGED {
            assert_eq!(seen.field(name), None, "{name}: {came:?}");
        }
        assert_eq!(seen.field("accept").as_deref(), Some("text/plain"));
        // What the node itself knows stays true.
        assert!(
            seen.field("forwarded")
                .unwrap()
                .starts_with("for=127.0.0.1"),
            "{seen:?}"
        );
    }
}

#[test]
fn a_listener_accepts_what_its_clients_may_say() {
    let origin = origins::http();
    let node = node(
        ", accepts: [x-forwarded-for]",
        "",
        &origin.address().to_string(),
    );
    for _ in node.get("VIDEO", "/", &FORGED) {
        assert_eq!(
            origin.last().field("x-forwarded-for").as_deref(),
            Some("203.0.113.9")
        );
        assert_eq!(origin.last().field("x-real-ip"), None);
    }
}

#[test]
fn the_list_is_the_operators() {
    let origin = origins::http();
    let node = node(
        "",
        "provenance: [x-my-proxy]",
        &origin.address().to_string(),
    );
    for _ in node.get(
        "VIDEO",
        "/",
        &[("x-my-proxy", "1"), ("x-real-ip", "203.0.113.9")],
    ) {
        assert_eq!(origin.last().field("x-my-proxy"), None);
        assert_eq!(
            origin.last().field("x-real-ip").as_deref(),
            Some("203.0.113.9")
        );
    }
}

#[test]
fn a_peer_is_believed() {
    let origin = origins::http();
    let node = node(
        ", insecure_trust: [127.0.0.0/8]",
        "",
        &origin.address().to_string(),
    );
    let came = node.h1("GET", "VIDEO", "/", &FORGED);
    assert_eq!(came.status, 200, "{came:?}");
    assert_eq!(
        origin.last().field("x-forwarded-for").as_deref(),
        Some("203.0.113.9")
    );
}

/// What else routes or decides, and what stands in no list.
const LATE: [(&str, &str); 4] = [
    ("forwarded", "for=203.0.113.9"),
    ("via", "1.1 forged"),
    ("user", "forged-user"),
    ("x-http-method-override", "DELETE"),
];

/// What the codec of HTTP/1.1 takes in no trailer.
const REFUSED: [(&str, &str); 4] = [
    ("authorization", "Basic cm9vdDo="),
    ("cookie", "session=forged"),
    ("max-forwards", "forged-count"),
    ("content-type", "forged/type"),
];

/// What an origin says of a request over HTTP/1.1 with these trailers and a checksum.
fn trailed_h1(node: &Versions, lines: &[(&str, &str)]) -> String {
    let lines: String = lines
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let mut raw = Raw::connect(node.node.address("web"));
    raw.send(format!(
        "POST http://VIDEO/post HTTP/1.1\r\nHost: VIDEO\r\nTransfer-Encoding: chunked\r\n\r\n\
         4\r\nbody\r\n0\r\n{lines}x-checksum-md5: 1\r\n\r\n",
    ));
    let (head, content) = raw.response();
    assert_eq!(head.status(), 200);
    String::from_utf8(content).unwrap()
}

/// The same over HTTP/2.
fn trailed_h2(node: &Versions, lines: &[(&str, &str)]) -> String {
    let mut trailers: Vec<u8> = lines
        .iter()
        .flat_map(|(name, value)| field(name.as_bytes(), value.as_bytes()))
        .collect();
    trailers.extend(field(b"x-checksum-md5", b"1"));
    let mut raw = Raw::connect(node.node.address("web"));
    raw.send(HELLO);
    raw.send(frame(
        HEADERS,
        END_HEADERS,
        1,
        &request("POST", "VIDEO", "/post"),
    ));
    raw.send(frame(DATA, 0, 1, b"body"));
    raw.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, &trailers));
    let is_whole = |bytes: &[u8]| {
        parse(bytes)
            .iter()
            .any(|frame| frame.0 == DATA && frame.1 & END_STREAM != 0)
    };
    let content = parse(&raw.until(is_whole))
        .into_iter()
        .filter(|frame| frame.0 == DATA)
        .flat_map(|frame| frame.3);
    String::from_utf8(content.collect()).unwrap()
}

/// What comes behind the content comes after everything was decided.
#[test]
fn no_trailer_says_so_either() {
    let origin = origins::http();
    let node = node(
        ", accepts: [x-real-ip, x-forwarded-for]",
        "",
        &origin.address().to_string(),
    );
    let mut lines = FORGED.to_vec();
    lines.extend(LATE);
    let over_h1 = trailed_h1(&node, &lines);
    lines.extend(REFUSED);
    for said in [over_h1, trailed_h2(&node, &lines)] {
        assert!(said.contains("x-checksum-md5"), "{said}");
        for (name, value) in &lines {
            assert!(
                !said.contains(name) && !said.contains(value),
                "{name}: {said}"
            );
        }
    }
}
