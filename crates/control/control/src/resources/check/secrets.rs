//! Secrets, and the nodes that have them.

use super::report::Report;
use crate::resources::{Kind, Spec};

pub(super) fn secrets(report: &mut Report<'_>) {
    let tree = report.tree;
    for resource in tree.of_kind(Kind::Secret) {
        let Spec::Secret(secret) = resource.spec() else {
            continue;
        };
        let key = resource.key();
        if secret.file.is_some() {
            let reason = "the text of the file is not here";
            report.add(
                key,
                "spec.file",
                reason,
                "use `hermes apply`, which reads it",
            );
        }
        if secret.value.is_some() {
            let reason = "the text is not sealed, and must not be kept like this";
            report.add(
                key,
                "spec.value",
                reason,
                "use `hermes apply`, which seals it",
            );
        }
        for (index, node) in secret.nodes.iter().enumerate() {
            report.refers_to_proxy(key, &format!("spec.for[{index}]"), node);
        }
    }
}
