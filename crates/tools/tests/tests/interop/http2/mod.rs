//! HTTP/2 against programs whose HTTP/2 is not ours: h2spec, nghttp2's client, server and load generator, and Go's.

mod go;
mod h2spec;
mod nghttp2;

use std::net::SocketAddr;

use hermes_tests::{Node, Pki};

/// Gateways in clear (`gate`) and under TLS (`secure_gate`), and a proxy (`web`), in front of this server; `keys` are further ones of
/// its upstream.
fn before(pki: &Pki, server: SocketAddr, keys: &str) -> Node {
    let yaml = format!(
        r#"
        listeners:
          web: {{ http: 127.0.0.1:0 }}
          gate: {{ http: 127.0.0.1:0, gateway: true }}
          secure_gate: {{ http: 127.0.0.1:0, gateway: true, tls: {{ {} }} }}
        routes: [ {{ terminate: server }} ]
        upstreams: {{ server: {{ endpoints: ["{server}"] {keys} }} }}
        "#,
        pki.issue(&["127.0.0.1"]).yaml()
    );
    Node::start("edge", &yaml)
}
