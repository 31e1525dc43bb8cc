//! The document of users' devices: everything goes to the ingresses.

use hermes_api::Name;
use hermes_config::Problem;
use serde_json::json;

use super::draft::Draft;
use super::plan::Plan;
use super::proxy::own_listeners;
use super::source_map::SourceField;
use super::upstreams::{Reached, of_nodes};
use super::{Read, slices};
use crate::resources::{Finding, NodeSpec};

/// Where programs on a device find the proxy, if it has no listeners of its own.
const WEB: &str = "${HERMES_WEB:-127.0.0.1:8080}";

/// The upstream of all ingresses.
const INGRESS: &str = "ingress";

/// The document that all devices share, or that of one with wishes of its own.
///
/// # Errors
/// No node takes devices.
pub(super) fn document(plan: &Plan<'_>, own: Option<(&Name, &NodeSpec)>) -> Result<Draft, Finding> {
    let ingresses = plan.graph.nodes().filter(|(_, node)| node.ingress);
    let ingresses: Vec<_> = ingresses
        .map(|(name, node)| Reached {
            name,
            node,
            share: 1,
        })
        .collect();
    let Some(first) = ingresses.first() else {
        let problem = Problem::new(
            "",
            "devices cannot enter the overlay: no node is an ingress",
        );
        return Err(problem
            .remedy("write `ingress: true` in a Node with `listen` and `reach`")
            .into());
    };

    let key_of = |name: &Name| plan.tree.node_key(name);
    let own_key = own.map(|(name, _)| key_of(name));
    let source = own_key.as_ref().map(|key| SourceField::made(key, "spec"));
    let mut draft = Draft::new("${HERMES_NODE}", source);
    draft.reads.add(Read::Terrain);
    if let Some(key) = &own_key {
        draft.reads.resource(key);
    }
    if let (Some(key), Some((_, node))) = (&own_key, own) {
        if let Some(zone) = &node.zone {
            draft.set(
                "zone",
                zone.as_str().into(),
                Some(SourceField::copied(key, "spec.zone")),
            );
        }
        own_listeners(key, node, &mut draft);
    }
    let has_web = !draft.lacks("listeners");
    if let (Some(key), Some((_, node))) = (&own_key, own) {
        slices::add_listeners(plan, key, node, &mut draft);
    }
    if !has_web {
        draft.entry("listeners", "web", json!({ "http": WEB }), None);
    }

    // Loopback needs no password: programs on the device are the user's.
    draft.set("identity", json!({ "user": "${HERMES_USER}" }), None);
    draft.push("routes", json!({ "name": "overlay", "to": INGRESS }), None);
    let source = SourceField::made(&key_of(first.name), "spec.reach");
    let endpoints = of_nodes(plan, &ingresses, None, &mut draft);
    draft.entry("upstreams", INGRESS, endpoints, Some(source));
    Ok(draft)
}
