//! Clients that ask for much on many streams and stop reading: they cost a bounded sum, here and at the next hop, and harm nobody.

use std::net::SocketAddr;

use hermes_tests::frames::{
    END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, GOAWAY, HEADERS, HELLO, SETTINGS, WINDOW_UPDATE, frame, parse, request,
};
use hermes_tests::raw::Raw;
use hermes_tests::{Node, curl, eventually, origins, runtime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const MIB: usize = 1024 * 1024;

/// What one such connection may cost each node on the way, in bytes.
const COST: usize = 64 * MIB;

/// Streams of one connection.
const STREAMS: u32 = 1_000;

/// What a client takes on all streams together, in bytes: far above [`COST`], but not for ever if it reads after all.
const ROOM: u32 = 256 << 20;

/// Content of each response.
const CONTENT: usize = 64 * MIB;

/// An HTTP/1.1 server that answers everything with [`CONTENT`], as fast as it is taken.
fn generous() -> String {
    let listener = runtime::block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    runtime::handle().spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let piece = [b'x'; 64 * 1024];
                drop(stream.read(&mut [0; 4096]).await);
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {CONTENT}\r\n\r\n");
                drop(stream.write_all(head.as_bytes()).await);
                for _ in 0..CONTENT / piece.len() {
                    if stream.write_all(&piece).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    address.to_string()
}

/// That somebody else gets what he asks for.
fn others_are_served(node: &Node) {
    let origin = origins::http();
    let answer = curl(&["-x", &node.url("web"), &format!("http://{}/bytes/3000000", origin.address())]);
    assert_eq!((answer.status, answer.body.len()), (200, 3_000_000), "{:#}", node.status());
}

/// A client that asks for much on many streams, gives each a `window`, and reads nothing.
fn stopped(proxy: SocketAddr, origin: &str, window: u32) -> Raw {
    let mut raw = Raw::connect(proxy);
    raw.send(HELLO);
    raw.send(frame(SETTINGS, 0, 0, &[&[0, 4][..], &window.to_be_bytes()].concat()));
    raw.send(frame(WINDOW_UPDATE, 0, 0, &ROOM.to_be_bytes()));
    for stream in 0..STREAMS {
        let ask = request("GET", origin, "/");
        raw.send(frame(HEADERS, END_HEADERS | END_STREAM, 2 * stream + 1, &ask));
    }
    raw
}

/// Waits until most exchanges are open at a node, for a few may not have reached their origin, and its memory grows no more.
fn settled(node: &Node) {
    let most = STREAMS as usize * 3 / 4;
    eventually("the exchanges", || (node.exchanges().len() >= most).then_some(()));

    // The kernel's count is not exact: it moves a little by itself.
    let mut last = 0;
    let mut same = 0;
    eventually("memory that grows no more", || {
        let peak = node.peak();
        if peak > last + MIB {
            last = peak;
            same = 0;
        }
        same += 1;
        (same > 50).then_some(())
    });
}

fn edge() -> Node {
    Node::start(
        "edge",
        r#"
        listeners: { web: { http: 127.0.0.1:0, limits: { min_rate: 0B } } }
        routes: [ { terminate: true } ]
        egress: { allow: [127.0.0.0/8] }
        "#,
    )
}

#[test]
fn a_client_that_stops_reading_costs_a_bounded_sum() {
    let authority = generous();
    for window in [0x7fff_ffff, 100_000, 1, 0] {
        let node = edge();
        let before = node.peak();
        let client = stopped(node.address("web"), &authority, window);
        settled(&node);
        let cost = node.peak().saturating_sub(before);
        assert!(cost < COST, "{cost} bytes with windows of {window}");
        eventually("a holder", || (node.status()["holders"][0]["held_bytes"].as_u64()? > 0).then_some(()));
        assert!(node.status()["memory"]["held_bytes"].as_u64().unwrap() > 0, "{:#}", node.status());
        others_are_served(&node);
        drop(client);
        node.idle();
        assert_eq!(node.status()["memory"]["held_bytes"], 0);
    }
}

#[test]
fn it_costs_no_more_where_the_next_hop_is_reached_over_a_link() {
    let authority = generous();
    let end = Node::start(
        "end",
        r#"
        workers: 1
        listeners: { web: { http: 127.0.0.1:0, insecure_trust: [127.0.0.0/8], limits: { streams: 2000 } } }
        routes: [ { terminate: true } ]
        egress: { allow: [127.0.0.0/8] }
        "#,
    );
    let entry = Node::start(
        "entry",
        &format!(
            r#"
            workers: 1
            listeners: {{ web: {{ http: 127.0.0.1:0, limits: {{ min_rate: 0B }} }} }}
            routes: [ {{ to: end }} ]
            upstreams: {{ end: {{ endpoints: ["{}"], http: 2 }} }}
            "#,
            end.address("web")
        ),
    );
    for window in [0x7fff_ffff, 0] {
        let before = [entry.peak(), end.peak()];
        let client = stopped(entry.address("web"), &authority, window);
        settled(&entry);
        settled(&end);
        for (node, before) in [&entry, &end].into_iter().zip(before) {
            let cost = node.peak().saturating_sub(before);
            assert!(cost < COST, "{cost} bytes with windows of {window}: {:#}", node.status());
        }
        others_are_served(&entry);
        drop(client);
        entry.idle();
        end.idle();
    }
}

#[test]
fn where_all_hold_too_much_those_that_stand_still_are_ended_and_others_go_on() {
    let authority = generous();
    let node = Node::start(
        "edge",
        r#"
        listeners: { web: { http: 127.0.0.1:0, limits: { min_rate: 0B } } }
        routes: [ { terminate: true } ]
        egress: { allow: [127.0.0.0/8] }
        memory: { total: 1MiB, connection: 8MiB }
        "#,
    );
    let clients: Vec<Raw> = (0..3).map(|_| stopped(node.address("web"), &authority, 0x7fff_ffff)).collect();
    eventually("a warning", || node.log().contains("memory.total").then_some(()));
    let mut ended = clients.into_iter().map(|mut client| client.rest().0).filter(|heard| {
        let mut goaways = parse(heard).into_iter().filter(|frame| frame.0 == GOAWAY);
        goaways.next_back().is_some_and(|frame| frame.3[4..8] == ENHANCE_YOUR_CALM.to_be_bytes())
    });
    assert!(ended.next().is_some());
    others_are_served(&node);
    assert!(node.metrics().contains("\nhermes_memory_total_bytes 1048576"), "{}", node.metrics());
}
