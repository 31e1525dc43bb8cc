//! The document of a proxy.

use hermes_api::Name;
use serde_json::{Value as Json, json};

use super::draft::{Draft, OVERLAY};
use super::plan::Plan;
use super::source_map::SourceField;
use super::tenants::NamedGroup;
use super::{Read, attachments, peerings, peers, policy, routes, upstreams};
use crate::resources::{Key, Kind, NodeSpec, Spec};

/// The document of a node that is no device.
pub(super) fn document(plan: &Plan<'_>, name: &Name, node: &NodeSpec) -> Draft {
    let key = plan.tree.node_key(name);
    let mut draft = Draft::new(name.as_str(), Some(SourceField::made(&key, "spec")));
    draft.reads.resource(&key);
    // The rules of all tenants stand beside each other, as do those about other overlays, and each peer has a certificate.
    for read in [
        Read::Terrain,
        Read::TrustDomain,
        Read::Every(Kind::Tenant),
        Read::Every(Kind::Peering),
    ] {
        draft.reads.add(read);
    }
    if let Some(zone) = &node.zone {
        let source = SourceField::copied(&key, "spec.zone");
        draft.set("zone", zone.as_str().into(), Some(source));
    }

    if let Some(plugs) = &node.plugs {
        let source = SourceField::copied(&key, "spec.plugs");
        draft.set("plugs", json!(plugs), Some(source));
    }

    listeners(plan, &key, node, &mut draft);
    attachments::add_listeners(plan, name, node, &mut draft);
    peers::add(plan, name, &mut draft);
    if node.is_entry() {
        users(plan, &mut draft);
    }
    attachments::add_routes(plan, name, &mut draft);
    routes::add(plan, name, &mut draft);
    policy::add(plan, name, &mut draft);
    // Last: routes and rules have said by now which groups they name.
    groups(plan, &mut draft);
    draft
}

fn listeners(plan: &Plan<'_>, key: &Key, node: &NodeSpec, draft: &mut Draft) {
    if let Some(listen) = &node.listen {
        let tls = upstreams::tls("client_ca_file");
        let mut overlay = json!({ "http": listen.to_string(), "auth": "mtls", "tls": tls });
        peerings::add_domains(plan, &key.name, &mut overlay, draft);
        let source = SourceField::made(key, "spec.listen");
        draft.entry("listeners", OVERLAY, overlay, Some(source));
    }
    own_listeners(key, node, draft);
}

/// The listeners that the resource of a node has.
pub(super) fn own_listeners(key: &Key, node: &NodeSpec, draft: &mut Draft) {
    for (name, listener) in &node.listeners {
        let source = SourceField::copied(key, hermes_config::child("spec.listeners", name));
        draft.entry("listeners", name, listener.clone(), Some(source));
    }
}

/// Users with several names are known under one where they enter; from there on they have it.
fn users(plan: &Plan<'_>, draft: &mut Draft) {
    draft.reads.add(Read::Every(Kind::User));
    for resource in plan.tree.of_kind(Kind::User) {
        let Spec::User(user) = resource.spec() else {
            continue;
        };
        if !user.names.is_empty() {
            let key = resource.key();
            let source = SourceField::copied(key, "spec.names");
            draft.entry("users", key.name.as_str(), json!(user.names), Some(source));
        }
    }
}

/// The groups that the document names so far.
fn groups(plan: &Plan<'_>, draft: &mut Draft) {
    for group in draft.groups.clone() {
        let key = match &group {
            NamedGroup::Resource(key) => key.clone(),
            NamedGroup::Members(tenant) => Key::new(Kind::Tenant, tenant.clone()),
        };
        draft.reads.resource(&key);
        let tenant = match &group {
            NamedGroup::Resource(key) => plan.tenants.get(&key.tenant),
            NamedGroup::Members(tenant) => plan.tenants.get(tenant),
        };
        let (Some(resource), Some(tenant)) = (plan.tree.resource(&key), tenant) else {
            continue;
        };
        let members: Json = match tenant.members {
            None => resource.written()["members"].clone(),
            Some(_) => tenant.members_of(plan.tree, &group),
        };
        let source = SourceField::copied(&key, "spec.members");
        draft.entry("groups", &group.to_string(), members, Some(source));
    }
}
