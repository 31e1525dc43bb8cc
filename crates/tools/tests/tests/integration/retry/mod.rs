//! Retries and hedging: what is tried again, how often, where, and what never is.

mod budget;
mod endpoints;
mod kept;
mod messages;
mod rest;
mod tunnels;

use std::net::SocketAddr;

use hermes_tests::Node;
use hermes_tests::raw::Raw;

/// A reverse proxy for the origins; `keys` are further ones of their upstream, such as `, retry: { on: 5xx }`.
fn gateway(origins: &[SocketAddr], keys: &str) -> Node {
    gateway_called("gate", origins, keys)
}

/// As [`gateway`], with a name of its own, for one that stands behind another.
fn gateway_called(name: &str, origins: &[SocketAddr], keys: &str) -> Node {
    let endpoints = origins
        .iter()
        .map(|origin| format!("\"{origin}\""))
        .collect::<Vec<_>>()
        .join(", ");
    Node::start(
        name,
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0, gateway: true }} }}
            routes: [ {{ terminate: origin }} ]
            upstreams: {{ origin: {{ endpoints: [{endpoints}]{keys} }} }}
            "#
        ),
    )
}

/// Sends a request with content through the node: status, fields as text, content.
fn send(node: &Node, method: &str, content: &[u8]) -> (u16, String, String) {
    let mut raw = Raw::connect(node.address("web"));
    raw.send(format!(
        "{method} /a HTTP/1.1\r\nHost: video\r\nContent-Length: {}\r\n\r\n",
        content.len()
    ));
    raw.send_if_open(content);
    let (head, body) = raw.response();
    (
        head.status(),
        format!("{:?}", head.fields),
        String::from_utf8_lossy(&body).into_owned(),
    )
}

/// Sends a GET: as [`send`].
fn get(node: &Node) -> (u16, String, String) {
    let mut raw = Raw::connect(node.address("web"));
    raw.send("GET /a HTTP/1.1\r\nHost: video\r\n\r\n");
    let (head, body) = raw.response();
    (
        head.status(),
        format!("{:?}", head.fields),
        String::from_utf8_lossy(&body).into_owned(),
    )
}
