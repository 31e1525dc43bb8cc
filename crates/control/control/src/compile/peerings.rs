//! Other operators' overlays: their users at our border, and ours at theirs.
//!
//! A node at the border believes the authorities of the other overlay about that one's domain alone, and knows its nodes by name. Their
//! users are `alice@DOMAIN` here, and ask for exported names as `NAME.OUR-DOMAIN`: neither can be taken for one of ours. Rules about them
//! come before all others, and end with a refusal, so that a rule for everybody is about our own users.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hermes_api::Name;
use hermes_config::model::{HostMatch, TargetMatch};
use hermes_config::{Problem, child, element};
use serde_json::{Value as Json, json};

use super::draft::{Draft, OVERLAY};
use super::plan::{NamePlan, Plan, ServicePlan};
use super::routes::{hide_path, json_of, terminate};
use super::source_map::SourceField;
use super::upstreams::{self, Hops, tls};
use crate::resources::{
    ExportedName, Finding, Key, Kind, PeeringSpec, Resource, Spec, WayFinder, Ways, exported,
    is_below,
};

/// Begins the names of upstreams and peers of other overlays.
pub(super) const PREFIX: &str = "peering-";

/// Another overlay, and the ways to and from it.
pub(super) struct PeeringPlan<'t> {
    pub(super) key: &'t Key,
    pub(super) resource: &'t Resource,
    pub(super) spec: &'t PeeringSpec,
    /// To our nodes at the border.
    pub(super) ways: Arc<Ways<'t>>,
    /// Nodes on the ways of our users to the border; none where the other overlay cannot be reached.
    pub(super) passed: BTreeSet<&'t Name>,
    pub(super) exports: Vec<ExportPlan<'t>>,
}

/// A name that users of another overlay may ask for.
pub(super) struct ExportPlan<'t> {
    /// Its place in the list.
    pub(super) index: usize,
    pub(super) export: &'t ExportedName,
    /// Our name.
    pub(super) name: &'t Key,
    /// Its targets as we ask for them.
    pub(super) own: Vec<TargetMatch>,
    /// Its service.
    pub(super) service: &'t Key,
    /// Nodes on the ways from the border to the service.
    pub(super) passed: BTreeSet<&'t Name>,
}

impl<'t> PeeringPlan<'t> {
    /// The exports whose exchanges pass a node.
    pub(super) fn exports_at(&self, node: &Name) -> impl Iterator<Item = &ExportPlan<'t>> {
        let exports = self.exports.iter();
        exports.filter(move |export| export.passed.contains(node))
    }

    /// The names of the other overlay, as our users ask for them.
    pub(super) fn names(&self) -> TargetMatch {
        TargetMatch {
            host: HostMatch::Suffix(format!(".{}", self.spec.domain)),
            port: None,
        }
    }

    /// Whether its users come to a node: at our border, and on the way from there.
    pub(super) fn comes_to(&self, node: &Name) -> bool {
        let at_border = self.spec.at.contains(node) && !self.exports.is_empty();
        at_border || self.exports_at(node).next().is_some()
    }
}

impl ExportPlan<'_> {
    /// Its targets as users of other overlays ask for them.
    pub(super) fn targets(&self, domain: &str) -> Vec<TargetMatch> {
        let targets = self.own.iter();
        targets
            .filter_map(|target| exported(target, domain))
            .collect()
    }
}

/// All other overlays, with the ways to and from them.
pub(super) fn peerings<'t>(plan: &Plan<'t>) -> Vec<PeeringPlan<'t>> {
    let peerings = plan.tree.of_kind(Kind::Peering);
    let peerings = peerings.filter_map(|resource| match resource.spec() {
        Spec::Peering(spec) => Some(peering(plan, resource, spec)),
        _ => None,
    });
    peerings.collect()
}

fn peering<'t>(plan: &Plan<'t>, resource: &'t Resource, spec: &'t PeeringSpec) -> PeeringPlan<'t> {
    let key = resource.key();
    let graph = plan.graph_of(key);
    let goals: BTreeMap<&Name, u32> = spec.at.iter().map(|node| (node, 1)).collect();
    let ways = WayFinder::new(graph).ways(goals);
    let is_reached = spec.border.iter().any(|node| !node.reach.is_empty());
    let entries = graph
        .nodes()
        .filter(|(_, node)| node.is_entry() && is_reached);
    let passed = ways.passed(graph, entries.map(|(name, _)| name));
    let exports = spec.exports.iter().enumerate();
    let exports = exports.filter_map(|(index, export)| export_plan(plan, key, spec, index, export));
    let mut exports: Vec<_> = exports.collect();
    // A wider name before a narrower one would take its exchanges.
    exports.sort_by_key(|export| plan.names.iter().position(|name| name.key == export.name));
    PeeringPlan {
        key,
        resource,
        spec,
        ways,
        passed,
        exports,
    }
}

fn export_plan<'t>(
    plan: &Plan<'t>,
    key: &Key,
    spec: &'t PeeringSpec,
    index: usize,
    export: &'t ExportedName,
) -> Option<ExportPlan<'t>> {
    let name_key = key.sibling(Kind::Name, &export.name);
    let name: &NamePlan<'t> = plan.names.iter().find(|name| *name.key == name_key)?;
    let service = plan.service(name.key, &name.spec.service)?;
    let graph = plan.graph_of(key);
    Some(ExportPlan {
        index,
        export,
        name: name.key,
        own: name.targets.clone(),
        service: service.key,
        passed: service.ways.passed(graph, &spec.at),
    })
}

/// Mistakes that only an overlay that knows its own domain sees.
pub(super) fn mistakes(plan: &Plan<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut add = |key: &Key, field: &str, reason: String, remedy: &str| {
        found.push(
            plan.tree
                .finding(key, Problem::new(field, reason).remedy(remedy)),
        );
    };
    for peering in &plan.peerings {
        if peering.spec.domain == plan.domain {
            let reason = format!("`{}` is the domain of this overlay itself", plan.domain);
            let remedy = "one of the two has to begin anew with `hermes controller --overlay NAME`";
            add(peering.key, "spec.domain", reason, remedy);
        }
        for export in &peering.exports {
            let lost = peering
                .spec
                .at
                .iter()
                .find(|node| !export.passed.contains(node));
            if let Some(node) = lost {
                let field = element("spec.exports", export.index);
                let reason = format!(
                    "no way leads from `{node}` to the nodes of {}",
                    export.service
                );
                add(
                    peering.key,
                    &field,
                    reason,
                    "add a Link, or `listen` and `reach` to these nodes",
                );
            }
        }
    }
    if plan.peerings.is_empty() {
        return found;
    }
    for name in &plan.names {
        if name
            .targets
            .iter()
            .any(|target| is_below(target, &plan.domain))
        {
            let reason = format!(
                "users of other overlays ask for names as NAME.{}",
                plan.domain
            );
            add(name.key, "spec.name", reason, "choose another name");
        }
    }
    found
}

/// Lets a node at the border believe the authorities of other overlays, each about its own domain.
pub(super) fn add_domains(plan: &Plan<'_>, node: &Name, listener: &mut Json, draft: &mut Draft) {
    let tls = child(&child("listeners", OVERLAY), "tls");
    for peering in at_border(plan, node) {
        let bundle = &peering.resource.written()["bundle"];
        let domain = &peering.spec.domain;
        listener["tls"]["client_domains"][domain] = bundle.clone();
        let path = child(&child(&tls, "client_domains"), domain);
        draft.source(path, Some(SourceField::copied(peering.key, "spec.bundle")));
    }
}

/// The other overlays whose nodes send to this one.
fn at_border<'p, 't>(plan: &'p Plan<'t>, node: &Name) -> impl Iterator<Item = &'p PeeringPlan<'t>> {
    let is_here = move |peering: &&PeeringPlan<'_>| {
        peering.spec.at.contains(node) && !peering.exports.is_empty()
    };
    plan.peerings.iter().filter(is_here)
}

/// Adds the nodes of other overlays that send to a node at the border.
pub(super) fn add_peers(plan: &Plan<'_>, node: &Name, draft: &mut Draft) {
    for peering in at_border(plan, node) {
        let domain = &peering.spec.domain;
        for (index, border) in peering.spec.border.iter().enumerate() {
            let peer = json!({
                "certificate": format!("spiffe://{domain}/node/{}", border.node),
                "domain": domain,
                "speaks_for": peering.spec.speaks_for(),
                "accepts": peering.spec.accepts,
            });
            let name = format!("{PREFIX}{}-{}", peering.key.name, border.node);
            let source = SourceField::made(peering.key, element("spec.border", index));
            let path = child("peers", &name);
            for (key, field) in [
                ("accepts", "spec.accepts"),
                ("speaks_for", "spec.speaksFor"),
            ] {
                let source = SourceField::made(peering.key, field);
                draft.source(child(&path, key), Some(source));
            }
            draft.entry("peers", &name, peer, Some(source));
        }
    }
}

/// Adds the routes of exported names, and of the names of other overlays. They come before all others: no name of ours hides them.
pub(super) fn add_routes(plan: &Plan<'_>, node: &Name, draft: &mut Draft) {
    for peering in &plan.peerings {
        for export in peering.exports_at(node) {
            add_export(plan, node, peering, export, draft);
        }
        if peering.passed.contains(node) {
            add_way_out(plan, node, peering, draft);
        }
    }
}

fn add_export(
    plan: &Plan<'_>,
    node: &Name,
    peering: &PeeringPlan<'_>,
    export: &ExportPlan<'_>,
    draft: &mut Draft,
) {
    let Some(service) = plan.service(export.name, &export.service.name) else {
        return;
    };
    draft.reads.way(export.name, &export.service.name);
    let targets = export.targets(&plan.domain);
    let users = peering.spec.exported_to(export.export);
    let mut route = json!({
        "name": format!("peering/{}/{}", peering.key.name, export.name.name),
        "match": { "target": json_of(&targets), "user": users },
    });
    onward(plan, node, service, &mut route, draft);
    let field = element("spec.exports", export.index);
    draft.push("routes", route, Some(SourceField::made(peering.key, field)));
}

/// Sends exchanges of a route to the next nodes of a service, or to its servers.
fn onward(
    plan: &Plan<'_>,
    node: &Name,
    service: &ServicePlan<'_>,
    route: &mut Json,
    draft: &mut Draft,
) {
    if service.ways.is_goal(node) {
        return terminate(service, node, route, draft);
    }
    let key = service.key;
    let hops = service.ways.hops(plan.graph_of(key), node);
    route["to"] = upstreams::next(plan, node, &Hops { key, hops: &hops }, draft).into();
    hide_path(service, route);
}

/// The route of our users to the other overlay.
fn add_way_out(plan: &Plan<'_>, node: &Name, peering: &PeeringPlan<'_>, draft: &mut Draft) {
    let key = peering.key;
    let next = match peering.ways.is_goal(node) {
        true => other_side(peering, draft),
        false => {
            let hops = peering.ways.hops(plan.graph_of(key), node);
            upstreams::next(plan, node, &Hops { key, hops: &hops }, draft)
        }
    };
    let route = json!({
        "name": format!("peering/{}", key.name),
        "match": { "target": peering.names().to_string() },
        "to": next,
    });
    draft.push("routes", route, Some(SourceField::made(key, "spec.domain")));
}

/// Adds the upstream of the nodes of another overlay; returns its name.
fn other_side(peering: &PeeringPlan<'_>, draft: &mut Draft) -> String {
    let name = format!("{PREFIX}{}", peering.key.name);
    let domain = &peering.spec.domain;
    let mut endpoints = Vec::new();
    for border in &peering.spec.border {
        let server_name = format!("{}.{domain}", border.node);
        let addresses = border.reach.iter();
        endpoints.extend(
            addresses.map(
                |address| json!({ "address": address.to_string(), "server_name": server_name }),
            ),
        );
    }
    // Its authorities alone: one of ours could make a certificate of any name. Its lists of revoked ones are not known here.
    let mut tls = tls("ca_file");
    tls.remove("crl_file");
    tls.insert(
        "ca_file".to_owned(),
        peering.resource.written()["bundle"].clone(),
    );
    let upstream = json!({ "endpoints": endpoints, "tls": tls });
    let source = SourceField::made(peering.key, "spec.border");
    draft.entry("upstreams", &name, upstream, Some(source));
    let path = child(&child(&child("upstreams", &name), "tls"), "ca_file");
    draft.source(path, Some(SourceField::copied(peering.key, "spec.bundle")));
    name
}
