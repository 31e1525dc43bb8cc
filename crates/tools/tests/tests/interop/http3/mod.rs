//! HTTP/3 against stacks whose QUIC, HTTP/3 and QPACK are not ours, as clients and as servers.

mod bad_frames;
mod chains;
mod clients;
mod envoy;
mod gateways;
mod packets;
mod servers;
mod templates;

use std::net::SocketAddr;

use hermes_tests::{Node, Pki};

/// What nodes are called: quiche, as a client, compares no addresses.
const NAMES: [&str; 2] = ["127.0.0.1", "node.test"];

/// A node that ends tunnels and requests of anybody on this machine.
fn end(pki: &Pki) -> Node {
    let yaml = format!(
        r#"
        listeners: {{ web: {{ http: 127.0.0.1:0, tls: {{ {}, early_data: true }} }} }}
        routes: [ {{ terminate: true }} ]
        egress: {{ allow: [127.0.0.0/8] }}
        "#,
        pki.issue(&NAMES).yaml()
    );
    Node::start("end", &yaml)
}

/// A node whose next proxy is this one.
fn before(pki: &Pki, next: SocketAddr) -> Node {
    let yaml = format!(
        r#"
        listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
        routes: [ {{ to: next }} ]
        upstreams: {{ next: {{ endpoints: ["{next}"], http: 3, tls: {{ ca_file: {} }} }} }}
        "#,
        pki.ca().display()
    );
    Node::start("entry", &yaml)
}
