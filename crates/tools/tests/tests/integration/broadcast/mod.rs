//! Requests that are copied to several origins.

mod fitness;
mod multipart;
mod replies;
mod senders;

use hermes_tests::origins::{self, Origin, Request};
use hermes_tests::{Node, curl};

/// Three origins that count.
struct Origins([Origin<Request>; 3]);

impl Origins {
    fn start() -> Self {
        Self([origins::http(), origins::http(), origins::http()])
    }

    fn endpoints(&self) -> String {
        self.0
            .iter()
            .map(|origin| format!("\"{}\"", origin.address()))
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// Requests that each has seen.
    fn counts(&self) -> [usize; 3] {
        [0, 1, 2].map(|number| self.0[number].seen().len())
    }
}

/// A node for the three origins; `broadcast` is the route's rule. Listener `web` believes the field, `plain` does not.
fn node(origins: &Origins, broadcast: &str) -> Node {
    node_with(&format!("endpoints: [{}]", origins.endpoints()), broadcast)
}

fn node_with(upstream: &str, broadcast: &str) -> Node {
    node_of("", upstream, broadcast)
}

/// As [`node_with`], of a document that also has this line.
fn node_of(line: &str, upstream: &str, broadcast: &str) -> Node {
    let yaml = format!(
        r#"
        {line}
        listeners:
          web: {{ http: 127.0.0.1:0, user: alice, accepts: [x-hermes-broadcast] }}
          plain: {{ http: 127.0.0.1:0, user: alice }}
          other: {{ http: 127.0.0.1:0, user: bob, accepts: [x-hermes-broadcast] }}
        routes:
          - {{ terminate: shards, broadcast: {broadcast}, expose: [x-hermes-broadcast] }}
        upstreams:
          shards: {{ {upstream} }}
        "#
    );
    Node::start("sap", &yaml)
}

/// Asks for copies.
fn broadcast(node: &Node, arguments: &[&str]) -> curl::Output {
    via(node, "web", arguments)
}

fn via(node: &Node, listener: &str, arguments: &[&str]) -> curl::Output {
    let url = node.url(listener);
    curl(
        &[
            &["-x", &url, "-H", "x-hermes-broadcast: true"][..],
            arguments,
        ]
        .concat(),
    )
}
