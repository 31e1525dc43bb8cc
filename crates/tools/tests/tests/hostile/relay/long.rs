//! Long messages whose readers stand still, behind a node that subscribes for all of them.

use std::net::{IpAddr, SocketAddr};

use hermes_tests::eventually::eventually_true;
use hermes_tests::raw::Raw;
use hermes_tests::{Node, curl};

use super::{Bystanders, COST, get, relay};

#[test]
fn readers_that_stand_still_behind_a_node_hold_pieces_within_bounds() {
    let hub = relay();
    let way = Node::start(
        "aggregate",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0, gateway: true }} }}
            functions: {{ join: {{ aggregate: {{ grace: 1s, lag: 10s }} }} }}
            routes: [ {{ match: {{ path: /c/* }}, through: [join], to: hub }} ]
            upstreams: {{ hub: {{ endpoints: ["{}"] }} }}
            "#,
            hub.address("web")
        ),
    );
    let mut bystanders = Bystanders::begin(&way);
    bystanders.are_served();
    let nodes = [&hub, &way];
    let before = nodes.map(Node::peak);

    let from = SocketAddr::new(IpAddr::from([127, 0, 0, 66]), 0);
    let readers: Vec<_> = (0..100)
        .map(|_| {
            let mut reader = Raw::connect_from(from, way.address("web"));
            reader.send(get("/c/slow", "Accept: application/hermes-adu\r\n"));
            assert!(reader.head().line.contains("200"));
            reader
        })
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("long");
    std::fs::write(&file, vec![b'x'; 64 << 20]).unwrap();
    let url = format!("http://{}/c/slow", way.address("web"));
    for _ in 0..3 {
        let answer = curl(&[
            "--interface",
            "127.0.0.66",
            "-H",
            "Host: relay",
            "-H",
            "Hermes-Publish: mode=reliable",
            "-H",
            "Prefer: wait=1",
            "-T",
            file.to_str().unwrap(),
            &url,
        ]);
        // They hold up this publisher, and no one else.
        assert_eq!(answer.status, 503, "{answer:?}");
        bystanders.are_served();
    }
    drop(readers);
    for (node, before) in nodes.into_iter().zip(before) {
        let cost = node.peak().saturating_sub(before);
        assert!(cost < COST, "{cost} bytes");
        eventually_true("nothing of it is left", || {
            let status = node.status();
            status["plugs"]["relay"]["waiting_bytes"].as_u64() == Some(0)
        });
    }
    bystanders.are_served();
}
