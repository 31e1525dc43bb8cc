//! Custody that does not come up says so: once in the log, in `hermes status`, and in the metrics.

use std::net::SocketAddr;

use hermes_tests::eventually::eventually_true;
use hermes_tests::raw::Raw;
use hermes_tests::{Node, free, program};
use serde_json::Value;
use tempfile::TempDir;

use super::row::key;

/// A node that asks another one for what it is asked, and knows it by this key.
fn near(folder: TempDir, key: &str, at: SocketAddr) -> Node {
    let document = format!(
        "defaults: {{ custody: {{ key_file: key, neighbours: {{ far: {{ key: \"{key}\", address: \"{at}\" }} }} }} }}\n\
         listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\nroutes: [ {{ to: far, retry: {{ custody: true }} }} ]\n\
         upstreams: {{ far: {{ endpoints: [\"127.0.0.1:9\"] }} }}\n"
    );
    Node::start_in(folder, "near", &document, &[])
}

/// A node that others ask, and that knows one of them by this key.
fn far(folder: TempDir, key: &str, at: SocketAddr) -> Node {
    let document = format!(
        "defaults: {{ custody: {{ key_file: key, neighbours: {{ near: {{ key: \"{key}\" }} }} }} }}\n\
         listeners: {{ hops: {{ udp: \"{at}\", ingress: custody }} }}\nroutes: [ {{ respond: {{ status: 204 }} }} ]\n"
    );
    Node::start_in(folder, "far", &document, &[])
}

fn ask(node: &Node) -> Raw {
    let mut raw = Raw::connect(node.address("web"));
    raw.send("GET http://any/ HTTP/1.1\r\nHost: any\r\n\r\n");
    raw
}

/// What is shown of its neighbour.
fn shown(node: &Node) -> Value {
    node.status()["custody"][0].clone()
}

fn is_said(node: &Node, state: &str, words: &str) {
    eventually_true(state, || shown(node)["state"] == state);
    let view = shown(node);
    let reason = view["reason"].as_str().unwrap();
    assert!(reason.contains(words), "{reason}");
    eventually_true("the line", || node.log().contains(words));
    let lines = node.log().matches(words).count();
    assert_eq!(lines, 1, "{}", node.log());

    // Nothing was connected to, so that nothing else is known of the upstream.
    let endpoint = node.status()["upstreams"][0]["endpoints"][0].clone();
    assert_eq!(endpoint["health"], state, "{endpoint}");
    assert_eq!(endpoint["reason"], reason, "{endpoint}");

    let metric = "hermes_custody_neighbour_up{neighbour=\"far\"} 0";
    assert!(node.metrics().contains(metric));
    let text = program::command()
        .args(["status", "--admin"])
        .arg(node.socket())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("custody") && text.contains(state), "{text}");
}

#[test]
fn a_closed_port_is_told_and_so_is_its_end() {
    let folders: [TempDir; 2] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
    let keys = folders.each_ref().map(|folder| key(folder.path()));
    let [first, second] = folders;
    let at = free::udp();
    let near = near(first, &keys[1], at);
    assert_eq!(shown(&near)["state"], "unheard");

    let mut raw = ask(&near);
    is_said(&near, "silent", "nothing listens at UDP");

    let far = far(second, &keys[0], at);
    assert_eq!(raw.head().status(), 204);
    eventually_true("it is up", || shown(&near)["state"] == "up");
    eventually_true("the line", || near.log().contains("answers again"));
    assert!(
        shown(&near)["round_trip_ms"].is_number(),
        "{}",
        shown(&near)
    );
    assert_eq!(shown(&far)["state"], "up");
}

#[test]
fn a_key_that_is_not_the_neighbours_is_told_at_both_ends() {
    let folders: [TempDir; 2] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
    let keys = folders.each_ref().map(|folder| key(folder.path()));
    let other = tempfile::tempdir().unwrap();
    let wrong = key(other.path());
    let [first, second] = folders;
    let at = free::udp();
    let far = far(second, &wrong, at);
    let near = near(first, &keys[1], at);
    let _raw = ask(&near);
    is_said(&near, "refused", "agrees on no keys");
    eventually_true("whose key it is", || far.log().contains(&keys[0]));
}
