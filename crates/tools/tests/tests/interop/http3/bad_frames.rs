//! Frames, settings, QPACK, datagrams and capsules that break the rules, made by hand and sent by quiche and h3i. Each ends the
//! connection or the stream with the code of its specification, and nothing else: other connections do not notice.

use hermes_tests::shown::shown_of;
use hermes_tests::{HttpPeer, Node, Pki, Role, origins};
use serde_json::{Value, json};

use super::NAMES;

// Codes of RFC 9114, 8.1, RFC 9204, 6 and RFC 9297, 5.2.
const DATAGRAM_ERROR: u64 = 0x33;
const STREAM_CREATION: u64 = 0x103;
const CLOSED_CRITICAL: u64 = 0x104;
const UNEXPECTED: u64 = 0x105;
const FRAME_ERROR: u64 = 0x106;
const ID_ERROR: u64 = 0x108;
const SETTINGS_ERROR: u64 = 0x109;
const MISSING_SETTINGS: u64 = 0x10a;
const MESSAGE_ERROR: u64 = 0x10e;
const DECOMPRESSION_FAILED: u64 = 0x200;
const ENCODER_STREAM: u64 = 0x201;
const DECODER_STREAM: u64 = 0x202;

// Streams that a client opens.
const REQUEST: u64 = 0;
const CONTROL: u64 = 2;
const SECOND: u64 = 6;
const THIRD: u64 = 10;

/// What the node does.
#[derive(Debug, Clone, Copy)]
enum Expected {
    /// Closes the connection.
    Closes(u64),
    /// Resets the stream.
    Resets(u64),
    /// Answers.
    Answers(u16),
}
use Expected::{Answers, Closes, Resets};

/// Bytes on a stream, and whether it ends behind them.
#[derive(Debug, Clone)]
struct Step(u64, Vec<u8>, bool);

impl Step {
    fn word(&self) -> String {
        let hex: String = self.1.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{}-{hex}{}", self.0, if self.2 { "-fin" } else { "" })
    }
}

/// RFC 9000, 16.
fn varint(number: u64) -> Vec<u8> {
    match number {
        0..64 => vec![number as u8],
        64..16_384 => (0x4000 | number as u16).to_be_bytes().to_vec(),
        _ => (0xc000_0000_0000_0000 | number).to_be_bytes().to_vec(),
    }
}

fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    [&varint(kind), &varint(payload.len() as u64), payload].concat()
}

/// SETTINGS with these identifiers and values.
fn settings(pairs: &[(u64, u64)]) -> Vec<u8> {
    let payload: Vec<u8> = pairs
        .iter()
        .flat_map(|(id, value)| [varint(*id), varint(*value)].concat())
        .collect();
    frame(4, &payload)
}

/// HEADERS whose lines are literal in name and value (RFC 9204, 4.5.6).
fn headers(lines: &[(&str, &str)]) -> Vec<u8> {
    let mut section = vec![0, 0];
    for (name, value) in lines {
        match name.len() {
            short @ 0..7 => section.push(0x20 | short as u8),
            long => section.extend([0x27, (long - 7) as u8]),
        }
        section.extend(name.bytes());
        section.push(value.len() as u8);
        section.extend(value.bytes());
    }
    frame(1, &section)
}

const GET: [(&str, &str); 4] = [
    (":method", "GET"),
    (":scheme", "http"),
    (":authority", "VIDEO"),
    (":path", "/"),
];

/// A control stream with these frames behind its type.
fn control(frames: &[Vec<u8>]) -> Step {
    Step(CONTROL, [vec![0], frames.concat()].concat(), false)
}

/// A request of these frames behind good settings.
fn request(frames: &[Vec<u8>]) -> Vec<Step> {
    vec![
        control(&[settings(&[])]),
        Step(REQUEST, frames.concat(), true),
    ]
}

/// A request with one field more.
fn with(name: &str, value: &str) -> Vec<u8> {
    headers(&[&GET[..], &[(name, value)]].concat())
}

struct Bench {
    pki: Pki,
    node: Node,
    udp: origins::Origin<(std::net::SocketAddr, Vec<u8>)>,
    _http: origins::Origin<origins::Request>,
}

impl Bench {
    fn new() -> Self {
        let (pki, http, udp) = (Pki::new(), origins::http(), origins::udp_echo(origins::V4));
        let yaml = format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0, tls: {{ {} }} }} }}
            routes:
              - {{ match: {{ target: VIDEO }}, terminate: video }}
              - {{ terminate: true }}
            upstreams: {{ video: {{ endpoints: ["{}"] }} }}
            egress: {{ allow: [127.0.0.0/8] }}
            "#,
            pki.issue(&NAMES).yaml(),
            http.address()
        );
        Self {
            node: Node::start("node", &yaml),
            pki,
            udp,
            _http: http,
        }
    }

    fn ask(&self, action: &str, words: &[String]) -> Value {
        let words: Vec<&str> = [action]
            .into_iter()
            .chain(words.iter().map(String::as_str))
            .collect();
        HttpPeer::Quiche.client(&self.pki.ca(), self.node.address("web"), &words)
    }

    /// Sends these steps of each case, and compares what came of them.
    fn check(&self, cases: &[(&str, Vec<Step>, Expected)]) {
        let mut wrong = Vec::new();
        for (name, steps, expected) in cases {
            let words: Vec<String> = steps.iter().map(Step::word).collect();
            let got = self.ask("raw", &words);
            let right = match expected {
                Closes(code) => got["closed"] == json!(code),
                Resets(code) => got["closed"].is_null() && got["reset"] == json!(code),
                Answers(status) => {
                    got["closed"].is_null() && got["status"] == json!(status.to_string())
                }
            };
            if !right {
                wrong.push(format!("{name}: {expected:x?}, but {got}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        self.serves();
    }

    /// Another client is served as ever.
    fn serves(&self) {
        let got = self.ask(
            "raw",
            &request(&[headers(&GET)])
                .iter()
                .map(Step::word)
                .collect::<Vec<_>>(),
        );
        assert_eq!(
            (&got["status"], &got["closed"]),
            (&json!("200"), &Value::Null),
            "{got}"
        );
    }
}

#[test]
fn settings_and_control_streams_are_held_to_their_rules() {
    let good = settings(&[]);
    let closes = |name, frames: &[Vec<u8>], code| (name, vec![control(frames)], Closes(code));
    Bench::new().check(&[
        closes(
            "a setting twice",
            &[settings(&[(6, 1000), (6, 1000)])],
            SETTINGS_ERROR,
        ),
        closes(
            "a setting of HTTP/2",
            &[settings(&[(2, 0)])],
            SETTINGS_ERROR,
        ),
        closes(
            "extended CONNECT is 2",
            &[settings(&[(8, 2)])],
            SETTINGS_ERROR,
        ),
        closes("datagrams are 2", &[settings(&[(0x33, 2)])], SETTINGS_ERROR),
        closes("half a setting", &[frame(4, &[6])], FRAME_ERROR),
        closes("SETTINGS twice", &[good.clone(), good.clone()], UNEXPECTED),
        closes("no SETTINGS first", &[frame(7, &[0])], MISSING_SETTINGS),
        closes(
            "DATA on the control stream",
            &[good.clone(), frame(0, b"x")],
            UNEXPECTED,
        ),
        closes(
            "HEADERS on the control stream",
            &[good.clone(), headers(&GET)],
            UNEXPECTED,
        ),
        closes(
            "a frame of HTTP/2",
            &[good.clone(), frame(8, &[0, 0, 0, 1])],
            UNEXPECTED,
        ),
        closes(
            "GOAWAY that grows",
            &[good.clone(), frame(7, &[4]), frame(7, &[8])],
            ID_ERROR,
        ),
        closes(
            "MAX_PUSH_ID that shrinks",
            &[good.clone(), frame(0xd, &[4]), frame(0xd, &[2])],
            ID_ERROR,
        ),
        closes(
            "a priority of a server's stream",
            &[good.clone(), frame(0xf0700, b"\x01u=1")],
            ID_ERROR,
        ),
        closes(
            "CANCEL_PUSH of no push",
            &[good.clone(), frame(3, &[0])],
            ID_ERROR,
        ),
        (
            "a second control stream",
            vec![
                control(std::slice::from_ref(&good)),
                Step(SECOND, vec![0], false),
            ],
            Closes(STREAM_CREATION),
        ),
        (
            "a push of a client",
            vec![
                control(std::slice::from_ref(&good)),
                Step(SECOND, vec![1], false),
            ],
            Closes(STREAM_CREATION),
        ),
        (
            "a control stream that ends",
            vec![Step(CONTROL, [vec![0], good].concat(), true)],
            Closes(CLOSED_CRITICAL),
        ),
    ]);
    showed();
}

#[test]
fn requests_are_held_to_their_rules() {
    let (head, content) = (headers(&GET), frame(0, b"x"));
    let without = |left_out: &str| {
        headers(
            &GET.into_iter()
                .filter(|line| line.0 != left_out)
                .collect::<Vec<_>>(),
        )
    };
    let resets = |name, frames: &[Vec<u8>]| (name, request(frames), Resets(MESSAGE_ERROR));
    Bench::new().check(&[
        (
            "content before a head",
            request(std::slice::from_ref(&content)),
            Closes(UNEXPECTED),
        ),
        (
            "content behind trailers",
            request(&[head.clone(), headers(&[("a", "b")]), content.clone()]),
            Closes(UNEXPECTED),
        ),
        (
            "SETTINGS on a request",
            request(&[settings(&[])]),
            Closes(UNEXPECTED),
        ),
        (
            "a frame of HTTP/2",
            request(&[frame(2, &[0; 5])]),
            Closes(UNEXPECTED),
        ),
        (
            "PUSH_PROMISE of a client",
            request(&[frame(5, &[0, 0, 0])]),
            Closes(UNEXPECTED),
        ),
        (
            "a frame cut off",
            request(&[vec![1, 30, 0, 0]]),
            Closes(FRAME_ERROR),
        ),
        resets("no method", &[without(":method")]),
        resets("no path", &[without(":path")]),
        resets(
            "a pseudo-header field behind a field",
            &[headers(&[&[("a", "b")], &GET[..]].concat())],
        ),
        resets("a pseudo-header field twice", &[with(":path", "/b")]),
        resets("an unknown pseudo-header field", &[with(":status", "200")]),
        resets("a name with a capital", &[with("Accept", "x")]),
        resets("a field of a connection", &[with("connection", "close")]),
        resets("a line feed in a value", &[with("a", "b\nc")]),
        // RFC 9114, 4.1.2: an answer may say so instead, where there is someone to ask for it.
        (
            "less content than announced",
            request(&[with("content-length", "2"), content.clone()]),
            Answers(400),
        ),
        (
            "more content than announced",
            request(&[with("content-length", "0"), content]),
            Answers(400),
        ),
        (
            "a pseudo-header field in trailers",
            request(&[head.clone(), headers(&[(":path", "/")])]),
            Answers(400),
        ),
        (
            "a frame that no one knows",
            request(&[frame(0x21, b"x"), head]),
            Answers(200),
        ),
        (
            "a protocol that no one knows",
            request(&[extended("connect-dream", "/")]),
            Answers(501),
        ),
    ]);
    showed();
}

#[test]
fn qpack_is_held_to_the_limits_that_were_announced() {
    let section = |bytes: &[u8]| request(&[frame(1, bytes)]);
    let second = |bytes: &[u8]| {
        vec![
            control(&[settings(&[])]),
            Step(SECOND, bytes.to_vec(), false),
        ]
    };
    let both = [Step(THIRD, vec![2], false)];
    Bench::new().check(&[
        (
            "a line of the dynamic table",
            section(&[2, 0, 0x80]),
            Closes(DECOMPRESSION_FAILED),
        ),
        (
            "a line behind the static table",
            section(&[0, 0, 0xff, 60]),
            Closes(DECOMPRESSION_FAILED),
        ),
        (
            "an integer without end",
            section(&[0, 0, 0xff, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255]),
            Closes(DECOMPRESSION_FAILED),
        ),
        (
            "a section cut off",
            section(&[0, 0, 0x27]),
            Closes(DECOMPRESSION_FAILED),
        ),
        (
            "bad Huffman padding",
            section(&[0, 0, 0x2b, 0, 0, 0, 0]),
            Closes(DECOMPRESSION_FAILED),
        ),
        (
            "room for a dynamic table",
            second(&[2, 0x3f, 1]),
            Closes(ENCODER_STREAM),
        ),
        (
            "a line for the dynamic table",
            second(&[2, 0x41, b'a', 1, b'b']),
            Closes(ENCODER_STREAM),
        ),
        (
            "an acknowledgement of nothing",
            second(&[3, 0x80]),
            Closes(DECODER_STREAM),
        ),
        (
            "an increment of nothing",
            second(&[3, 0x00]),
            Closes(DECODER_STREAM),
        ),
        (
            "a second encoder stream",
            [second(&[2]), both.to_vec()].concat(),
            Closes(STREAM_CREATION),
        ),
    ]);
    showed();
}

/// An extended CONNECT to a node on this machine.
fn extended(protocol: &str, path: &str) -> Vec<u8> {
    headers(&[
        (":method", "CONNECT"),
        (":protocol", protocol),
        (":scheme", "https"),
        (":authority", "VIDEO"),
        (":path", path),
        ("capsule-protocol", "?1"),
    ])
}

#[test]
fn datagrams_are_held_to_their_rules() {
    let bench = Bench::new();
    let cases: [(&str, &[u8], u64); 3] = [
        ("no quarter stream ID", &[], DATAGRAM_ERROR),
        ("half a quarter stream ID", &[0xc0, 0], DATAGRAM_ERROR),
        (
            "of no stream that can be",
            &[0xd0, 0, 0, 0, 0, 0, 0, 0, 1],
            DATAGRAM_ERROR,
        ),
    ];
    for (name, bytes, code) in cases {
        let words: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let got = bench.ask("datagram", &words);
        assert_eq!(got["closed"], json!(code), "{name}: {got}");
    }
    bench.serves();
    showed();
}

#[test]
fn capsules_are_held_to_their_rules() {
    let bench = Bench::new();
    let head = extended(
        "connect-udp",
        &format!("/.well-known/masque/udp/127.0.0.1/{}/", bench.udp.port()),
    );
    let tunnel = |capsules: &[u8]| request(&[head.clone(), frame(0, capsules)]);
    let resets = |name, capsules: &[u8]| (name, tunnel(capsules), Resets(MESSAGE_ERROR));
    bench.check(&[
        resets("a capsule cut off", &[0, 5, 0, 1]),
        resets("a type cut off", &[0xc0, 0]),
        resets("a datagram without a context", &[0, 0]),
        (
            "a capsule that no one knows",
            tunnel(&frame(0x1_7777, &[1; 3000])),
            Answers(200),
        ),
        (
            "a context that no one knows",
            tunnel(&frame(0, &[2, 1, 1])),
            Answers(200),
        ),
    ]);
    assert!(
        bench.udp.seen().is_empty(),
        "nothing of it reached the target"
    );
    showed();
}

fn showed() {
    shown_of(
        "quiche",
        || HttpPeer::Quiche.version(),
        Role::Client,
        "bad frames",
    );
}
