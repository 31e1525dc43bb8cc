//! Whether exchanges that enter find a way to their service.

use std::collections::BTreeMap;

use hermes_api::Name;

use super::report::Report;
use crate::resources::{Key, Kind, Spec};

/// Each ingress has a way to each service that a name leads to.
pub(super) fn entries(report: &mut Report<'_>) {
    let tree = report.tree;
    let ingresses: Vec<&Name> = report
        .graph
        .nodes()
        .filter(|(_, node)| node.ingress)
        .map(|(name, _)| name)
        .collect();

    for resource in tree.of_kind(Kind::Name) {
        let Spec::Name(name) = resource.spec() else {
            continue;
        };
        let service = tree.resource(&resource.key().sibling(Kind::Service, &name.service));
        let Some(Spec::Service(service)) = service.map(|service| service.spec()) else {
            continue;
        };
        let known = service
            .at
            .iter()
            .filter(|end| report.graph.node(&end.node).is_some());
        let goals: BTreeMap<&Name, u32> = known.map(|end| (&end.node, end.weight())).collect();
        // Its nodes are unknown, which is reported already.
        if goals.is_empty() {
            continue;
        }

        let ways = report.graph.ways(&goals);
        let lost = ingresses.iter().filter(|ingress| !ways.leads_from(ingress));
        let lost: Vec<&str> = lost.map(|ingress| ingress.as_str()).collect();
        if !lost.is_empty() {
            unreached(resource.key(), &lost, report);
        }
    }
}

fn unreached(key: &Key, lost: &[&str], report: &mut Report<'_>) {
    let reason = format!(
        "no way leads from {} to the nodes of this service",
        lost.join(", ")
    );
    let remedy = "add a Link, or `listen` and `reach` to these nodes";
    report.add(key, "spec.service", reason, remedy);
}
