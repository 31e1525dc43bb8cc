//! A row of nodes: the first faces the test, the last ends the overlay.

use std::net::SocketAddr;

use hermes_tests::Node;

/// Running nodes, the entry first.
pub struct Overlay {
    nodes: Vec<Node>,
}

/// The node where the overlay ends.
const END: &str = r#"
    listeners:
      web: { http: 127.0.0.1:0 }
    routes:
      - { terminate: true }
    egress: { allow: [127.0.0.0/8, "::1/128"] }
    workers: 1
"#;

impl Overlay {
    /// Nodes whose links speak these HTTP versions, the link of the entry first. Without a link, the entry is the end.
    pub fn start(links: &[u8]) -> Self {
        let mut nodes = vec![Node::start("end", END)];
        for (position, version) in links.iter().enumerate().rev() {
            let next = nodes[0].address("web");
            nodes.insert(
                0,
                forwarder(&format!("hop{position}"), next, &version.to_string()),
            );
        }
        Self { nodes }
    }

    /// Clients enter by this node from now on, which forwards to the one that was the entry.
    pub fn enter_by(&mut self, node: Node) {
        self.nodes.insert(0, node);
    }

    /// Where a client finds the entry.
    pub fn address(&self) -> SocketAddr {
        self.nodes[0].address("web")
    }

    /// The node where the overlay ends.
    pub fn end(&self) -> &Node {
        &self.nodes[self.nodes.len() - 1]
    }

    /// Waits until no node has a live exchange.
    pub fn idle(&self) {
        self.nodes.iter().for_each(Node::idle);
    }
}

/// A node that forwards everything to `next`; one worker, so that there is one link.
pub fn forwarder(name: &str, next: SocketAddr, version: &str) -> Node {
    let yaml = format!(
        r#"
        listeners:
          web: {{ http: 127.0.0.1:0 }}
        routes:
          - {{ to: next }}
        upstreams:
          next: {{ endpoints: ["{next}"], http: {version} }}
        workers: 1
        "#
    );
    Node::start(name, &yaml)
}

/// Overlays of one hop, of two with either version between them, and of three.
pub fn all() -> Vec<Overlay> {
    [&[][..], &[1], &[2], &[2, 2], &[1, 2]]
        .into_iter()
        .map(Overlay::start)
        .collect()
}
