//! Heads that wait: few bytes become large ones by tables of HPACK, and many of them cost their user or source, no one else.

use std::net::SocketAddr;

use hermes_tests::attacks::heads::{repeating, silent};
use hermes_tests::attacks::interim::{interim, last, swelling};
use hermes_tests::eventually::eventually_true;
use hermes_tests::frames::{
    CONTINUATION, END_HEADERS, END_STREAM, HEADERS, HELLO, field, frame, request,
};
use hermes_tests::raw::Raw;
use hermes_tests::{Node, Pki, curl, h3flood, origins};

use crate::standing::{MIB, settled};

/// The source of someone else.
const BYSTANDER: &str = "127.0.0.2";

/// Streams of a connection.
const STREAMS: u32 = 1000;

/// That someone else is served by `origin`, however much is said in the head.
pub fn bystander(node: &Node, listener: &str, more: &[&str]) {
    let origin = origins::http();
    let pad = format!("x-pad: {}", "y".repeat(20_000));
    let url = format!("http://{}/", origin.address());
    for fields in [&[][..], &["-H", &pad]] {
        let proxy = node.url(listener);
        let how = ["-x", &proxy, "--interface", BYSTANDER];
        let answer = curl(&[&how, more, fields, &[&url]].concat());
        assert_eq!(answer.status, 200, "{answer:?} {:#}", node.status());
    }
}

/// A node with the listeners `web` for strangers and `link` for peers, that sends what is for `silent.example` there.
fn node(more: &str) -> Node {
    Node::start(
        "edge",
        &format!(
            r#"
            workers: 1
            listeners:
              web: {{ http: 127.0.0.1:0, limits: {{ min_rate: 0B }} }}
              link: {{ http: 127.0.0.1:0, insecure_trust: [127.0.0.0/8] }}
            routes:
              - {{ match: {{ target: silent.example }}, to: silent }}
              - {{ terminate: true }}
            upstreams: {{ silent: {{ endpoints: ["{}"], http: 2 }} }}
            egress: {{ allow: [127.0.0.0/8] }}
            {more}
            "#,
            silent()
        ),
    )
}

#[test]
fn a_stranger_has_no_table_by_which_few_bytes_become_many() {
    let node = node("");
    let before = node.peak();
    let attackers: Vec<Raw> = (0..6)
        .map(|_| repeating(node.address("web"), "silent.example", b""))
        .collect();
    let cost = settled(&node).saturating_sub(before);
    bystander(&node, "web", &[]);
    assert!(cost < 48 * MIB, "{cost} bytes");

    // None of them has said that it knows of the table.
    eventually_true("connections without an acknowledgement end", || {
        node.exchanges().is_empty()
    });
    drop(attackers);
}

#[test]
fn heads_that_a_link_brings_cost_their_user() {
    let node = node("");
    let before = node.peak();
    let attackers: Vec<Raw> = (0..6)
        .map(|_| {
            repeating(
                node.address("link"),
                "silent.example",
                &field(b"user", b"greedy"),
            )
        })
        .collect();
    let record = node.record(|record| record["status"] == 503);
    assert!(
        record["user"] == "greedy" && record.to_string().contains("no memory left"),
        "{record:#}"
    );
    let cost = settled(&node).saturating_sub(before);
    assert!(cost < 128 * MIB, "{cost} bytes");
    assert!(!node.exchanges().is_empty());

    // The source of the link is the same.
    let others = ["-H", "user: modest", "--interface", "127.0.0.1"];
    bystander(&node, "link", &others);
    drop(attackers);
    node.idle();
}

#[test]
fn exchanges_that_wait_behind_a_link_are_bounded_by_their_memory() {
    // A quarter of this is for one who is alone: some 600 exchanges.
    let node = node("memory: { total: 20MiB }");
    let ask = request("GET", "silent.example", "/");
    let asked: Vec<u8> = (0..STREAMS)
        .flat_map(|number| frame(HEADERS, END_HEADERS | END_STREAM, 2 * number + 1, &ask))
        .collect();
    let mut attacker = Raw::connect(node.address("web"));
    attacker.send(HELLO);
    attacker.send_if_open(&asked);

    node.record(|record| record["status"] == 503);
    bystander(&node, "web", &[]);
    eventually_true("the others are refused", || {
        (300..900).contains(&node.exchanges().len())
    });
    drop(attacker);
    node.idle();
}

/// Frames of a head of any size.
fn large(stream: u32, head: &[u8]) -> Vec<u8> {
    let pieces: Vec<&[u8]> = head.chunks(16_384).collect();
    let last = pieces.len() - 1;
    let mut bytes = Vec::new();
    for (at, piece) in pieces.into_iter().enumerate() {
        let kind = if at == 0 { HEADERS } else { CONTINUATION };
        let flags = if at == last { END_HEADERS } else { 0 };
        bytes.extend(frame(kind, flags, stream, piece));
    }
    bytes
}

/// Opens 200 tunnels and uploads, each with a head of 60 kB and over this version of HTTP.
fn open(address: SocketAddr, version: u8, method: &str, target: &str) -> Vec<Raw> {
    let pad = "z".repeat(60_000);
    if version == 1 {
        let one = |_| {
            let mut raw = Raw::connect(address);
            let uri = match method {
                "CONNECT" => target.to_owned(),
                _ => format!("http://{target}/"),
            };
            raw.send(format!(
                "{method} {uri} HTTP/1.1\r\nHost: {target}\r\nx-pad: {pad}\r\n\r\n"
            ));
            raw
        };
        return (0..200).map(one).collect();
    }

    let pseudo: &[(&str, &str)] = &[(":method", method), (":authority", target)];
    let mut asked: Vec<u8> = pseudo
        .iter()
        .flat_map(|(name, value)| field(name.as_bytes(), value.as_bytes()))
        .collect();
    if method != "CONNECT" {
        asked.extend(field(b":scheme", b"http"));
        asked.extend(field(b":path", b"/"));
    }

    // 60,000 is 127 and 59,873.
    asked.extend(b"\x00\x05x-pad\x7f\xe1\xd3\x03");
    asked.extend(pad.as_bytes());
    let mut raw = Raw::connect(address);
    raw.send(HELLO);
    (0..200).for_each(|number| raw.send_if_open(large(2 * number + 1, &asked)));
    vec![raw]
}

#[test]
fn heads_of_a_source_take_what_others_leave() {
    // A quarter of this is for one who is alone.
    let node = node("memory: { total: 16MiB }");
    let sink = origins::tcp_silent();
    let sink = sink.address().to_string();
    let ways = [(1, "GET"), (2, "GET"), (1, "CONNECT"), (2, "CONNECT")];
    for (version, method) in ways {
        let target = if method == "CONNECT" {
            &sink
        } else {
            "silent.example"
        };
        let open = open(node.address("web"), version, method, target);
        let what = format!("{method} over HTTP/{version}");
        eventually_true(&what, || node.exchanges().len() >= 20);
        if version == 1 {
            node.record(|record| record["status"] == 503 && record["method"] == method);
        }
        bystander(&node, "web", &[]);

        let held = node.exchanges().len();
        assert!((20..80).contains(&held), "{what}: {held}");
        drop(open);
        node.idle();
    }
}

#[test]
fn heads_of_http_3_take_no_more() {
    let pki = Pki::new();
    let node = Node::start(
        "edge",
        &format!(
            r#"
            workers: 1
            listeners:
              quic: {{ http: 127.0.0.1:0, tls: {{ {} }} }}
              web: {{ http: 127.0.0.1:0 }}
            routes:
              - {{ match: {{ target: silent.example }}, to: silent }}
              - {{ terminate: true }}
            upstreams: {{ silent: {{ endpoints: ["{}"], http: 2 }} }}
            egress: {{ allow: [127.0.0.0/8] }}
            memory: {{ total: 16MiB }}
            "#,
            pki.issue(&["127.0.0.1"]).yaml(),
            silent()
        ),
    );
    let flood = h3flood::start(
        &pki.ca(),
        node.address("quic"),
        "silent.example",
        "heads",
        1,
        200,
    );
    eventually_true("exchanges", || node.exchanges().len() >= 20);
    assert_eq!(flood.said["asked"], 200);
    bystander(&node, "web", &[]);
    let held = node.exchanges().len();
    assert!((20..80).contains(&held), "{held}");
    drop(flood);
}

/// A node before a server that swells, of which `streams` exchanges are asked that are not read.
fn swells(each: fn(u32, bool) -> Vec<u8>, more: &str, streams: u32) -> (Node, Raw, usize) {
    let origin = swelling(each);
    let node = Node::start(
        "edge",
        &format!(
            r#"
            workers: 1
            listeners: {{ web: {{ http: 127.0.0.1:0, limits: {{ min_rate: 0B }} }} }}
            routes:
              - {{ match: {{ target: swelling.example }}, to: swelling }}
              - {{ terminate: true }}
            upstreams: {{ swelling: {{ endpoints: ["{origin}"], http: 2 }} }}
            egress: {{ allow: [127.0.0.0/8] }}
            {more}
            "#
        ),
    );
    let before = node.peak();
    let mut raw = Raw::connect(node.address("web"));
    raw.send(HELLO);
    for number in 0..streams {
        let ask = request("GET", "swelling.example", "/");
        raw.send(frame(
            HEADERS,
            END_HEADERS | END_STREAM,
            2 * number + 1,
            &ask,
        ));
    }
    (node, raw, before)
}

#[test]
fn interim_heads_of_few_bytes_cost_their_exchange_at_once() {
    let (node, raw, before) = swells(interim, "", 300);
    let record = node.record(|record| record["status"] == 502);
    assert!(
        record.to_string().contains("interim responses"),
        "{record:#}"
    );
    bystander(&node, "web", &[]);
    let cost = settled(&node).saturating_sub(before);
    assert!(cost < 64 * MIB, "{cost} bytes");
    drop(raw);
}

#[test]
fn heads_of_answers_that_no_one_takes_are_bounded_by_their_origin() {
    let (node, raw, before) = swells(last, "memory: { total: 16MiB }", 900);
    node.record(|record| record["status"] == 502 && record.to_string().contains("more memory"));
    bystander(&node, "web", &[]);
    let cost = settled(&node).saturating_sub(before);
    assert!(cost < 40 * MIB, "{cost} bytes");
    drop(raw);
}
