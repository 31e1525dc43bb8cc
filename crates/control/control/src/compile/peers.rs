//! Peers of a proxy: the nodes that send to it, and devices.

use hermes_api::Name;
use serde_json::json;

use super::draft::Draft;
use super::plan::Plan;
use super::source_map::SourceField;
use crate::resources::{Key, Kind};

/// Adds the peers of a node.
pub(super) fn add(plan: &Plan<'_>, node: &Name, draft: &mut Draft) {
    let domain = &plan.domain;
    if plan.graph.node(node).is_some_and(|spec| spec.ingress) {
        // One pattern for all devices: a device that joins changes nothing here.
        let certificate = format!("spiffe://{domain}/user/{{user}}/*");
        let devices = json!({ "certificate": certificate, "speaks_for": ["{user}"] });
        let source = SourceField::made(&Key::new(Kind::Node, node.clone()), "spec.ingress");
        draft.entry("peers", "devices", devices, Some(source));
    }

    // Only nodes that send here are believed about users: the fewer, the better.
    for sender in plan.senders(node) {
        let certificate = format!("spiffe://{domain}/node/{sender}");
        let peer = json!({ "certificate": certificate, "speaks_for": ["*"] });
        let source = match plan.graph.link(sender, node) {
            Some(link) => SourceField::made(link.key, "spec"),
            None => SourceField::made(&Key::new(Kind::Node, sender.clone()), "spec"),
        };
        draft.entry("peers", &format!("node-{sender}"), peer, Some(source));
    }
}
