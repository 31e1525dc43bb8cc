//! Nodes, and the links between them.

use std::collections::BTreeMap;

use hermes_api::Name;
use hermes_config::model::ListenAddress;

use super::report::Report;
use crate::resources::specs::NodeSpec;
use crate::resources::{Key, Kind, Spec};

/// The listener of a node that other nodes connect to.
const OVERLAY: &str = "overlay";

pub(super) fn nodes(report: &mut Report<'_>) {
    let tree = report.tree;
    for resource in tree.of_kind(Kind::Node) {
        let Spec::Node(node) = resource.spec() else {
            continue;
        };
        let key = resource.key();
        if node.is_device() {
            device(key, node, report);
        } else {
            proxy(key, node, report);
        }
    }
}

/// The nodes that a proxy keeps connections to.
fn attached(key: &Key, node: &NodeSpec, report: &mut Report<'_>) {
    for (index, hub) in node.attach.iter().enumerate() {
        let field = format!("spec.attach[{index}]");
        if *hub == key.name {
            report.add(
                key,
                &field,
                "the node would attach to itself",
                "name another node",
            );
        } else if report.refers_to_proxy(key, &field, hub) {
            receiver(key, &field, hub, report);
        }
    }
    if !node.attach.is_empty() && !node.listeners.is_empty() {
        let reason = "a node that attaches cannot have listeners of its own yet";
        report.add(key, "spec.listeners", reason, "give them to another node");
    }
}

/// No other node connects to a device.
fn device(key: &Key, node: &NodeSpec, report: &mut Report<'_>) {
    let given = [
        ("spec.listen", node.listen.is_some()),
        ("spec.reach", !node.reach.is_empty()),
        ("spec.ingress", node.ingress),
        ("spec.attach", !node.attach.is_empty()),
        ("spec.plugs", node.plugs.is_some()),
    ];
    for (field, _) in given.into_iter().filter(|(_, is_given)| *is_given) {
        let reason = match field {
            "spec.plugs" => "a user's device answers nothing itself",
            _ => "a user's device is not connected to",
        };
        report.add(key, field, reason, "remove it, or `user`");
    }
}

fn proxy(key: &Key, node: &NodeSpec, report: &mut Report<'_>) {
    attached(key, node, report);
    match &node.listen {
        Some(ListenAddress::Unix(_)) => {
            let reason = "other machines cannot connect to a Unix socket";
            report.add(key, "spec.listen", reason, "write an address and a port");
        }
        Some(_) if node.reach.is_empty() => {
            let reason = "others do not know how to reach this node";
            report.add(
                key,
                "spec.listen",
                reason,
                "add `reach: [\"hub.example.org:8443\"]`",
            );
        }
        None if !node.reach.is_empty() => {
            let reason = "nothing listens behind these addresses";
            report.add(key, "spec.reach", reason, "add `listen: \"0.0.0.0:8443\"`");
        }
        None if node.ingress => {
            let reason = "devices cannot connect to this node";
            report.add(key, "spec.ingress", reason, "add `listen` and `reach`");
        }
        None if node.listeners.is_empty() && node.attach.is_empty() => {
            let reason = "nothing can enter this node";
            report.add(
                key,
                "spec",
                reason,
                "add `listen` and `reach`, `attach`, or `listeners`",
            );
        }
        _ => {}
    }

    // Rules of the compiler name this listener, and would mean another one.
    if node.listen.is_some() && node.listeners.contains_key(OVERLAY) {
        let reason = "the listener for `listen` is called so";
        report.add(
            key,
            "spec.listeners.overlay",
            reason,
            "give it another name",
        );
    }
}

pub(super) fn links(report: &mut Report<'_>) {
    let tree = report.tree;
    let mut first: BTreeMap<[&Name; 3], &Key> = BTreeMap::new();
    for resource in tree.of_kind(Kind::Link) {
        let Spec::Link(link) = resource.spec() else {
            continue;
        };
        let key = resource.key();
        report.refers_to_proxy(key, "spec.from", &link.from);
        if report.refers_to_proxy(key, "spec.to", &link.to) {
            receiver(key, "spec.to", &link.to, report);
        }
        if link.from == link.to {
            let reason = "the link leads from a node to itself";
            report.add(key, "spec.to", reason, "name another node");
        }

        let owner = *first
            .entry([&key.tenant, &link.from, &link.to])
            .or_insert(key);
        if owner != key {
            let reason = format!("{owner} is the same link already");
            report.add(key, "spec", reason, "keep one of them");
        }
    }
}

fn receiver(key: &Key, field: &str, name: &Name, report: &mut Report<'_>) {
    let node = report.graph.node(name);
    if node.is_some_and(|node| node.listen.is_none()) {
        let reason = format!("node `{name}` does not listen for others");
        report.add(
            key,
            field,
            reason,
            format!("add `listen` and `reach` to Node/{name}"),
        );
    }
}
