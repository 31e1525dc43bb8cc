//! Publish and subscribe over HTTP, by the clients that people have.

mod aggregation;
mod bounds;
mod certified;
mod forms;
mod library;
mod long;
mod migration;
mod patterns;
mod program;
mod rendezvous;
mod script;
mod sealed;
mod secrets;
pub(crate) mod subscriber;
mod subscriptions;
mod versions;

use std::net::SocketAddr;

use hermes_tests::Node;

/// A node whose every path is a channel, with this in its settings.
fn relay(settings: &str) -> Node {
    Node::start(
        "relay",
        &format!(
            r"
            listeners: {{ web: {{ http: 127.0.0.1:0, gateway: true }} }}
            routes: [ {{ handle: {{ relay: {{ {settings} }} }} }} ]
            "
        ),
    )
}

/// A channel there.
fn channel(address: SocketAddr) -> String {
    format!("http://{address}/c/x")
}

/// The number of subscriptions, as the node's status has it.
fn subscriptions(node: &Node) -> u64 {
    let status = node.status();
    status["plugs"]["relay"]["subscriptions"]
        .as_u64()
        .unwrap_or_default()
}
