//! Four nodes in a row that speak one version of HTTP, and a server behind the last.

use std::net::SocketAddr;

use hermes_tests::{Node, Pki};

/// Versions that nodes speak to each other.
pub const VERSIONS: [u8; 3] = [1, 2, 3];

/// The nodes: `one`, `two`, `three` and `edge`.
pub struct Four {
    pub nodes: Vec<Node>,
    _pki: Pki,
}

impl Four {
    /// Starts the nodes. They speak `version`; at the last, `upstream` are further keys of the server's upstream.
    pub fn start(version: u8, server: SocketAddr, upstream: &str) -> Self {
        let pki = Pki::new();
        let tls = format!(
            "{}, ca_file: {}",
            pki.issue(&["127.0.0.1"]).yaml(),
            pki.ca().display()
        );
        let common = format!("workers: 1\ndefaults: {{ tls: {{ {tls} }} }}\n");
        let overlay = "overlay: { http: 127.0.0.1:0, tls: true }";
        let edge = format!(
            "{common}listeners: {{ {overlay} }}\nroutes: [ {{ terminate: server }} ]\n\
             upstreams: {{ server: {{ endpoints: [\"{server}\"], {upstream} }} }}\n"
        );
        let onwards = |listeners: &str, next: SocketAddr| {
            format!(
                "{common}listeners: {{ {listeners} }}\nroutes: [ {{ to: next }} ]\n\
                 upstreams: {{ next: {{ endpoints: [\"{next}\"], http: {version}, tls: true }} }}\n"
            )
        };
        let edge = Node::start("edge", &edge);
        let three = Node::start("three", &onwards(overlay, edge.address("overlay")));
        let two = Node::start("two", &onwards(overlay, three.address("overlay")));
        let entries = "web: { http: 127.0.0.1:0 }, site: { http: 127.0.0.1:0, gateway: true }";
        let one = Node::start("one", &onwards(entries, two.address("overlay")));
        Self {
            nodes: vec![one, two, three, edge],
            _pki: pki,
        }
    }

    /// The node of the clients, with a listener `web` for programs that know a proxy, and `site` for those that do not.
    pub fn entry(&self) -> &Node {
        &self.nodes[0]
    }
}
