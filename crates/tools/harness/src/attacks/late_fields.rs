//! Trailers with fields that must be known before the content: they come after every decision (RFC 9110, section 6.5.1).

use std::net::SocketAddr;

use super::{Attack, Effort, Party, Place, Stage};
use crate::frames::{DATA, END_HEADERS, END_STREAM, HEADERS, HELLO, field, frame, parse, request};
use crate::origins;
use crate::raw::Raw;

/// Fields about a client or its request that must not come behind its content.
const FORGED: [(&str, &str); 5] = [
    ("forwarded", "for=203.0.113.9"),
    ("x-forwarded-for", "203.0.113.10"),
    ("via", "1.1 forged"),
    ("user", "forged-user"),
    ("x-http-method-override", "DELETE"),
];

/// All of them in one request over each version.
pub(super) const TRAILERS: Attack = Attack {
    name: "late-fields",
    by: Party::Client,
    place: Place::Loopback,
    summary: "five trailers about the client and its request, over HTTP/1.1 and HTTP/2, to an origin that repeats what it hears",
    prepare,
    run,
};

fn prepare() -> Stage {
    let origin = origins::http();
    let upstreams = format!(
        "upstreams: {{ origin: {{ endpoints: [\"{}\"] }} }}",
        origin.address()
    );
    Stage::start("web: { http: 127.0.0.1:0 }", "{ to: origin }", &upstreams).keeping(origin)
}

fn run(stage: &Stage) -> Effort {
    let web = stage.node.address("web");
    let said = [trailed_h1(web, &FORGED), trailed_h2(web, &FORGED)];
    let passed = said.iter().flat_map(|said| {
        FORGED
            .iter()
            .filter(move |(name, value)| said.contains(name) || said.contains(value))
    });
    Effort {
        attempts: 2 * FORGED.len() as u64,
        bytes: 2 * 300,
        passed: passed.count() as u64,
        ..Effort::default()
    }
}

/// The origin's view of a request over HTTP/1.1 with these trailers and a checksum.
///
/// # Panics
/// When it is not answered.
pub fn trailed_h1(proxy: SocketAddr, lines: &[(&str, &str)]) -> String {
    let lines: String = lines
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let mut raw = Raw::connect(proxy);
    raw.send(format!(
        "POST http://VIDEO/post HTTP/1.1\r\nHost: VIDEO\r\nTransfer-Encoding: chunked\r\n\r\n\
         4\r\nbody\r\n0\r\n{lines}x-checksum-md5: 1\r\n\r\n",
    ));
    let (head, content) = raw.response();
    assert_eq!(head.status(), 200);
    String::from_utf8(content).unwrap()
}

/// The same over HTTP/2.
///
/// # Panics
/// As [`trailed_h1`].
pub fn trailed_h2(proxy: SocketAddr, lines: &[(&str, &str)]) -> String {
    let mut trailers: Vec<u8> = lines
        .iter()
        .flat_map(|(name, value)| field(name.as_bytes(), value.as_bytes()))
        .collect();
    trailers.extend(field(b"x-checksum-md5", b"1"));
    let mut raw = Raw::connect(proxy);
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
