//! Bootstraps of Envoy (API version 3): listeners and clusters of the file itself, and of the files that it names.
//!
//! A connection manager becomes an `http` listener with `gateway`, its virtual hosts become routes in the order of their specificity, and a
//! cluster becomes an upstream. Where a condition, a rewrite or a filter that keeps requests out cannot be carried, its requests are
//! refused, so that nothing reaches a server that did not before.

mod action;
mod address;
mod authorization;
mod chains;
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

use std::rc::Rc;

use serde_json::json;

use crate::discovered::{Discovered, ReadBeside};
use crate::draft::Draft;
use crate::source::Node;
use crate::unreadable::Unreadable;
use cluster::Clusters;

/// How long Envoy waits for an answer where a route does not say.
const TIMEOUT: &str = "15s";

pub(crate) fn convert(
    root: &Node,
    read: ReadBeside<'_>,
    draft: &mut Draft,
) -> Result<(), Unreadable> {
    let mut found = Discovered::load(root, read, draft);
    let fixed = root.field("static_resources");
    if let Some(fixed) = fixed {
        found.secrets = fixed.list("secrets").to_vec();
        fixed.skip(&["secrets"]);
    }
    draft.discovered = Rc::new(found);
    let found = Rc::clone(&draft.discovered);

    let clusters = resources(root, "clusters", "cds_config", "Cluster", &found);
    let listeners = resources(root, "listeners", "lds_config", "Listener", &found);
    if fixed.is_none() && listeners.is_empty() {
        return Err(Unreadable::new(
            "it has no `static_resources`; resources of a control plane are not in the file",
        ));
    }
    convert_resources(root, &clusters, &listeners, draft)?;
    draft.note_unread(root);
    found.note_unread(draft);
    Ok(())
}

/// The resources of the bootstrap itself, and of the file of a `cds_config` or `lds_config`.
fn resources<'a>(
    root: &'a Node,
    key: &str,
    source: &str,
    kind: &str,
    found: &'a Discovered,
) -> Vec<&'a Node> {
    let fixed = root.field("static_resources");
    let mut all: Vec<&Node> = fixed
        .into_iter()
        .flat_map(|fixed| fixed.list(key))
        .collect();
    if let Some(source) = root.at(&["dynamic_resources", source]) {
        all.extend(found.all(source, kind));
    }
    all
}

fn convert_resources(
    root: &Node,
    cluster_nodes: &[&Node],
    listeners: &[&Node],
    draft: &mut Draft,
) -> Result<(), Unreadable> {
    if let Some(node) = root.field("node") {
        draft.node = node.text("id").map(str::to_owned);
        node.skip(&["cluster", "locality", "user_agent_name"]);
    }
    note_admin(root, draft);

    let mut clusters = Clusters::new();
    for cluster in cluster_nodes {
        cluster.skip(&["@type"]);
        let Some(name) = cluster.text("name") else {
            draft.left_out(cluster.line, "cluster", "it has no name");
            continue;
        };
        let converted = cluster::convert(cluster, name, draft);
        clusters.insert(name.to_owned(), converted);
    }

    let listeners = listener::convert_all(listeners, &mut clusters, draft);
    if listeners == 0 {
        return Err(Unreadable::new(
            "none of its listeners can be converted; it needs one with a connection manager, a TCP proxy or a UDP proxy",
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
