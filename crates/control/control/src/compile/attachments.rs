//! Attachments: nodes that keep connections to those that send to them.

use hermes_api::Name;
use hermes_config::element;
use serde_json::{Value as Json, json};

use super::draft::{Draft, OVERLAY};
use super::plan::Plan;
use super::source_map::SourceField;
use super::upstreams::{Reached, of_nodes};
use crate::resources::NodeSpec;

/// The token by which a node asks to be attached.
const PTTH: &str = "ptth";

/// Adds the listeners by which a node attaches itself, and the upstreams that they attach to.
pub(super) fn add_listeners(plan: &Plan<'_>, name: &Name, node: &NodeSpec, draft: &mut Draft) {
    let key = plan.tree.node_key(name);
    for (index, hub) in node.attach.iter().enumerate() {
        let Some(spec) = plan.graph.node(hub) else {
            continue;
        };
        let source = || Some(SourceField::made(&key, element("spec.attach", index)));
        let reached = Reached {
            name: hub,
            node: spec,
            share: 1,
        };
        let upstream = format!("to-{hub}");
        let endpoints = of_nodes(plan, &[reached], None, draft);
        let listener = json!({ "attach": { "to": upstream, "as": name } });
        draft.entry("listeners", &format!("attach-{hub}"), listener, source());
        draft.entry("upstreams", &upstream, endpoints, source());
    }
}

/// Adds the routes by which nodes are attached here, each under its own name.
pub(super) fn add_routes(plan: &Plan<'_>, node: &Name, draft: &mut Draft) {
    for attached in plan.graph.attached_to(node) {
        let route = json!({
            "name": format!("attach/{attached}"),
            "match": { "listener": OVERLAY, "protocol": PTTH, "user": certificate(plan, attached) },
            "attach": [attached],
        });
        let key = plan.tree.node_key(attached);
        draft.push(
            "routes",
            route,
            Some(SourceField::made(&key, "spec.attach")),
        );
    }
}

/// The rule that lets nodes ask to be attached here, and nothing else; `None` where there are none.
pub(super) fn rule(plan: &Plan<'_>, node: &Name) -> Option<Json> {
    let attached = plan.graph.attached_to(node);
    let users: Vec<String> = attached
        .map(|attached| certificate(plan, attached))
        .collect();
    (!users.is_empty()).then(|| {
        json!({
            "name": "attach",
            "match": { "listener": OVERLAY, "protocol": PTTH, "user": users },
            "allow": true,
        })
    })
}

/// The user of a request that a node's certificate alone identifies.
fn certificate(plan: &Plan<'_>, node: &Name) -> String {
    format!("spiffe://{}/node/{node}", plan.domain)
}
