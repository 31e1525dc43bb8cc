//! Clients whose uploads no one takes: their content waits, in a bounded sum, and everything else goes on.

use hermes_tests::h2c::Client;
use hermes_tests::{Node, eventually, origins};
use http::Request;

use crate::standing::{MIB, mute, others_are_served, others_are_taken, settled, uploads};

/// What one such connection may cost, in bytes.
const COST: usize = 64 * MIB;

/// Streams of one connection.
const STREAMS: usize = 500;

#[test]
fn uploads_over_http_2_that_no_one_takes_cost_a_bounded_sum_and_others_go_on() {
    let node = Node::start(
        "edge",
        r#"
        listeners: { web: { http: 127.0.0.1:0, limits: { min_rate: 0B } } }
        routes: [ { terminate: true } ]
        egress: { allow: [127.0.0.0/8] }
        "#,
    );
    let mute = mute();
    let quick = origins::http();
    let before = node.peak();
    let client = Client::connect(node.address("web"));
    let stalled = uploads(&client, &mute, STREAMS);
    eventually("the exchanges", || {
        (node.exchanges().len() == STREAMS).then_some(())
    });
    let cost = settled(&node).saturating_sub(before);
    assert!(cost < COST, "{cost} bytes: {:#}", node.status());

    // What needs no room for content goes on beside them, and everything on other connections.
    let ask = Request::get(format!("http://{}/bytes/30000", quick.address()))
        .body(())
        .unwrap();
    let answer = client.send(ask, b"").unwrap();
    assert_eq!((answer.status, answer.body.len()), (200, 30_000));
    let how = ["-x", &node.url("web")];
    others_are_served(&node, &how);
    others_are_taken(&node, &how);

    eventually("those that stand still, and no others", || {
        (node.exchanges().len() == STREAMS).then_some(())
    });
    drop((stalled, client));
    node.idle();
    assert_eq!(node.status()["memory"]["held_bytes"], 0);
}
