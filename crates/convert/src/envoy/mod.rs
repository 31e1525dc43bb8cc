//! Bootstraps of Envoy (API version 3): static listeners and clusters.
//!
//! A connection manager becomes an `http` listener with `gateway`, its virtual hosts become routes in the order of their specificity, and a
//! cluster becomes an upstream. Where a condition, a rewrite or a filter that keeps requests out cannot be carried, its requests are
//! refused, so that nothing reaches a server that did not before.

mod action;
mod address;
mod authorization;
mod cluster;
mod extension;
mod fields;
mod health;
mod http;
mod listener;
mod matcher;
mod redirect;
mod retry;
mod route;
mod scope;
mod tcp;
mod tls;
mod udp;

use serde_json::json;

use crate::draft::Draft;
use crate::source::Node;
use crate::unreadable::Unreadable;
use cluster::Clusters;

/// How long Envoy waits for an answer where a route does not say.
const TIMEOUT: &str = "15s";

pub(crate) fn convert(root: &Node, draft: &mut Draft) -> Result<(), Unreadable> {
    let Some(resources) = root.field("static_resources") else {
        return Err(Unreadable::new(
            "it has no `static_resources`; what a control plane sends is not in the file",
        ));
    };
    if let Some(node) = root.field("node") {
        draft.node = node.text("id").map(str::to_owned);
        node.skip(&["cluster", "locality", "user_agent_name"]);
    }
    note_admin(root, draft);

    let mut clusters = Clusters::new();
    for cluster in resources.list("clusters") {
        let Some(name) = cluster.text("name") else {
            draft.left_out(cluster.line, "cluster", "it has no name");
            continue;
        };
        let converted = cluster::convert(cluster, name, draft);
        clusters.insert(name.to_owned(), converted);
    }

    let listeners = listener::convert_all(resources.list("listeners"), &mut clusters, draft);
    if listeners == 0 {
        return Err(Unreadable::new(
            "none of its listeners can be carried; it needs one with a connection manager, a TCP proxy or a UDP proxy",
        ));
    }

    for cluster in clusters.into_values() {
        cluster.put(draft);
    }
    draft.top.insert(
        "defaults".to_owned(),
        json!({ "timeouts": { "header": TIMEOUT } }),
    );
    // Envoy knows no fields of an overlay: those of the applications pass as they are.
    let mut fields = vec!["user".to_owned()];
    let given = authorization::given_fields(&draft.authorize);
    draft.expose(&given);
    fields.extend(given);
    draft.top.insert("fields".to_owned(), json!(fields));
    draft.note_unread(root);
    Ok(())
}

fn note_admin(root: &Node, draft: &mut Draft) {
    if let Some(admin) = root.field("admin") {
        admin.skip_all();
        draft.left_out(
            admin.line,
            "admin",
            "a node is asked by `hermes status` over a Unix socket; `admin: { metrics: 127.0.0.1:9901 }` serves metrics alone",
        );
    }
}
