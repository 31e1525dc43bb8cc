//! Peers of a proxy: the nodes that send to it, and devices.

use hermes_api::Name;
use serde_json::{Value as Json, json};

use super::draft::Draft;
use super::peerings;
use super::plan::Plan;
use super::source_map::SourceField;
use crate::resources::Key;

/// Adds the peers of a node.
pub(super) fn add(plan: &Plan<'_>, node: &Name, draft: &mut Draft) {
    let domain = &plan.domain;
    if plan.graph.node(node).is_some_and(|spec| spec.ingress) {
        // One pattern for all devices: a device that joins changes nothing here.
        let certificate = format!("spiffe://{domain}/user/{{user}}/*");
        let devices = json!({ "certificate": certificate, "speaks_for": ["{user}"] });
        let source = SourceField::made(&plan.tree.node_key(node), "spec.ingress");
        draft.entry("peers", "devices", devices, Some(source));
    }

    peerings::add_peers(plan, node, draft);
    // Only nodes that send here are believed about users: the fewer, the better.
    for sender in plan.senders(node) {
        let certificate = format!("spiffe://{domain}/node/{sender}");
        let sender_key = plan.tree.node_key(sender);
        let speaks_for = users_of(plan, &sender_key, &plan.tree.node_key(node));
        let peer = json!({ "certificate": certificate, "speaks_for": speaks_for });
        let source = match plan.graph.link(sender, node) {
            Some(link) => SourceField::made(link.key, "spec"),
            None => SourceField::made(&sender_key, "spec"),
        };
        draft.entry("peers", &format!("node-{sender}"), peer, Some(source));
    }
}

/// The users about whom a node is believed at another one. That of a tenant could say of a user of two tenants what it likes, and so
/// reach what the other tenant has: it is believed about those who are its own alone.
fn users_of(plan: &Plan<'_>, sender: &Key, receiver: &Key) -> Json {
    let tenant = plan.tenants.get(&sender.tenant);
    let Some(tenant) = tenant.filter(|_| !sender.is_operators()) else {
        return json!(["*"]);
    };
    if receiver.tenant == sender.tenant {
        return json!(tenant.members.iter().flatten().collect::<Vec<_>>());
    }
    let others: Vec<_> = plan
        .others()
        .filter(|other| other.name != tenant.name)
        .collect();
    let is_alone = |member: &&&str| {
        let of_others = others.iter().filter_map(|other| other.members.as_ref());
        !of_others
            .into_iter()
            .any(|members| members.contains(**member))
    };
    let members = tenant.members.iter().flatten();
    json!(members.filter(is_alone).collect::<Vec<_>>())
}
