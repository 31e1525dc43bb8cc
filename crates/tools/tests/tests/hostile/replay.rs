//! Content that is kept to be sent again: what a client makes of it counts in memory, not in bytes.

use hermes_tests::raw::Raw;
use hermes_tests::{Node, eventually, origins};

/// Requests at once, and chunks of one byte that each sends: below `retry.keep_bytes`, so that all of it is kept.
const REQUESTS: usize = 8;
const CHUNKS: usize = 30_000;

/// Bytes of memory that all of them may take, buffers included; pieces of their own would take three times as much.
const MOST: u64 = 8 * 1024 * 1024;

fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[test]
fn content_in_pieces_of_one_byte_is_not_kept_at_a_hundred_times_its_size() {
    let origin = origins::tcp_sink();
    let node = Node::start(
        "edge",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
            routes: [ {{ terminate: video, retry: {{ attempts: 3 }}, timeouts: {{ header: 60s }} }} ]
            upstreams: {{ video: {{ endpoints: ["{}"] }} }}
            "#,
            origin.address()
        ),
    );
    let before = resident(node.pid());
    let content = "1\r\nx\r\n".repeat(CHUNKS);
    let clients: Vec<Raw> = (0..REQUESTS)
        .map(|_| {
            let mut raw = Raw::connect(node.address("web"));
            raw.send(
                "PUT http://VIDEO/ HTTP/1.1\r\nHost: VIDEO\r\nTransfer-Encoding: chunked\r\n\r\n",
            );
            raw.send(&content);
            raw
        })
        .collect();
    eventually("all content has passed", || {
        let live = node.exchanges();
        let passed = live
            .iter()
            .filter(|exchange| exchange["client_to_target"] == CHUNKS)
            .count();
        (passed == REQUESTS).then_some(())
    });
    let taken = resident(node.pid()).saturating_sub(before);
    assert!(
        taken < MOST,
        "{} KiB for {REQUESTS} requests of {CHUNKS} bytes",
        taken / 1024
    );
    drop(clients);
}
