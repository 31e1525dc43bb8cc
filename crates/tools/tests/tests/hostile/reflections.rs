//! TRACE: what comes back to a client is what it sent.

use hermes_tests::{Node, curl, origins};

const SECRET: &str = "c2VjcmV0";

/// A node whose listener and route each add a secret.
fn node(origin: &str) -> Node {
    Node::start(
        "edge",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0, set: {{ x-listener-key: {SECRET} }} }} }}
            routes: [ {{ match: {{ fields: {{ x-listener-key: {SECRET} }} }}, set: {{ x-route-key: {SECRET} }}, terminate: video }} ]
            upstreams: {{ video: {{ endpoints: ["{origin}"] }} }}
            "#
        ),
    )
}

fn trace(node: &Node, url: &str, hops: &str) -> String {
    let hops = format!("Max-Forwards: {hops}");
    let got = curl(&[
        "-x",
        &node.url("web"),
        "-X",
        "TRACE",
        "-H",
        &hops,
        "-H",
        "X-Mine: 1",
        url,
    ]);
    assert_eq!(got.status, 200, "{got:?}");
    String::from_utf8(got.body).unwrap()
}

#[test]
fn what_the_listener_adds_is_not_shown_by_this_node() {
    let origin = origins::http();
    let node = node(&origin.address().to_string());
    let text = trace(&node, "http://VIDEO/path", "0");
    assert!(
        text.contains("\r\nx-mine: 1\r\n") && !text.contains(SECRET),
        "{text}"
    );
    assert_eq!(origin.connections(), 0);
}

#[test]
fn what_listener_and_route_add_is_not_shown_by_the_next_hop() {
    let origin = origins::http();
    let node = node(&origin.address().to_string());
    let text = trace(&node, "http://VIDEO/path", "3");
    // This origin says in its answer what it was asked.
    assert!(text.contains("x-mine") && !text.contains(SECRET), "{text}");
    let got = curl(&["-x", &node.url("web"), "http://VIDEO/path"]);
    assert!(
        String::from_utf8(got.body).unwrap().contains(SECRET),
        "other methods have them"
    );
}
