//! Slices, and the devices that reach them.

use super::report::Report;
use super::rules::users_of;
use crate::resources::{Kind, SliceName, Spec};

pub(super) fn slices(report: &mut Report<'_>) {
    let tree = report.tree;
    for resource in tree.of_kind(Kind::Slice) {
        let Spec::Slice(slice) = resource.spec() else {
            continue;
        };
        let key = resource.key();
        report.refers_to_proxy(key, "spec.at", &slice.at);
        users_of(key, "spec.members", &slice.members, report);
    }
    for resource in tree.of_kind(Kind::Node) {
        let Spec::Node(node) = resource.spec() else {
            continue;
        };
        let key = resource.key();
        if !node.slices.is_empty() && !node.is_device() {
            let reason = "only a user's device reaches slices";
            report.add(
                key,
                "spec.slices",
                reason,
                "give the node a `user`, or remove the key",
            );
        }
        for (index, slice) in node.slices.iter().enumerate() {
            if tree.resource(&slice.0).is_some() {
                continue;
            }
            let known = |_: &Report<'_>| {
                let known = tree.of_kind(Kind::Slice);
                let known = known.map(|slice| SliceName(slice.key().clone()).to_string());
                known.collect::<Vec<_>>()
            };
            let remedy = report.instead(&slice.to_string(), Kind::Slice, known);
            let field = format!("spec.slices[{index}]");
            report.add(key, &field, format!("there is no slice `{slice}`"), remedy);
        }
    }
}
