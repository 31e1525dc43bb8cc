//! What a *server* can do on a link that we opened, frame by frame: the link ends, or one exchange, and no one else notices.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;

use hermes_tests::eventually::eventually_true;
use hermes_tests::frames::{
    CONTINUATION, DATA, END_HEADERS, ENHANCE_YOUR_CALM, GOAWAY, HEADERS, HELLO, PING, RST_STREAM,
    SETTINGS, WINDOW_UPDATE, field, frame, parse,
};
use hermes_tests::h2c::Client;
use hermes_tests::{Node, curl, origins};

/// The preface that precedes the frames of a client.
const PREFACE: usize = 24;

/// `:status: 200` as HPACK writes it (RFC 7541, appendix A).
const OK: &[u8] = &[0x88];

/// A node that reaches `evil` over a link, and a good server, too.
fn node(evil: SocketAddr, good: SocketAddr) -> Node {
    Node::start(
        "edge",
        &format!(
            r#"
            workers: 1
            listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
            routes: [ {{ match: {{ target: EVIL }}, to: evil }}, {{ terminate: good }} ]
            upstreams:
              evil: {{ endpoints: ["{evil}"], http: 2 }}
              good: {{ endpoints: ["{good}"] }}
            "#
        ),
    )
}

/// A server that sends these frames when the first request has come; what it hears until the link ends.
fn flooding(frames: Vec<u8>) -> (SocketAddr, JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let heard = std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        stream.write_all(&frame(SETTINGS, 0, 0, b"")).unwrap();
        let mut heard = Vec::new();
        first_request(&mut stream, &mut heard);
        // The link may end before it took everything.
        drop(stream.write_all(&frames));
        while read(&mut stream, &mut heard) > 0 {}
        heard
    });
    (address, heard)
}

fn read(stream: &mut TcpStream, into: &mut Vec<u8>) -> usize {
    let mut piece = [0; 16 * 1024];
    let length = stream.read(&mut piece).unwrap_or(0);
    into.extend_from_slice(&piece[..length]);
    length
}

/// Reads until a request has come, and meanwhile answers PING: a link is used when its peer has spoken.
fn first_request(stream: &mut TcpStream, heard: &mut Vec<u8>) {
    let mut answered = 0;
    while !frames_in(heard).iter().any(|(kind, ..)| *kind == HEADERS) {
        assert!(read(stream, heard) > 0, "the link ended");
        let frames = frames_in(heard);
        frames[answered..]
            .iter()
            .filter_map(pong)
            .for_each(|pong| stream.write_all(&pong).unwrap());
        answered = frames.len();
    }
}

/// The answer to a PING.
fn pong((kind, flags, _, payload): &(u8, u8, u32, Vec<u8>)) -> Option<Vec<u8>> {
    (*kind == PING && flags & 1 == 0).then(|| frame(PING, 1, 0, payload))
}

fn frames_in(heard: &[u8]) -> Vec<(u8, u8, u32, Vec<u8>)> {
    parse(heard.get(PREFACE..).unwrap_or_default())
}

/// The error that the node ended the link with.
fn farewell(heard: &[u8]) -> Option<u32> {
    farewell_in(heard.get(PREFACE..).unwrap_or_default())
}

/// The error in the last GOAWAY among these frames.
fn farewell_in(frames: &[u8]) -> Option<u32> {
    let frames = parse(frames);
    let last = frames.iter().rfind(|(kind, ..)| *kind == GOAWAY)?;
    last.3.get(4..8)?.try_into().ok().map(u32::from_be_bytes)
}

#[test]
fn a_server_that_floods_loses_its_link() {
    let good = origins::http();
    let floods = [
        (
            "SETTINGS",
            frame(SETTINGS, 0, 0, b"").repeat(5_000),
            ENHANCE_YOUR_CALM,
        ),
        (
            "PING",
            frame(PING, 0, 0, &[0; 8]).repeat(5_000),
            ENHANCE_YOUR_CALM,
        ),
        (
            "PRIORITY",
            frame(0x2, 0, 1, &[0, 0, 0, 0, 9]).repeat(5_000),
            ENHANCE_YOUR_CALM,
        ),
        (
            "an unknown type",
            frame(0x77, 0, 0, b"").repeat(5_000),
            ENHANCE_YOUR_CALM,
        ),
        (
            "WINDOW_UPDATE",
            frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]).repeat(20_000),
            ENHANCE_YOUR_CALM,
        ),
        (
            "RST_STREAM",
            frame(RST_STREAM, 0, 1, &[0, 0, 0, 8]).repeat(30_000),
            ENHANCE_YOUR_CALM,
        ),
        (
            "empty DATA",
            [
                frame(HEADERS, END_HEADERS, 1, OK),
                frame(DATA, 0, 1, b"").repeat(1_000),
            ]
            .concat(),
            ENHANCE_YOUR_CALM,
        ),
        (
            "CONTINUATION",
            [
                frame(HEADERS, 0, 1, OK),
                frame(CONTINUATION, 0, 1, b"").repeat(1_000),
            ]
            .concat(),
            ENHANCE_YOUR_CALM,
        ),
        // Pushes were declined (RFC 9113, 8.4).
        (
            "PUSH_PROMISE",
            frame(0x5, END_HEADERS, 1, &[0, 0, 0, 2, 0x82]),
            1,
        ),
    ];
    for (kind, frames, error) in floods {
        let (address, heard) = flooding(frames);
        let node = node(address, good.address());
        let answer = curl(&["-x", &node.url("web"), "http://EVIL/"]);
        assert!(
            answer.status == 502 || answer.exit != 0,
            "{kind}: {answer:?}"
        );
        assert_eq!(farewell(&heard.join().unwrap()), Some(error), "{kind}");
        // Everything on it has ended, and the log says why.
        let words = "a link over HTTP/2 is closed for an error of the peer";
        eventually_true(kind, || node.log().contains(words));
        assert_eq!(
            curl(&["-x", &node.url("web"), "http://GOOD/a"]).status,
            200,
            "{kind}: others are served"
        );
        node.idle();
    }
}

#[test]
fn a_head_without_end_costs_a_server_its_link() {
    let good = origins::http();
    let piece = field(b"x-padding", &[b'a'; 100]).repeat(100);
    let frames = [
        frame(HEADERS, 0, 1, OK),
        frame(CONTINUATION, 0, 1, &piece).repeat(1_000),
    ]
    .concat();
    let (address, heard) = flooding(frames);
    let node = node(address, good.address());
    let answer = curl(&["-x", &node.url("web"), "http://EVIL/"]);
    assert_eq!(answer.status, 502, "{answer:?}");
    assert!(farewell(&heard.join().unwrap()).is_some_and(|error| error != 0));
}

#[test]
fn empty_data_retires_a_link_before_it_breaks() {
    let good = origins::http();
    // 80 of them: above what retires a link, below what breaks it.
    let answer = [
        frame(HEADERS, END_HEADERS, 1, OK),
        frame(DATA, 0, 1, b"").repeat(80),
        frame(DATA, 1, 1, b"ok"),
    ]
    .concat();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        for _ in 0..2 {
            let mut stream = listener.accept().unwrap().0;
            stream.write_all(&frame(SETTINGS, 0, 0, b"")).unwrap();
            let mut heard = Vec::new();
            first_request(&mut stream, &mut heard);
            stream.write_all(&answer).unwrap();
            std::thread::spawn(move || while read(&mut stream, &mut heard) > 0 {});
        }
    });
    let node = node(address, good.address());
    for _ in 0..2 {
        let answer = curl(&["-x", &node.url("web"), "http://EVIL/"]);
        assert_eq!(
            (answer.status, answer.text().as_str()),
            (200, "ok"),
            "{answer:?}"
        );
    }
    server.join().unwrap();
}

/// A server that answers its first request as an echo, and makes us reset all others: a field of the connection is a stream error
/// (RFC 9113, 8.1.1 and 8.2.2).
fn made_to_reset() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        stream.write_all(&frame(SETTINGS, 0, 0, b"")).unwrap();
        let (mut heard, mut seen) = (Vec::new(), 0);
        while read(&mut stream, &mut heard) > 0 {
            let frames = frames_in(&heard);
            for heard in &frames[seen..] {
                let (kind, _, number, payload) = heard;
                let reply = match (*kind, *number) {
                    (PING, _) => pong(heard).unwrap_or_default(),
                    (HEADERS, 1) => frame(HEADERS, END_HEADERS, 1, OK),
                    (HEADERS, _) => frame(
                        HEADERS,
                        END_HEADERS,
                        *number,
                        &[OK, &field(b"connection", b"x")].concat(),
                    ),
                    (DATA, 1) => frame(DATA, 0, 1, payload),
                    _ => continue,
                };
                stream.write_all(&reply).unwrap();
            }
            seen = frames.len();
        }
    });
    address
}

#[test]
fn a_server_that_makes_us_reset_harms_only_those_exchanges() {
    let good = origins::http();
    let node = node(made_to_reset(), good.address());
    let client = Client::connect(node.address("web"));
    let mut tunnel = client.tunnel("EVIL:80", &[]).unwrap();
    for number in 0..300 {
        let request = http::Request::get(format!("http://EVIL/{number}"))
            .body(())
            .unwrap();
        let answer = client.send(request, b"").unwrap();
        assert_eq!(answer.status, 502, "{answer:?}");
    }
    tunnel.send("still here");
    assert_eq!(tunnel.exactly(10), b"still here");
    assert_eq!(curl(&["-x", &node.url("web"), "http://GOOD/a"]).status, 200);
}

/// What a client hears that sends these frames; all that is open is answered.
fn retired(listener: &str, frames: &[u8]) -> Vec<(u8, u8, u32, Vec<u8>)> {
    let node = Node::start(
        "edge",
        &format!(
            "workers: 1\nlisteners: {{ web: {{ http: 127.0.0.1:0, {listener} }} }}\nroutes: [ {{ respond: {{ status: 200 }} }} ]\n"
        ),
    );
    let mut raw = hermes_tests::raw::Raw::connect(node.address("web"));
    raw.send(HELLO);
    raw.send(frames);
    let (heard, end) = raw.rest();
    assert_eq!(end, hermes_tests::raw::End::Closed);
    parse(&heard)
}

#[test]
fn a_client_is_told_to_go_before_its_stream_identifiers_end() {
    let head = hermes_tests::frames::request("GET", "a", "/");
    let last = (1 << 30) + 1;
    for listener in ["public: true", "insecure_trust: [127.0.0.0/8]"] {
        let heard = retired(listener, &frame(HEADERS, END_HEADERS | 1, last, &head));
        let goodbye = heard.iter().rfind(|(kind, ..)| *kind == GOAWAY).unwrap();
        assert_eq!(goodbye.3[4..8], [0; 4], "in an orderly way");
        assert!(heard.iter().any(
            |(kind, _, number, fields)| (*kind, *number) == (HEADERS, last) && fields[0] == 0x88
        ));
    }
}

#[test]
fn a_link_that_its_server_closes_for_an_error_is_told_with_the_code() {
    let good = origins::http();
    // INTERNAL_ERROR, and NO_ERROR as from a server that is started anew.
    for (code, is_told) in [(2, true), (0, false)] {
        let (address, heard) = flooding(frame(GOAWAY, 0, 0, &[0, 0, 0, 0, 0, 0, 0, code]));
        let node = node(address, good.address());
        let answer = curl(&["-x", &node.url("web"), "http://EVIL/", "-m", "1"]);
        assert_ne!(answer.status, 200, "{answer:?}");
        drop(answer);
        let words = "the peer has closed a link over HTTP/2";
        if is_told {
            eventually_true("the log", || node.log().contains(words));
            assert!(node.log().contains("INTERNAL_ERROR"), "{}", node.log());
        } else {
            assert!(!node.log().contains(words), "{}", node.log());
        }
        drop(node);
        drop(heard);
    }
}

#[test]
fn a_link_that_its_client_floods_is_told_where_it_ends() {
    for (listener, is_link) in [
        ("insecure_trust: [127.0.0.0/8]", true),
        ("public: true", false),
    ] {
        let node = Node::start(
            "edge",
            &format!(
                "listeners: {{ web: {{ http: 127.0.0.1:0, {listener} }} }}\nroutes: [ {{ respond: {{ status: 200 }} }} ]\n"
            ),
        );
        let mut raw = hermes_tests::raw::Raw::connect(node.address("web"));
        raw.send(HELLO);
        raw.send(frame(PING, 0, 0, &[0; 8]).repeat(5_000));
        assert_eq!(farewell_in(&raw.rest().0), Some(ENHANCE_YOUR_CALM));
        eventually_true("the log", || node.log().contains("connection ended"));
        let words = "a link over HTTP/2 is closed for an error of the peer";
        assert_eq!(node.log().contains(words), is_link, "{}", node.log());
    }
}
