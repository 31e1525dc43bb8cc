//! Heads that are large and never whole, of clients and of origins, and large heads of origins that no one takes: they cost who sends them.

use std::time::Duration;

use hermes_tests::eventually::eventually_true;
use hermes_tests::frames::{CONTINUATION, END_HEADERS, END_STREAM, HEADERS, HELLO, frame, request};
use hermes_tests::raw::Raw;
use hermes_tests::{Node, Pki, h3flood, origins};

use crate::heads::bystander;
use crate::standing::{MIB, settled};

/// Connections of one source, each with [`PAD`] bytes of a head: 30 MiB.
const CONNECTIONS: usize = 600;
const PAD: usize = 52_000;

/// A node whose memory for one source is 4 MiB.
fn node(limits: &str) -> Node {
    Node::start(
        "edge",
        &format!(
            r#"
            workers: 1
            listeners: {{ web: {{ http: 127.0.0.1:0, limits: {{ {limits} }} }} }}
            routes: [ {{ terminate: true }} ]
            egress: {{ allow: [127.0.0.0/8] }}
            memory: {{ total: 16MiB }}
            "#
        ),
    )
}

/// That all was given back.
fn nothing_is_charged(node: &Node) {
    eventually_true("nothing is charged", || {
        node.status()["memory"]["charged_bytes"] == 0
    });
}

/// What one source says on each of many connections, and what the node holds for it then.
fn said(node: &Node, bytes: &[u8]) -> (Vec<Raw>, usize) {
    let before = node.peak();
    let one = |_| {
        let mut raw = Raw::connect(node.address("web"));
        raw.send_if_open(bytes);
        raw
    };
    let attackers = (0..CONNECTIONS).map(one).collect();
    (attackers, settled(node).saturating_sub(before))
}

#[test]
fn heads_over_http_1_that_are_never_whole_cost_their_source_what_it_may_have() {
    let node = node("");
    let head = format!("GET / HTTP/1.1\r\nHost: a\r\nx-pad: {}", "y".repeat(PAD));
    let (mut attackers, cost) = said(&node, head.as_bytes());
    bystander(&node, "web", &[]);
    assert!(cost < 20 * MIB, "{cost} bytes");

    let last = attackers.last_mut().unwrap().head();
    assert_eq!(last.status(), 503);
    drop(attackers);
    nothing_is_charged(&node);
}

/// The head of a request with much in it, of which the last frame is missing.
fn unfinished(stream: u32) -> Vec<u8> {
    let begin = request("GET", "origin.example", "/");
    let pad: Vec<u8> = b"\0\x01x\x7f\x81\x7c"
        .iter()
        .copied()
        .chain([b'y'; 16_000])
        .collect();
    let mut bytes = frame(HEADERS, END_STREAM, stream, &begin);
    for _ in 0..PAD / 16_000 {
        bytes.extend(frame(CONTINUATION, 0, stream, &pad));
    }
    bytes
}

#[test]
fn heads_over_http_2_that_are_never_whole_cost_their_source_what_it_may_have() {
    let node = node("");
    let (attackers, cost) = said(&node, &[HELLO.to_vec(), unfinished(1)].concat());
    bystander(&node, "web", &[]);
    assert!(cost < 40 * MIB, "{cost} bytes");
    assert!(node.log().contains("more memory"), "{}", node.log());
    drop(attackers);
    nothing_is_charged(&node);
}

/// A frame of 16 KiB of which the last byte is missing.
fn partial() -> Vec<u8> {
    let mut bytes = frame(HEADERS, 0, 1, &[b'y'; 16_384]);
    bytes.pop();
    [HELLO.to_vec(), bytes].concat()
}

#[test]
fn frames_over_http_2_that_are_never_whole_cost_their_source_what_it_may_have() {
    let node = node("head_time: 3s");
    let (mut attackers, cost) = said(&node, &partial());
    bystander(&node, "web", &[]);
    assert!(cost < 24 * MIB, "{cost} bytes");
    assert!(node.log().contains("more memory"), "{}", node.log());

    // Those that there was room for have the time of a head.
    attackers.iter_mut().for_each(|raw| drop(raw.rest()));
    assert!(node.log().contains("took too long"), "{}", node.log());
    drop(attackers);
    nothing_is_charged(&node);
}

/// Frames of no known type, as many as are read at once on a fast connection; and perhaps the first byte of another frame.
fn burst(rest: &[u8]) -> Vec<u8> {
    const UNKNOWN: u8 = 0x77;
    let frames = frame(UNKNOWN, 0, 0, &[b'y'; 16_384]).repeat(14);
    [HELLO, &frames, rest].concat()
}

#[test]
fn connections_over_http_2_keep_no_room_for_what_they_said_once() {
    for rest in [&b""[..], b"\0"] {
        let node = node("");
        let (attackers, cost) = said(&node, &burst(rest));
        bystander(&node, "web", &[]);

        // 128 KiB for each would be 75 MiB.
        assert!(cost < 32 * MIB, "{cost} bytes");
        drop(attackers);
    }
}

#[test]
fn requests_over_http_3_whose_heads_never_come_cost_their_source_what_it_may_have() {
    let pki = Pki::new();
    for how in ["empty", "unfinished"] {
        let node = Node::start(
            "edge",
            &format!(
                r#"
                workers: 1
                listeners:
                  quic: {{ http: 127.0.0.1:0, tls: {{ {} }} }}
                  web: {{ http: 127.0.0.1:0 }}
                routes: [ {{ terminate: true }} ]
                egress: {{ allow: [127.0.0.0/8] }}
                memory: {{ total: 16MiB }}
                "#,
                pki.issue(&["127.0.0.1"]).yaml()
            ),
        );
        let before = node.peak();
        let streams = if how == "empty" { 800 } else { 200 };
        let address = node.address("quic");
        let flood = h3flood::start(&pki.ca(), address, "a.example", how, 2, streams);
        bystander(&node, "web", &[]);

        // A quarter of 16 MiB: 8 KiB for each stream, and what it announces.
        let asked = 2 * u64::from(streams);
        let refused = flood.said["refused"].as_u64().unwrap();
        assert!((asked / 2..asked).contains(&refused), "{how}: {refused}");
        let cost = settled(&node).saturating_sub(before);
        assert!(cost < 48 * MIB, "{how}: {cost} bytes");
        drop(flood);
        nothing_is_charged(&node);
    }
}

#[test]
fn trailers_over_http_1_that_are_never_whole_cost_their_source_what_it_may_have() {
    let sink = origins::tcp_silent();
    let node = node("min_rate: 0B");
    let pad = "y".repeat(7500);
    let target = sink.address();
    let upload = format!(
        "POST http://{target}/ HTTP/1.1\r\nHost: {target}\r\nTransfer-Encoding: chunked\r\n\r\n\
         1\r\nx\r\n0\r\nx-pad: {pad}"
    );
    let (attackers, cost) = said(&node, upload.as_bytes());
    node.record(|record| record.to_string().contains("more memory"));
    bystander(&node, "web", &[]);
    assert!(cost < 40 * MIB, "{cost} bytes");
    drop(attackers);
    nothing_is_charged(&node);
}

/// However little of it has come, and however much goes on beside it.
#[test]
fn a_head_over_http_2_has_its_time_as_over_http_1() {
    let node = node("head_time: 1s");
    let mut raw = Raw::connect(node.address("web"));
    let begin = request("GET", "origin.example", "/");
    raw.send([HELLO.to_vec(), frame(HEADERS, END_STREAM, 1, &begin)].concat());
    raw.rest();

    let origin = origins::scripted("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let ask = request("GET", &origin.address().to_string(), "/");
    let whole = |stream| frame(HEADERS, END_HEADERS | END_STREAM, stream, &ask);
    let mut slow = Raw::connect(node.address("web"));
    slow.send(HELLO);
    for stream in 0..8 {
        slow.send(frame(HEADERS, END_STREAM, 4 * stream + 1, &ask));
        std::thread::sleep(Duration::from_millis(250));
        slow.send(frame(CONTINUATION, END_HEADERS, 4 * stream + 1, b""));
        slow.send(whole(4 * stream + 3));
    }
    eventually_true("all are answered", || origin.seen().len() == 16);
}

/// A node of which 300 answers are asked that are not read, from an HTTP/1.1 origin that says `answer`.
fn unread(answer: &str) -> (Node, Raw, usize) {
    let origin = origins::scripted(answer);
    let node = node("min_rate: 0B");
    let before = node.peak();
    let mut raw = Raw::connect(node.address("web"));
    raw.send(HELLO);
    let ask = request("GET", &origin.address().to_string(), "/");
    for number in 0..300 {
        raw.send(frame(
            HEADERS,
            END_HEADERS | END_STREAM,
            2 * number + 1,
            &ask,
        ));
    }
    node.record(|record| record["status"] == 502 && record.to_string().contains("more memory"));
    let cost = settled(&node).saturating_sub(before);
    (node, raw, cost)
}

#[test]
fn heads_of_answers_over_http_1_that_no_one_takes_are_bounded_by_their_origin() {
    let pad = "y".repeat(PAD);
    for end in ["", "\r\nContent-Length: 2\r\n\r\nok"] {
        let (node, raw, cost) = unread(&format!("HTTP/1.1 200 OK\r\nx-pad: {pad}{end}"));
        assert!(cost < 40 * MIB, "{cost} bytes");
        bystander(&node, "web", &[]);
        drop(raw);
        nothing_is_charged(&node);
    }
}

/// The beginning of a record of TLS with a message of a handshake, of 16 KiB of which a few are missing.
fn unfinished_record() -> Vec<u8> {
    let mut record = vec![22, 3, 1, 0x40, 0];
    // A ClientHello of as many bytes.
    record.extend([1, 0, 0x3f, 0xfc, 3, 3]);
    record.resize(5 + 16_000, 7);
    record
}

#[test]
fn records_of_tls_that_are_never_whole_cost_their_source_what_it_may_have() {
    let pki = Pki::new();
    let node = Node::start(
        "edge",
        &format!(
            r#"
            workers: 1
            listeners:
              web: {{ http: 127.0.0.1:0, tls: {{ {} }}, limits: {{ head_time: 60s }} }}
              plain: {{ http: 127.0.0.1:0 }}
            routes: [ {{ terminate: true }} ]
            egress: {{ allow: [127.0.0.0/8] }}
            memory: {{ total: 16MiB }}
            "#,
            pki.issue(&["127.0.0.1"]).yaml()
        ),
    );

    let (attackers, cost) = said(&node, &unfinished_record());
    let memory = node.status()["memory"].clone();
    let charged = memory["charged_for"]["tls_records"].as_u64().unwrap();
    // A quarter of `memory.total`, by 16,005 bytes each; the others are refused.
    let most = (4 * MIB) as u64;
    assert!((most / 2..=most).contains(&charged), "{memory:#}");
    assert!(
        memory["refused_for"]["tls_records"].as_u64() > Some(100),
        "{memory:#}"
    );
    assert!(cost < 20 * MIB, "{cost} bytes");
    bystander(&node, "plain", &[]);

    drop(attackers);
    nothing_is_charged(&node);
}
