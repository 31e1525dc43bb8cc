//! Clients that ask for much on many streams and stop reading: they cost a bounded sum, here and at the next hop, and harm no one.

use hermes_tests::frames::{ENHANCE_YOUR_CALM, GOAWAY, parse};
use hermes_tests::raw::Raw;
use hermes_tests::{Node, eventually};

use crate::standing::{self, Chain, MIB, generous, stopped};

/// What one such connection may cost each node on the way, in bytes. Measured were 51 to 65 MiB at the last node of two: 33 are what waits
/// to be sent, as much again is in the hands of a thousand exchanges.
const COST: usize = 80 * MIB;

/// Streams of one connection.
const STREAMS: u32 = 1_000;

/// Streams of each of several connections, of which some are refused for want of memory: no more than are remembered for `why`.
const FEW_STREAMS: u32 = 200;

/// That someone else gets what he asks for.
fn others_are_served(node: &Node) {
    standing::others_are_served(node, &["-x", &node.url("web")]);
}

/// Waits until most exchanges are open at a node, for a few may not have reached their origin, and its memory grows no more.
fn settled(node: &Node) {
    let most = STREAMS as usize * 3 / 4;
    eventually("the exchanges", || {
        (node.exchanges().len() >= most).then_some(())
    });
    standing::settled(node);
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
        let client = stopped(node.address("web"), &authority, window, STREAMS);
        settled(&node);
        let cost = node.peak().saturating_sub(before);
        assert!(cost < COST, "{cost} bytes with windows of {window}");
        eventually("a holder", || {
            (node.status()["holders"][0]["held_bytes"].as_u64()? > 0).then_some(())
        });
        assert!(
            node.status()["memory"]["held_bytes"].as_u64().unwrap() > 0,
            "{:#}",
            node.status()
        );
        others_are_served(&node);
        drop(client);
        node.idle();
        assert_eq!(node.status()["memory"]["held_bytes"], 0);
    }
}

#[test]
fn it_costs_no_more_where_the_next_hop_is_reached_over_a_link() {
    let authority = generous();
    let Chain { entry, end, .. } = &Chain::over(2);
    for window in [0x7fff_ffff, 0] {
        let before = [entry.peak(), end.peak()];
        let client = stopped(entry.address("web"), &authority, window, STREAMS);
        settled(entry);
        settled(end);
        for (node, before) in [entry, end].into_iter().zip(before) {
            let cost = node.peak().saturating_sub(before);
            assert!(
                cost < COST,
                "{cost} bytes with windows of {window}: {:#}",
                node.status()
            );
        }
        others_are_served(entry);
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
        memory: { total: 8MiB, connection: 8MiB }
        "#,
    );
    let clients: Vec<Raw> = (0..3)
        .map(|_| stopped(node.address("web"), &authority, 0x7fff_ffff, FEW_STREAMS))
        .collect();
    eventually("a warning", || {
        node.log().contains("memory.total").then_some(())
    });
    // Before any of them reads: a client that does is left alone.
    let record = node.record(|record| record["reason"].to_string().contains("memory.total"));
    assert!(record.to_string().contains("takes nothing"), "{record:#}");
    let source = record["source"].as_str().unwrap();
    let mut clients = clients.into_iter();
    let mut ended = clients
        .find(|client| client.local().to_string() == source)
        .unwrap();
    // In the midst of what it did not take, so that GOAWAY reaches it only if there was room for it.
    let heard = ended.rest().0;
    let mut goaways = parse(&heard).into_iter().filter(|frame| frame.0 == GOAWAY);
    let last = goaways.next_back();
    assert!(heard.len() < 64 * MIB, "{}", heard.len());
    assert!(last.is_none_or(|frame| frame.3[4..8] == ENHANCE_YOUR_CALM.to_be_bytes()));
    others_are_served(&node);
    assert!(
        node.metrics()
            .contains("\nhermes_memory_total_bytes 8388608"),
        "{}",
        node.metrics()
    );
}
