//! Names and routes: each leads to a service, and means one thing.

use std::collections::BTreeMap;

use hermes_api::Name;
use hermes_config::model::{HostMatch, TargetMatch};

use super::report::Report;
use super::rules::users_of;
use crate::resources::specs::{NameSpec, RouteSpec};
use crate::resources::{Key, Kind, Spec};

pub(super) fn names(report: &mut Report<'_>) {
    let tree = report.tree;
    let mut owners: BTreeMap<(&Name, String), &Key> = BTreeMap::new();
    for resource in tree.of_kind(Kind::Name) {
        let Spec::Name(name) = resource.spec() else {
            continue;
        };
        let key = resource.key();
        report.refers(key, "spec.service", Kind::Service, &name.service);
        users_of(
            key,
            "spec.for",
            name.users.as_deref().unwrap_or_default(),
            report,
        );

        // Of two equal names the first would always decide, and its author would not know of the other.
        for meaning in meanings(key, name) {
            let owner = *owners.entry((&key.tenant, meaning.clone())).or_insert(key);
            if owner != key {
                let reason = format!("{owner} means the same: {meaning}");
                let remedy = "keep one of them, or say in `for` whose each is";
                report.add(key, "spec.name", reason, remedy);
            }
        }
        for target in name.name.iter().flatten() {
            if matches!(target.host, HostMatch::Service(_)) {
                let reason = format!("`{target}` is no host");
                report.add(
                    key,
                    "spec.name",
                    reason,
                    "write hosts or prefixes of addresses",
                );
            }
        }
    }
}

/// Each target with each of its users, as texts that are equal where they mean the same.
fn meanings(key: &Key, name: &NameSpec) -> Vec<String> {
    let own: Result<TargetMatch, _> = key.name.as_str().parse();
    let targets: Vec<String> = match &name.name {
        Some(targets) => targets.iter().map(ToString::to_string).collect(),
        None => own.iter().map(ToString::to_string).collect(),
    };
    let users: Vec<String> = match &name.users {
        Some(users) => users.iter().map(|user| format!(" for {user}")).collect(),
        None => vec![String::new()],
    };
    let each = targets.iter();
    each.flat_map(|target| users.iter().map(move |user| format!("{target}{user}")))
        .collect()
}

pub(super) fn routes(report: &mut Report<'_>) {
    let tree = report.tree;
    for resource in tree.of_kind(Kind::Route) {
        let Spec::Route(route) = resource.spec() else {
            continue;
        };
        let key = resource.key();
        report.refers(key, "spec.to", Kind::Service, &route.to);
        for (index, node) in route.via.iter().enumerate() {
            report.refers_to_proxy(key, &format!("spec.via[{index}]"), node);
        }
        twice(key, route, report);

        let matches = &route.matches;
        users_of(
            key,
            "spec.match.user",
            matches.user.as_deref().unwrap_or_default(),
            report,
        );
        let of_one_node = [
            ("spec.match.source", matches.source.is_some()),
            ("spec.match.listener", matches.listener.is_some()),
        ];
        for (field, _) in of_one_node.into_iter().filter(|(_, is_given)| *is_given) {
            let reason = "the condition holds at one node, and each node on the way asks for it";
            report.add(key, field, reason, "match the target, the user or a field");
        }
    }
}

/// A detour that comes back to a node would turn in a circle: the node cannot tell the first time from the second.
fn twice(key: &Key, route: &RouteSpec, report: &mut Report<'_>) {
    for (index, node) in route.via.iter().enumerate() {
        if route.via[..index].contains(node) {
            let reason = format!("exchanges would come to `{node}` twice, and turn in a circle");
            report.add(
                key,
                &format!("spec.via[{index}]"),
                reason,
                "name each node once",
            );
        }
    }
}
