//! Services with their nodes.

use super::report::Report;
use crate::resources::{Kind, Spec};

/// Each service has nodes that reach it.
pub(super) fn services(report: &mut Report<'_>) {
    let tree = report.tree;
    for resource in tree.of_kind(Kind::Service) {
        let Spec::Service(service) = resource.spec() else {
            continue;
        };
        let key = resource.key();
        if service.at.is_empty() {
            let remedy = "write one: `at: [{ node: hub, address: 127.0.0.1:8000 }]`";
            report.add(key, "spec.at", "no node reaches the service", remedy);
        }
        for (index, end) in service.at.iter().enumerate() {
            report.refers_to_proxy(key, &format!("spec.at[{index}].node"), &end.node);
        }
    }
}
