//! Thousands of subscribers whose connections break at once, and who all come again at once.

use std::net::{IpAddr, SocketAddr};

use hermes_tests::Node;
use hermes_tests::curl;
use hermes_tests::eventually::{PATIENCE, eventually_true};
use hermes_tests::frames::{
    END_HEADERS, END_STREAM, HEADERS, HELLO, WINDOW_UPDATE, field, frame, request,
};
use hermes_tests::raw::Raw;

use super::Bystanders;

/// Subscribers by each connection.
const EACH: u32 = 500;

/// Connections, each from an address of its own: ten, or as many as `HERMES_STORM` says. More than twenty take more memory than is promised
/// of a node with defaults, and time.
fn connections() -> u8 {
    let count = std::env::var("HERMES_STORM");
    count.map_or(10, |count| count.parse().unwrap())
}

fn all() -> u64 {
    u64::from(connections()) * u64::from(EACH)
}

/// Subscribers by one connection, all of whom ask at once.
fn crowd(node: &Node, number: u8) -> Raw {
    let from = SocketAddr::new(IpAddr::from([127, 0, 1, number + 1]), 0);
    let mut raw = Raw::connect_from(from, node.address("web"));
    let mut bytes = HELLO.to_vec();
    bytes.extend(frame(WINDOW_UPDATE, 0, 0, &(1_u32 << 24).to_be_bytes()));
    for stream in 0..EACH {
        let mut ask = request("GET", "relay", "/c/storm");
        ask.extend(field(b"accept", b"application/x-ndjson"));
        // The numbers of another life of the channel: each is told of a gap.
        ask.extend(field(b"hermes-subscribe", b"from=\"00000000.7\""));
        let flags = END_HEADERS | END_STREAM;
        bytes.extend(frame(HEADERS, flags, 2 * stream + 1, &ask));
    }
    raw.send(bytes);
    raw
}

fn subscriptions(node: &Node) -> u64 {
    let status = node.status();
    let count = &status["plugs"]["relay"]["subscriptions"];
    count.as_u64().unwrap_or_default()
}

/// Reads on until each subscriber of a connection has this text.
fn each_has(crowd: &mut Raw, text: &str) {
    let mut count = 0;
    let mut read = Vec::new();
    while count < EACH as usize {
        // All others may have their turn in between.
        let has_more = (0..8).any(|_| crowd.has_more_within(PATIENCE));
        assert!(has_more, "{count} of {EACH} have come");
        read.extend(crowd.until(|new| !new.is_empty()));
        let windows = read.windows(text.len());
        count += windows.filter(|window| *window == text.as_bytes()).count();
        // The beginning of one that goes on in the next piece.
        let from = read.len().saturating_sub(text.len() - 1);
        read.drain(..from);
    }
    assert_eq!(count, EACH as usize);
}

/// All of them, who ask at once and are told that they have missed something.
fn crowds(node: &Node) -> Vec<Raw> {
    let numbers = 0..connections();
    let mut crowds: Vec<_> = numbers.map(|number| crowd(node, number)).collect();
    for crowd in &mut crowds {
        each_has(crowd, "restarted");
    }
    crowds
}

#[test]
fn thousands_of_subscribers_come_again_at_once_beside_bystanders() {
    // Each stream of a connection that has many is charged 8 KiB: those of a long form are above the default.
    let memory = match connections() {
        0..=10 => "",
        _ => "memory: { total: 512MiB }",
    };
    let node = Node::start(
        "relay",
        &format!(
            r"
            {memory}
            log: {{ level: info }}
            listeners: {{ web: {{ http: 127.0.0.1:0, gateway: true }} }}
            routes: [ {{ match: {{ path: /c/* }}, handle: {{ relay: {{ grace: 1s }} }} }} ]
            "
        ),
    );
    let mut bystanders = Bystanders::begin(&node);
    let first = crowds(&node);
    assert_eq!(subscriptions(&node), all() + 1);
    bystanders.are_served();

    std::thread::scope(|threads| {
        for broken in first {
            broken.reset();
        }
        let again = threads.spawn(|| crowds(&node));
        while !again.is_finished() {
            bystanders.are_served();
        }
        let mut again = again.join().unwrap();
        // Those that broke off are over after their grace.
        eventually_true("the others are over", || subscriptions(&node) == all() + 1);
        let url = format!("http://{}/c/storm", node.address("web"));
        let sent = curl(&["-H", "Host: relay", "-d", "behind the storm", &url]);
        assert_eq!(sent.text(), format!("receivers: {}\n", all()));
        for crowd in &mut again {
            each_has(crowd, "behind the storm");
        }
    });
    eventually_true("nothing of it is left", || subscriptions(&node) == 1);
    bystanders.are_served();
}
