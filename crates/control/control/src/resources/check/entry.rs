//! Whether exchanges that enter find a way to their service.

use std::collections::{BTreeMap, BTreeSet};

use hermes_api::Name;

use super::report::Report;
use crate::resources::{Graph, Key, Kind, Resource, Spec, Tree, WayFinder};

/// Each ingress has a way to each service that a name leads to.
pub(super) fn entries(report: &mut Report<'_>) {
    let unreached_names = find_unreached(report);
    for (key, lost) in unreached_names {
        unreached(key, &lost, report);
    }
}

/// Names, each with the ingresses from where no way leads to its service.
fn find_unreached<'t>(report: &Report<'t>) -> Vec<(&'t Key, Vec<&'t str>)> {
    let nodes = report.graph.nodes().filter(|(_, node)| node.ingress);
    let ingresses: Vec<&'t Name> = nodes.map(|(name, _)| name).collect();
    let named = || report.tree.of_kind(Kind::Name);
    let tenants: BTreeSet<&'t Name> = named().map(|name| &name.key().tenant).collect();

    let mut found = Vec::new();
    for tenant in tenants {
        // Each tenant has nodes and links of its own, and so other ways.
        let graph = Graph::of(report.tree, tenant);
        let names = named().filter(|name| name.key().tenant == *tenant);
        found.extend(unreached_of(report.tree, &graph, &ingresses, names));
    }
    found
}

fn unreached_of<'t>(
    tree: &'t Tree,
    graph: &Graph<'t>,
    ingresses: &[&'t Name],
    names: impl Iterator<Item = &'t Resource>,
) -> Vec<(&'t Key, Vec<&'t str>)> {
    let mut finder = WayFinder::new(graph);
    let mut found = Vec::new();
    for resource in names {
        let Spec::Name(name) = resource.spec() else {
            continue;
        };
        let key = resource.key();
        let service = tree.resource(&key.sibling(Kind::Service, &name.service));
        let Some(Spec::Service(service)) = service.map(|service| service.spec()) else {
            continue;
        };
        let known = service
            .at
            .iter()
            .filter(|end| graph.node(&end.node).is_some());
        let goals: BTreeMap<&Name, u32> = known.map(|end| (&end.node, 1)).collect();
        // Its nodes are unknown, which is reported already.
        if goals.is_empty() {
            continue;
        }

        let ways = finder.ways(goals);
        let lost = ingresses.iter().filter(|ingress| !ways.leads_from(ingress));
        let lost: Vec<&str> = lost.map(|ingress| ingress.as_str()).collect();
        if !lost.is_empty() {
            found.push((key, lost));
        }
    }
    found
}

fn unreached(key: &Key, lost: &[&str], report: &mut Report<'_>) {
    let reason = format!(
        "no way leads from {} to the nodes of this service",
        lost.join(", ")
    );
    let remedy = "add a Link, or `listen` and `reach` to these nodes";
    report.add(key, "spec.service", reason, remedy);
}
