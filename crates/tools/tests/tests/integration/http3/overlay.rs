//! Nodes in a row that speak to each other in chosen HTTP versions, all under TLS.

use std::net::SocketAddr;

use hermes_tests::{Node, Pki};

/// Every HTTP version.
pub const VERSIONS: [u8; 3] = [1, 2, 3];

/// Three rows in one: the entry speaks to a middle node in each version, which speaks to the end in each version.
pub struct Grid {
    pub entry: Node,
    pub middles: Vec<Node>,
    pub end: Node,
}

impl Grid {
    pub fn start() -> Self {
        let pki = Pki::new();
        let tls = pki.issue(&["127.0.0.1", "node.test"]).yaml();
        let end = Node::start("end", &end(&tls));
        let address = end.address("web");
        let middles: Vec<Node> = VERSIONS
            .iter()
            .map(|out| Node::start("middle", &middle(&tls, &pki, address, *out)))
            .collect();
        let entry = Node::start("entry", &entry(&pki, &middles));
        Self {
            entry,
            middles,
            end,
        }
    }

    /// Where a client finds the row whose entry speaks `first`, and whose middle node speaks `second`.
    pub fn address(&self, first: u8, second: u8) -> SocketAddr {
        self.entry.address(&format!("v{first}{second}"))
    }

    /// The middle node that speaks this version.
    pub fn middle(&self, second: u8) -> &Node {
        &self.middles[usize::from(second) - 1]
    }
}

/// A node where the overlay ends, for programs of this machine.
pub fn end(tls: &str) -> String {
    format!(
        r#"
        listeners: {{ web: {{ http: 127.0.0.1:0, tls: {{ {tls} }} }} }}
        routes: [ {{ terminate: true }} ]
        egress: {{ allow: [127.0.0.0/8] }}
        "#
    )
}

/// An upstream in the file of a node.
pub fn upstream(pki: &Pki, address: SocketAddr, http: &str) -> String {
    format!(
        r#"{{ endpoints: ["{address}"], http: {http}, tls: {{ ca_file: {} }} }}"#,
        pki.ca().display()
    )
}

fn middle(tls: &str, pki: &Pki, next: SocketAddr, version: u8) -> String {
    format!(
        r#"
        listeners: {{ web: {{ http: 127.0.0.1:0, tls: {{ {tls} }} }} }}
        routes: [ {{ to: next }} ]
        upstreams: {{ next: {} }}
        "#,
        upstream(pki, next, &version.to_string())
    )
}

fn entry(pki: &Pki, middles: &[Node]) -> String {
    let (mut listeners, mut routes, mut upstreams) = (String::new(), String::new(), String::new());
    for first in VERSIONS {
        for (second, middle) in VERSIONS.iter().zip(middles) {
            let name = format!("v{first}{second}");
            listeners += &format!("  {name}: {{ http: 127.0.0.1:0 }}\n");
            routes += &format!("  - {{ match: {{ listener: {name} }}, to: {name} }}\n");
            upstreams += &format!(
                "  {name}: {}\n",
                upstream(pki, middle.address("web"), &first.to_string())
            );
        }
    }
    format!("listeners:\n{listeners}routes:\n{routes}upstreams:\n{upstreams}")
}
