//! Origins and attached nodes that send interim responses (1xx) or trailers without end: they cost their own exchange.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use hermes_tests::Node;
use hermes_tests::eventually::eventually_true;
use hermes_tests::frames::{
    DATA, END_HEADERS, END_STREAM, HEADERS, HELLO, PING, SETTINGS, field, frame, parse, request,
};
use hermes_tests::raw::Raw;

/// Interim responses of a flood, each of a KiB: far more than what sockets hold.
const FLOOD: usize = 60_000;

/// What a flood may cost a node, in bytes.
const COST: usize = 32 * 1024 * 1024;

/// A server that answers each request with a flood of 103 and then 200, over HTTP/1.1 or HTTP/2.
fn flooding(version: u8) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            thread::spawn(move || {
                if version == 1 {
                    flood_h1(stream)
                } else {
                    flood_h2(stream, &interim_frame())
                }
            });
        }
    });
    address
}

fn flood_h1(mut stream: TcpStream) {
    stream
        .set_write_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    drop(stream.read(&mut [0; 4096]));
    let interim = format!(
        "HTTP/1.1 103 Early Hints\r\nlink: {}\r\n\r\n",
        "x".repeat(1024)
    );
    for _ in 0..FLOOD {
        if stream.write_all(interim.as_bytes()).is_err() {
            return;
        }
    }
    drop(stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"));
}

/// A 103 of a KiB, on the first stream.
fn interim_frame() -> Vec<u8> {
    let mut fields = field(b":status", b"103");
    (0..8).for_each(|_| fields.extend(field(b"link", &[b'x'; 120])));
    frame(HEADERS, END_HEADERS, 1, &fields)
}

/// Answers the first request with `each`, very often, and then with 200.
fn flood_h2(mut stream: TcpStream, each: &[u8]) {
    drop(stream.write_all(&frame(SETTINGS, 0, 0, b"")));
    until(&mut stream, HEADERS);
    flood(stream, each);
}

/// Reads until a frame of this kind has come.
fn until(stream: &mut TcpStream, kind: u8) {
    let (mut heard, mut piece) = (Vec::new(), [0; 4096]);
    while let Ok(length @ 1..) = stream.read(&mut piece) {
        heard.extend_from_slice(&piece[..length]);
        let frames = if heard.starts_with(b"PRI") {
            heard.get(24..).unwrap_or_default()
        } else {
            &heard
        };
        if parse(frames).iter().any(|frame| frame.0 == kind) {
            return;
        }
    }
}

fn node(origin: SocketAddr, version: u8) -> Node {
    Node::start(
        "edge",
        &format!(
            r#"
            workers: 1
            listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
            routes: [ {{ terminate: origin }} ]
            upstreams: {{ origin: {{ endpoints: ["{origin}"], http: {version} }} }}
            "#
        ),
    )
}

/// A client that asks, and reads nothing.
fn ask(node: &Node, version: u8) -> Raw {
    let mut raw = Raw::connect(node.address("web"));
    if version == 1 {
        raw.send("GET http://origin/ HTTP/1.1\r\nHost: origin\r\n\r\n");
    } else {
        raw.send(HELLO);
        raw.send(frame(
            HEADERS,
            END_HEADERS | END_STREAM,
            1,
            &request("GET", "origin", "/"),
        ));
    }
    raw
}

#[test]
fn interim_responses_without_end_cost_their_exchange_and_no_memory() {
    for (of_origin, of_client) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
        let node = node(flooding(of_origin), of_origin);
        let before = node.peak();
        let client = ask(&node, of_client);
        let record = node.record(|record| record["kind"] == "http");
        let what = format!("HTTP/{of_origin} to HTTP/{of_client}: {record:#}");
        assert_eq!(record["status"], 502, "{what}");
        assert!(record.to_string().contains("interim responses"), "{what}");
        let cost = node.peak().saturating_sub(before);
        assert!(cost < COST, "{cost} bytes, {what}");
        drop(client);
    }
}

#[test]
fn a_few_interim_responses_pass_and_one_too_many_is_502() {
    for (count, status) in [(32, 200), (33, 502)] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let node = node(listener.local_addr().unwrap(), 1);
        let mut client = ask(&node, 1);
        let mut origin = listener.accept().unwrap().0;
        drop(origin.read(&mut [0; 4096]));
        let interim = "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n".repeat(count);
        origin
            .write_all(format!("{interim}HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").as_bytes())
            .unwrap();
        assert!((0..32).all(|_| client.head().status() == 103));
        assert_eq!(client.head().status(), status);
    }
}

/// The proxy that a hostile node attaches to as `server`.
fn core() -> Node {
    Node::start(
        "core",
        r#"
        workers: 2
        listeners: { web: { http: 127.0.0.1:0, user: server } }
        routes: [ { match: { protocol: ptth }, attach: true }, { to: users } ]
        upstreams: { users: { attached: "{target.host}" } }
        "#,
    )
}

/// Attaches, and answers the first exchange with `each`, very often.
fn attach(core: &Node, each: Vec<u8>) {
    let mut stream = TcpStream::connect(core.address("web")).unwrap();
    let head = "GET /.well-known/ptth/server/ HTTP/1.1\r\nHost: core\r\nConnection: upgrade\r\nUpgrade: ptth\r\nALPN: h2\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let mut byte = [0];
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        answer.push(byte[0]);
    }
    assert!(
        answer.starts_with(b"HTTP/1.1 101"),
        "{}",
        String::from_utf8_lossy(&answer)
    );
    thread::spawn(move || {
        // Answers the ping by which it is found out that this is HTTP/2.
        drop(stream.write_all(&frame(SETTINGS, 0, 0, b"")));
        let (mut heard, mut piece, mut answered) = (Vec::new(), [0; 4096], 0);
        while let Ok(length @ 1..) = stream.read(&mut piece) {
            heard.extend_from_slice(&piece[..length]);
            let frames = parse(heard.get(24..).unwrap_or_default());
            for (kind, flags, _, payload) in &frames[answered..] {
                match *kind {
                    PING if flags & 1 == 0 => {
                        drop(stream.write_all(&frame(PING, 1, 0, payload)));
                    }
                    HEADERS => return flood(stream, &each),
                    _ => {}
                }
            }
            answered = frames.len();
        }
    });
}

/// Sends `each` very often, and a 200.
fn flood(mut stream: TcpStream, each: &[u8]) {
    stream
        .set_write_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    let burst = each.repeat(16);
    for _ in 0..FLOOD / 16 {
        if stream.write_all(&burst).is_err() {
            return;
        }
    }
    drop(stream.write_all(&frame(
        HEADERS,
        END_HEADERS | END_STREAM,
        1,
        &field(b":status", b"200"),
    )));
}

#[test]
fn attached_nodes_send_no_more_of_them_than_origins() {
    let core = core();
    attach(&core, interim_frame());
    eventually_true("the node is attached", || {
        core.status()["attached"]
            .as_array()
            .is_some_and(|attached| !attached.is_empty())
    });
    let before = core.peak();
    let mut client = Raw::connect(core.address("web"));
    client.send("GET http://server/ HTTP/1.1\r\nHost: server\r\n\r\n");
    let record = core.record(|record| record["kind"] == "http");
    assert!(
        record["status"] == 502 && record.to_string().contains("interim responses"),
        "{record:#}"
    );
    let cost = core.peak().saturating_sub(before);
    assert!(cost < COST, "{cost} bytes");
}

#[test]
fn trailers_of_an_attached_node_come_once() {
    let core = core();
    let mut trailers = Vec::new();
    (0..8).for_each(|_| trailers.extend(field(b"x-sum", &[b'x'; 120])));
    let mut answer = frame(HEADERS, END_HEADERS, 1, &field(b":status", b"200"));
    answer.extend(frame(DATA, 0, 1, b"content"));
    // The first of them does not end the stream, as trailers must (RFC 9113, 8.1).
    answer.extend(frame(HEADERS, END_HEADERS, 1, &trailers).repeat(64));
    attach(&core, answer);
    eventually_true("the node is attached", || {
        core.status()["attached"]
            .as_array()
            .is_some_and(|attached| !attached.is_empty())
    });
    let before = core.peak();
    let mut client = Raw::connect(core.address("web"));
    client.send("GET http://server/ HTTP/1.1\r\nHost: server\r\n\r\n");
    let record = core.record(|record| record["kind"] == "http");
    assert!(
        record["reason"].as_str().unwrap().contains("reset"),
        "{record:#}"
    );
    let cost = core.peak().saturating_sub(before);
    assert!(cost < COST, "{cost} bytes");
}
