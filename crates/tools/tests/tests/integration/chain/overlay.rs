//! Alice's proxy, an ingress, a core and an edge, and the servers behind them.

use std::net::SocketAddr;

use hermes_tests::origins::{self, Origin, Request};
use hermes_tests::{Node, Pki};
use serde_json::Value;

/// What is spoken between core and edge; the other links are HTTP/2 over mutual TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Between {
    /// As everywhere.
    TlsH2,
    /// HTTP/1.1 without TLS.
    ClearH1,
}

/// Nodes and servers.
pub struct Overlay {
    /// From Alice to the edge.
    nodes: [Node; 4],
    between: Between,
    pub pki: Pki,
    _video: Origin<Request>,
    _secure: Origin<Request>,
    _db: Origin<Vec<u8>>,
    _echo: Origin<(SocketAddr, Vec<u8>)>,
}

impl Overlay {
    /// Starts everything, the last node first.
    pub fn start(between: Between) -> Self {
        let pki = Pki::new();
        let (video, secure) = (origins::http(), origins::https(&pki, &["secure"]));
        let (db, echo) = (origins::tcp_speaks_first(), origins::udp_echo(origins::V4));
        let servers = [
            video.address(),
            secure.address(),
            db.address(),
            echo.address(),
        ];
        let edge = Node::start("edge", &edge(&pki, between, servers));
        let core = Node::start("core", &core(&pki, between, edge.address("overlay")));
        let ingress = Node::start("ingress", &ingress(&pki, core.address("overlay")));
        let alice = Node::start("alice", &alice(&pki, ingress.address("overlay")));
        let nodes = [alice, ingress, core, edge];
        Self {
            nodes,
            between,
            pki,
            _video: video,
            _secure: secure,
            _db: db,
            _echo: echo,
        }
    }

    /// Alice's proxy.
    pub fn alice(&self) -> &Node {
        &self.nodes[0]
    }

    /// Waits until no node has a live exchange.
    pub fn idle(&self) {
        self.nodes.iter().for_each(Node::idle);
        for node in &self.nodes {
            assert_eq!(node.status()["exchanges"]["live"], 0);
        }
    }

    /// Open descriptors of every node.
    pub fn descriptors(&self) -> [usize; 4] {
        [0, 1, 2, 3].map(|node| self.nodes[node].fds())
    }

    /// Connections that every node may keep when `h1` messages were under way at once: a link on either side for each
    /// of two workers, and a connection for each message where HTTP/1.1 is spoken.
    pub fn kept(&self, h1: usize) -> [usize; 4] {
        match self.between {
            Between::TlsH2 => [2, 4, 4, 2 + h1],
            Between::ClearH1 => [2, 4, 2 + h1, 2 * h1],
        }
    }

    /// Access records of this kind of every node.
    pub fn records(&self, kind: &str) -> [Vec<Value>; 4] {
        [0, 1, 2, 3].map(|node| {
            let mut records = self.nodes[node].access();
            records.retain(|record| record["kind"] == kind);
            records
        })
    }

    /// Stops every node; a task that did not end would keep it.
    pub fn stop(&mut self) {
        for node in &mut self.nodes {
            assert!(node.stop().success(), "{}", node.log());
        }
    }
}

fn alice(pki: &Pki, ingress: SocketAddr) -> String {
    let listeners = r#"
identity: { user: alice }
listeners:
  web: { http: 127.0.0.1:0 }
  db: { tcp: 127.0.0.1:0, target: "DB:5432", set: { service: db } }
  echo: { udp: 127.0.0.1:0, target: "ECHO:7000", set: { service: echo } }
routes:
  - { to: next, timeouts: { udp: 1s } }
"#;
    format!("{listeners}{}", upstream(pki, "alice", "ingress", ingress))
}

fn ingress(pki: &Pki, core: SocketAddr) -> String {
    let (listener, upstream) = (
        listener(pki, "ingress", "alice", "[alice]"),
        upstream(pki, "ingress", "core", core),
    );
    format!("{listener}routes:\n  - {{ to: next }}\n{upstream}")
}

fn core(pki: &Pki, between: Between, edge: SocketAddr) -> String {
    let listener = listener(pki, "core", "ingress", r#"["*"]"#);
    let upstream = match between {
        Between::TlsH2 => upstream(pki, "core", "edge", edge),
        Between::ClearH1 => format!("upstreams:\n  next: {{ endpoints: [\"{edge}\"], http: 1 }}\n"),
    };
    format!("{listener}routes:\n  - {{ to: next }}\n{upstream}")
}

fn edge(pki: &Pki, between: Between, [video, secure, db, echo]: [SocketAddr; 4]) -> String {
    let listener = match between {
        Between::TlsH2 => listener(pki, "edge", "core", r#"["*"]"#),
        Between::ClearH1 => String::from(
            "listeners:\n  overlay: { http: 127.0.0.1:0, insecure_trust: [127.0.0.0/8] }\n",
        ),
    };
    format!(
        r#"
{listener}
routes:
  - {{ match: {{ target: VIDEO }}, terminate: video }}
  - {{ match: {{ target: "SECURE:443", user: alice }}, terminate: secure }}
  - {{ match: {{ target: "DB:5432", fields: {{ service: db }} }}, terminate: db }}
  - {{ match: {{ target: "ECHO:7000", fields: {{ service: echo }} }}, terminate: echo }}
upstreams:
  video: {{ endpoints: ["{video}"] }}
  secure: {{ endpoints: ["{secure}"] }}
  db: {{ endpoints: ["{db}"] }}
  echo: {{ endpoints: ["{echo}"] }}
"#
    )
}

/// A listener for one peer that shows its certificate.
fn listener(pki: &Pki, name: &str, peer: &str, speaks_for: &str) -> String {
    let (issued, authority) = (pki.issue(&[&format!("{name}.overlay")]).yaml(), pki.ca());
    format!(
        r#"
listeners:
  overlay: {{ http: 127.0.0.1:0, tls: {{ {issued}, client_ca_file: {} }}, auth: mtls }}
peers:
  {peer}: {{ certificate: {peer}.overlay, speaks_for: {speaks_for} }}
"#,
        authority.display()
    )
}

/// The next proxy, over HTTP/2 and mutual TLS.
fn upstream(pki: &Pki, name: &str, next: &str, address: SocketAddr) -> String {
    let (issued, authority) = (pki.issue(&[&format!("{name}.overlay")]).yaml(), pki.ca());
    let tls = format!(
        "{{ ca_file: {}, {issued}, server_name: {next}.overlay }}",
        authority.display()
    );
    format!("upstreams:\n  next: {{ endpoints: [\"{address}\"], http: 2, tls: {tls} }}\n")
}
