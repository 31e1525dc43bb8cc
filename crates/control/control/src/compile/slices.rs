//! Slices: tunnels of IP packets from the devices of some users to a node's device.
//!
//! A user's device has a TUN device for each slice, and opens a tunnel (CONNECT-IP) with the name of the slice in a field. Nodes route by the
//! field and the user, so one address may be another host in another slice. Rules about slices come before all others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hermes_api::{Hash, Name};
use hermes_config::{child, element};
use serde_json::{Value as Json, json};

use super::draft::Draft;
use super::plan::Plan;
use super::routes::groups_of;
use super::source_map::SourceField;
use super::tenants::NamedUsers;
use super::upstreams::{self, Hops};
use crate::resources::{
    Key, Kind, NodeSpec, Resource, SliceName, SliceSpec, Spec, WayFinder, Ways,
};

/// The field that names the slice of a tunnel. Clients cannot set it; a device can, and what it may reach is decided by its user.
pub(super) const FIELD: &str = "x-hermes-slice";

/// The name of the rule that keeps everybody else out of slices.
pub(super) const DENIAL: &str = "slices";

/// Bytes of the longest name of a network device, without the prefix of ours.
const DEVICE_NAME: usize = 12;

/// A slice, and the ways to it.
pub(super) struct SlicePlan<'t> {
    pub(super) key: &'t Key,
    resource: &'t Resource,
    spec: &'t SliceSpec,
    pub(super) ways: Arc<Ways<'t>>,
    /// Nodes on the ways from those where exchanges enter.
    pub(super) passed: BTreeSet<&'t Name>,
}

impl SlicePlan<'_> {
    fn name(&self) -> String {
        SliceName(self.key.clone()).to_string()
    }

    /// The condition of its tunnels; `None` if no user is meant.
    fn condition(&self, plan: &Plan<'_>) -> Option<(Json, NamedUsers)> {
        let users = match plan.tenants.get(&self.key.tenant) {
            Some(tenant) if tenant.members.is_some() => tenant.users(Some(&self.spec.members)),
            _ => NamedUsers {
                texts: self.spec.members.iter().map(|user| json!(user)).collect(),
                groups: groups_of(&self.spec.members).collect(),
            },
        };
        (!users.texts.is_empty()).then(|| {
            let condition = json!({
                "kind": "connect-ip", "user": users.json(), "fields": { FIELD: self.name() },
            });
            (condition, users)
        })
    }
}

/// All slices, with the ways to them.
pub(super) fn slices<'t>(plan: &Plan<'t>) -> Vec<SlicePlan<'t>> {
    let slices = plan.tree.of_kind(Kind::Slice).filter_map(|resource| {
        let Spec::Slice(spec) = resource.spec() else {
            return None;
        };
        let key = resource.key();
        let graph = plan.graph_of(key);
        let ways = WayFinder::new(graph).ways(BTreeMap::from([(&spec.at, 1)]));
        let entries = graph.nodes().filter(|(_, node)| node.ingress);
        let passed = ways.passed(graph, entries.map(|(name, _)| name));
        Some(SlicePlan {
            key,
            resource,
            spec,
            ways,
            passed,
        })
    });
    slices.collect()
}

/// Adds the routes of slices at a node.
pub(super) fn add_routes(plan: &Plan<'_>, node: &Name, draft: &mut Draft) {
    for slice in plan
        .slices
        .iter()
        .filter(|slice| slice.passed.contains(node))
    {
        draft.reads.resource(slice.key);
        let Some((condition, users)) = slice.condition(plan) else {
            continue;
        };
        draft.groups.extend(users.groups);
        let mut route = json!({ "name": format!("slice/{}", slice.name()), "match": condition });
        if slice.ways.is_goal(node) {
            let written = slice.resource.written();
            route["terminate"] = json!({
                "tun": device_name(slice.key), "pool": written["pool"], "routes": written["prefixes"],
                "super_packets": true,
            });
            if slice.spec.nat {
                route["terminate"]["nat"] = true.into();
            }
        } else {
            let hops = slice.ways.hops(plan.graph_of(slice.key), node);
            let hops = Hops {
                key: slice.key,
                hops: &hops,
            };
            route["to"] = upstreams::next(plan, node, &hops, draft).into();
        }
        draft.push("routes", route, Some(SourceField::made(slice.key, "spec")));
    }
}

/// Adds the rules about slices at a node to a list of rules.
pub(super) fn add_rules(plan: &Plan<'_>, node: &Name, list: &mut Vec<Json>, draft: &mut Draft) {
    let here = plan
        .slices
        .iter()
        .filter(|slice| slice.passed.contains(node));
    let first = list.len();
    for slice in here {
        let Some((condition, users)) = slice.condition(plan) else {
            continue;
        };
        draft.groups.extend(users.groups);
        let source = SourceField::made(slice.key, "spec.members");
        draft.source(element("policy.rules", list.len()), Some(source));
        list.push(json!({
            "name": format!("slice/{}", slice.name()), "match": condition, "allow": true,
        }));
    }
    // Another rule may allow its users everything, and would let them into slices of others.
    if list.len() > first {
        list.push(json!({
            "name": DENIAL,
            "match": { "kind": "connect-ip", "fields": { FIELD: true } },
            "deny": { "reason": "the user is no member of the slice" },
        }));
    }
}

/// Adds the devices by which a user's device reaches slices.
pub(super) fn add_listeners(plan: &Plan<'_>, key: &Key, node: &NodeSpec, draft: &mut Draft) {
    for (index, SliceName(slice)) in node.slices.iter().enumerate() {
        draft.reads.resource(slice);
        let Some(resource) = plan.tree.resource(slice) else {
            continue;
        };
        let name = SliceName(slice.clone()).to_string();
        let written = resource.written();
        let mut device = json!({
            "name": device_name(slice),
            // Links between nodes are TCP: packets of one connection go as they come, and are cut where they leave.
            "super_packets": true,
            "tunnels": { slice.name.as_str(): { "prefixes": written["prefixes"], "set": { FIELD: name } } },
        });
        if let Some(names) = written.get("names") {
            device["dns"] = names.clone();
        }
        let listener = format!("slice-{}", name.replace('.', "-"));
        let source = SourceField::made(key, element("spec.slices", index));
        draft.source(
            child("listeners", &listener),
            Some(SourceField::made(slice, "spec")),
        );
        draft.entry(
            "listeners",
            &listener,
            json!({ "tun": device }),
            Some(source),
        );
    }
}

/// The name of the network device of a slice, on the devices of users and at its node.
fn device_name(slice: &Key) -> String {
    // A dot would divide the names of its settings (`net.ipv4.conf.NAME`).
    let name = SliceName(slice.clone()).to_string().replace('.', "_");
    match name.len() <= DEVICE_NAME {
        true => format!("hs-{name}"),
        false => format!(
            "hs-{}",
            &Hash::of(name.as_bytes()).to_string()[..DEVICE_NAME]
        ),
    }
}
